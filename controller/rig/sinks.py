"""The part `telemetry` of the rig file: where readings are sent."""

from __future__ import annotations

from pydantic import Field

from controller.rig.part import RigPart


class Mqtt(RigPart):
    """An MQTT broker to send readings to; the password stays in a file of its own."""

    broker: str = Field(pattern=r"^(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9.-]+)(:[0-9]{1,5})?$")
    prefix: str = Field(default="choroid", pattern=r"^[^\s#+/][^\s#+]*$")
    user: str | None = None
    password_file: str | None = None
    tls: bool = False
    ca_file: str | None = None
    """Whose certificates are believed; None = the system's."""

    @property
    def host(self) -> str:
        """The broker's name or address."""
        return self._host_and_port[0]

    @property
    def port(self) -> int:
        """The broker's port; 1883, or 8883 with TLS, when none is given."""
        return self._host_and_port[1]

    @property
    def _host_and_port(self) -> tuple[str, int]:
        host, _, port = self.broker.rpartition(":")
        if not host or not port.isdigit():
            host, port = self.broker, "8883" if self.tls else "1883"
        return host.strip("[]"), int(port)


class Influx(RigPart):
    """A database that speaks the API of InfluxDB v2, to write readings to; the token stays in a file of its own."""

    url: str = Field(pattern=r"^https?://(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9.-]+)(:[0-9]{1,5})?(/[^\s?#]*)?$")
    org: str = Field(pattern=r"^\S(.*\S)?$")
    bucket: str = Field(pattern=r"^\S(.*\S)?$")
    token_file: str | None = None
    ca_file: str | None = None
    """Whose certificates are believed; None = the system's."""


class Telemetry(RigPart):
    """Sinks that carry readings away."""

    mqtt: Mqtt | None = None
    influx: Influx | None = None
