"""Huber thermostats with the PB protocol: telegrams of ten characters (Pilot ONE and Unistat controllers).

`{M`, two digits for the variable, four for its value or `****` to read, CR LF; the answer starts with `{S`. Values
are signed hundredths of a degree in hexadecimal; -151.00 °C stands for “no value”. Start and circulation are
switched at the controller: the known facts of those variables do not suffice to command them.
"""

from __future__ import annotations

import re

from drivers.commands import Guarantee
from drivers.device import Device, DeviceConfig, DeviceModel, Identity, Page, Sensor
from drivers.errors import DeviceFault, Refused, WrongDevice
from drivers.settings import ChoiceSetting, NumberSetting, bad_setting, known_only
from drivers.thermostat import Thermostat, limit_settings, limits_of
from drivers.transport.conversation import Conversation, SyncQuery
from drivers.transport.link import Link, Parser
from drivers.transport.replies import MAX_LINE_BYTES, bad_reply
from drivers.transport.url import LineSettings

TIMEOUT_S = 0.3
SETPOINT, INTERNAL, RETURN, PROCESS = 0x00, 0x01, 0x02, 0x07
SERIAL_HIGH, SERIAL_LOW = 0x1B, 0x1C
LEAST, MOST = 0x30, 0x31
NO_VALUE = -15100
"""-151.00 °C: no sensor connected."""

_ANSWER = re.compile(rb"\{S([0-9A-F]{2})([0-9A-F]{4})", re.IGNORECASE)

LIMITS = limit_settings(300.0)
REST = NumberSetting(
    key="rest_c", meaning="set-point at rest, below low_c", low=-100.0, high=300.0, default=20.0, unit="°C"
)
REGULATES = ChoiceSetting(
    key="regulates", meaning="temperature of the point", among=("internal", "process"), default="internal"
)


class HuberPb(Device):
    """One thermostat: `temperature` (°C, internal or, if chosen, of the process) is measured, `setpoint` is set."""

    model = DeviceModel(
        id="huber-pb",
        vendor="Huber",
        name="thermostats with the PB protocol",
        kind="thermostat",
        transports=("serial", "tcp", "sim"),
        capabilities=("level", "read"),
        guarantee=Guarantee.GUARD,
        manual="PB protocol as used by an open driver and its recorded telegrams; the manufacturer's text was not available",
        verification="verified against recorded telegrams and an independent simulator; no manual was available",
    )
    unchecked = True
    line = LineSettings(baud=9600, bits=8, parity="N", stop=1)
    queries = re.compile(rb"\{M[0-9A-F]{2}\*{4}\r\n")
    settings = (*LIMITS, REST, REGULATES)
    page = Page(
        wiring="RS232 at the controller or Com.G@te, 9600 8N1, or its network port through a tcp link. Start temperature "
        "control and circulation at the controller.",
        commands=(
            ("{M00", "set-point, read and written", "variable 00"),
            ("{M01, {M07", "internal and process temperature", "variables 01, 07"),
            ("{M02", "temperature of the return", "variable 02"),
            ("{M1B, {M1C", "serial number; barrier", "variables 1B, 1C"),
            ("{M30, {M31", "minimum and maximum set-point", "variables 30, 31"),
        ),
        traps=(
            "It regulates on when the host dies: the guard process writes rest_c; the over-temperature cut-out is the final "
            "protection, set it by hand.",
            "Rest is a set-point, not “off”: start and stop are left to the controller, because the variables for it "
            "(14, 16) are not confirmed. A thermostat that is stopped takes a set-point and does not follow it: watch "
            "the temperature.",
            "It does not answer queries for unknown variables.",
            "-151.00 °C means that no sensor is connected; it is a fault here, never a number.",
        ),
    )

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        super().__init__(link, config)
        settings, where = config.settings, config.name
        known_only(settings, where, self.settings)
        if config.address:
            raise bad_setting(where, "address", f"is “{config.address}”", "leave it out: the protocol has none")
        limits_c = limits_of(settings, where, LIMITS)
        rest_c = REST.of(settings, where)
        if rest_c >= limits_c[0]:
            raise bad_setting(
                where, "rest_c", f"is {rest_c:g}, not below low_c ({limits_c[0]:g})", "write a cooler temperature"
            )
        self.rest_raw = round(rest_c * 100)
        regulates = REGULATES.of(settings, where)
        self.regulated = PROCESS if regulates == "process" else INTERNAL
        self.min_raw, self.max_raw = -15100, 32767
        self._conversation = Conversation(
            link,
            where,
            timeout_s=TIMEOUT_S,
            # The serial number is not queried elsewhere once the thermostat is verified.
            barrier=SyncQuery(_telegram(SERIAL_HIGH, None), lambda: self._value(SERIAL_HIGH)),
        )
        self._conversation.anonymous = True
        self.sensors["temperature"] = _Temperature(self, self.regulated)
        self.sensors["return"] = _Temperature(self, RETURN)
        self.actuators["setpoint"] = PbSetpoint(self, limits_c)
        link.attach(self._conversation, self.verify)

    @property
    def conversation(self) -> Conversation:
        """This driver's side of the link."""
        return self._conversation

    async def _identify(self) -> Identity:
        high, low = await self.read(SERIAL_HIGH), await self.read(SERIAL_LOW)
        self.min_raw, self.max_raw = await self.read(LEAST), await self.read(MOST)
        if self.min_raw >= self.max_raw:
            raise WrongDevice(
                f"it reports set-points from {self.min_raw / 100:g} to {self.max_raw / 100:g} degC",
                where=self.config.name,
                cause="another device with a similar protocol, or limits that were set wrongly in it",
                action="check the model in the rig file and the limits in the controller",
            )
        if not self.min_raw <= self.rest_raw <= self.max_raw:
            raise bad_setting(
                self.config.name,
                "rest_c",
                f"is {self.rest_raw / 100:g}, outside the thermostat's own {self.min_raw / 100:g} to "
                f"{self.max_raw / 100:g}",
                "write a temperature that it takes, or widen its limits",
            )
        await self.read(SETPOINT)
        return Identity(model="PB thermostat", serial=str((high & 0xFFFF) << 16 | low & 0xFFFF))

    async def read(self, variable: int) -> int:
        """Return a variable as a signed number."""
        return await self._conversation.ask(_telegram(variable, None), self._value(variable))

    async def write(self, variable: int, value: int) -> int:
        """Write a variable; return the value that the thermostat then reports."""
        return await self._conversation.ask(_telegram(variable, value), self._value(variable))

    async def temperature_c(self, variable: int) -> float:
        """Return a temperature variable in °C; raise a fault for a missing sensor."""
        raw = await self.read(variable)
        if raw == NO_VALUE:
            raise DeviceFault(
                f"variable {variable:02X} has no value (-151)",
                where=self.config.name,
                cause="no sensor is connected for it, or it is broken",
                action="connect the sensor, or choose regulates: internal in the rig file",
            )
        return raw / 100.0

    def _value(self, variable: int) -> Parser[int]:
        """Return a parser of the answer for `variable`; it skips others."""

        def parse(buffer: bytearray) -> int | None:
            while (at := buffer.find(b"\r\n")) >= 0:
                line = bytes(buffer[:at])
                del buffer[: at + 2]
                match = _ANSWER.fullmatch(line[-8:]) if len(line) >= 8 else None  # noise may precede it
                if match and int(match[1], 16) == variable:
                    return int.from_bytes(bytes.fromhex(match[2].decode("ascii")), "big", signed=True)
            if len(buffer) > MAX_LINE_BYTES:
                raise bad_reply(bytes(buffer), self.config.name, "a telegram of ten characters")
            return None

        return parse


class _Temperature(Sensor):
    unit = "degC"

    def __init__(self, thermostat: HuberPb, variable: int) -> None:
        self._thermostat = thermostat
        self._variable = variable

    async def read(self) -> float:
        return await self._thermostat.temperature_c(self._variable)


class PbSetpoint(Thermostat):
    """Variable 00; rest is the set-point `rest_c`."""

    def __init__(self, thermostat: HuberPb, limits_c: tuple[float, float]) -> None:
        super().__init__(f"{thermostat.config.name}.setpoint", thermostat.conversation, limits_c)
        self._thermostat = thermostat

    async def setpoint_c(self) -> float:
        """Return the set-point (°C); 0 when it is that of rest."""
        raw = await self._thermostat.read(SETPOINT)
        return 0.0 if raw == self._thermostat.rest_raw else raw / 100.0

    async def measured_c(self) -> float:
        """Return the temperature chosen with `regulates` (°C)."""
        return await self._thermostat.temperature_c(self._thermostat.regulated)

    async def start(self, value_c: float) -> None:
        """Write the set-point unless it is already set, and read it back."""
        await self._hold(round(value_c * 100))

    async def rest(self) -> None:
        """Write the set-point of rest and read it back."""
        await self._hold(self._thermostat.rest_raw)

    async def _hold(self, raw: int) -> None:
        thermostat = self._thermostat
        if await thermostat.read(SETPOINT) == raw:
            return
        if not thermostat.min_raw <= raw <= thermostat.max_raw:
            raise Refused(
                f"{raw / 100:g} degC is outside {thermostat.min_raw / 100:g} to {thermostat.max_raw / 100:g}",
                where=self.where,
                cause="the thermostat's own set-point limits are narrower than those of the rig file",
                action="widen its limits, or correct low_c, high_c and rest_c in the rig file",
            )
        await thermostat.write(SETPOINT, raw)
        if (stands := await thermostat.read(SETPOINT)) != raw:
            raise DeviceFault(
                f"its set-point is {stands / 100:g} instead of {raw / 100:g}",
                where=self.where,
                cause="the controller is locked, or a program runs in it",
                action="unlock it, end the program and set remote operation",
            )


def _telegram(variable: int, value: int | None) -> bytes:
    """Return ten characters: a query with None, a command with a signed number."""
    shown = b"****" if value is None else b"%04X" % (value & 0xFFFF)
    return b"{M%02X%s\r\n" % (variable, shown)
