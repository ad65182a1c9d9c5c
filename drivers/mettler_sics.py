"""Balances with MT-SICS level 0 and 1 (Mettler-Toledo reference manual “MT-SICS Interface Commands”).

`SI` asks for the weight of this moment. The answer `S S` carries a stable weight, `S D` a dynamic one: true, and still
in motion. Overload, underload, a busy balance and every error code are faults, never numbers.
"""

from __future__ import annotations

import re

from drivers.commands import Guarantee
from drivers.device import Device, DeviceConfig, DeviceModel, Identity, Page, Sensor
from drivers.errors import DeviceFault, Refused
from drivers.settings import NumberSetting, known_only
from drivers.transport.conversation import Conversation, SyncQuery
from drivers.transport.link import Link
from drivers.transport.replies import Form, bad_reply, decimals, take_line
from drivers.transport.url import LineSettings

TIMEOUT_S = 0.6

_WEIGHT = re.compile(rb"S ([SD]) {1,10}(-?\d{1,7}(?:\.\d{1,5})?) (\S{1,4})")
_SERIAL = re.compile(rb'I4 A "([^"\r\n]{0,32})"')
_NO_WEIGHT = {
    b"S I": (
        "it cannot weigh at this moment",
        "it is busy, or weighs unsteadily",
        "wait; shield it from draught",
    ),
    b"S +": ("it is overloaded", "more stands on it than it can weigh", "take the load off"),
    b"S -": ("it is underloaded", "its pan is missing or lifted", "put the pan in place"),
    b"ET": (
        "it received our command garbled",
        "noise, or wrong parity",
        "check the line settings and the cable",
    ),
    b"EL": ("it cannot carry out the command", "it is in a menu or in calibration", "leave the menu"),
}

TARE = NumberSetting(
    key="tare_g", meaning="weight subtracted from every reading", low=-1e5, high=1e5, default=0.0, unit="g"
)


class MettlerSics(Device):
    """One balance; its only point is `mass` (g, less the setting `tare_g`)."""

    model = DeviceModel(
        id="mettler-sics",
        vendor="Mettler-Toledo",
        name="MT-SICS balance",
        kind="balance",
        transports=("serial", "tcp", "sim"),
        capabilities=("read",),
        guarantee=Guarantee.HOST,
        manual="MT-SICS reference manual, levels 0 and 1",
    )
    unchecked = True
    line = LineSettings(baud=9600, bits=8, parity="N", stop=1)
    queries = re.compile(rb"(?:I[0-9]{1,2}|SI?)\r\n")
    settings = (TARE,)
    page = Page(
        wiring="RS-232 (null modem, DB9) or USB (a serial port of its own); 9600 8N1, no handshake in the balance's menu.",
        commands=(
            ("I4", "serial number: identification; barrier", "level 0"),
            ("SI", "the current weight, stable or dynamic", "level 0"),
        ),
        traps=(
            "`S` waits for a stable weight and may not answer for a long time while a pump runs: `SI` is used instead. A "
            "dynamic weight (`S D`) is a good reading that is not stable.",
            "Some balances ignore a command that comes before the last answer: one query at a time.",
            "`SIR` and `SR` send continuously until `@`: never used.",
            "The balance answers in the unit of its display; anything but g is a fault, never a reading.",
        ),
    )

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        super().__init__(link, config)
        known_only(config.settings, config.name, self.settings)
        self.tare_g = TARE.of(config.settings, config.name)
        self._conversation = Conversation(
            link, config.name, timeout_s=TIMEOUT_S, barrier=SyncQuery(b"I4\r\n", lambda: self._serial)
        )
        # A dynamic weight may come with fewer digits than a stable one.
        self._forms = {b"S": Form(), b"D": Form()}
        self.mass = MettlerMass(self)
        self.sensors["mass"] = self.mass
        link.attach(self._conversation, self.verify)

    @property
    def conversation(self) -> Conversation:
        """This driver's side of the link."""
        return self._conversation

    async def _identify(self) -> Identity:
        self._forms = {b"S": Form(), b"D": Form()}  # another balance may have been connected
        return Identity(model="MT-SICS balance", serial=await self._conversation.ask(b"I4\r\n", self._serial))

    def _serial(self, buffer: bytearray) -> str | None:
        while (line := take_line(buffer, b"\r\n", self.config.name)) is not None:
            if match := _SERIAL.fullmatch(line):
                return match[1].decode("ascii", "replace")
            if line == b"ES":
                raise self._not_understood()
        return None

    def weight(self, buffer: bytearray) -> tuple[float, bool] | None:
        """Parse the answer to `SI`: weight (g), and whether it is stable."""
        while (line := take_line(buffer, b"\r\n", self.config.name)) is not None:
            if match := _WEIGHT.fullmatch(line):
                if match[3] != b"g":
                    raise DeviceFault(
                        f"it weighs in {match[3].decode('ascii', 'replace')}, not in g",
                        where=self.config.name,
                        cause="its display unit was changed",
                        action="set its host unit to gram",
                    )
                self._forms[match[1]].check((len(line), decimals(match[2])), line, self.config.name)
                return float(match[2]), match[1] == b"S"
            if told := _NO_WEIGHT.get(line):
                raise DeviceFault(told[0], where=self.config.name, cause=told[1], action=told[2])
            if line == b"ES":
                raise self._not_understood()
            if line.startswith(b"S S Error "):
                raise DeviceFault(
                    f"it reports {line[4:].decode('ascii', 'replace')}",
                    where=self.config.name,
                    cause="a fault of its own hardware",
                    action="look the code up in its manual; restart it",
                )
            if line.startswith(b"S"):
                raise bad_reply(line, self.config.name, "a weight")
        return None

    async def weigh(self) -> tuple[float, bool]:
        """Return the current weight (g, gross), and whether it is stable."""
        return await self._conversation.ask(b"SI\r\n", self.weight)

    def _not_understood(self) -> Refused:
        return Refused(
            "it does not know the command (ES)",
            where=self.config.name,
            cause="a balance without MT-SICS, or noise",
            action="check the model and the line settings",
        )


class MettlerMass(Sensor):
    """Net weight on the pan: gross weight less `tare_g`."""

    unit = "g"

    def __init__(self, balance: MettlerSics) -> None:
        self._balance = balance

    async def read(self) -> float:
        """Return the current net weight (g)."""
        gross_g, self.stable = await self._balance.weigh()
        return gross_g - self._balance.tare_g
