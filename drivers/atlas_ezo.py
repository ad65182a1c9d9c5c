"""Atlas Scientific EZO circuits on a UART: pH, dissolved oxygen, RTD temperature (EZO data sheets).

`R` asks for one reading and takes the circuit most of a second. Continuous mode is ended at verification:
the reading returned is always the one that was asked for.
"""

from __future__ import annotations

from typing import ClassVar

from drivers.atlas_uart import AtlasEzo
from drivers.device import (
    DeviceConfig,
    DeviceFault,
    DeviceModel,
    Guarantee,
    Page,
    Refused,
    Sensor,
)
from drivers.settings import known_only, number_of
from drivers.transport.link import Link
from drivers.transport.replies import bad_reply, number

READING_TIMEOUT_S = 2.5
EARLIEST_READING_S = 0.3
"""No EZO circuit measures faster (600 to 900 ms): a sooner line is a repeated or a late one (C2)."""


class AtlasEzoSensor(AtlasEzo):
    """One measuring circuit with one point."""

    point: ClassVar[str]
    unit: ClassVar[str]
    low: ClassVar[float]
    high: ClassVar[float]

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        super().__init__(link, config)
        known_only(config.settings, config.name, frozenset({"earliest_reading_s"}))
        self._earliest_s = number_of(
            config.settings, "earliest_reading_s", config.name, default=EARLIEST_READING_S, low=0.0, high=1.0
        )
        self.sensors[self.point] = _Reading(self)

    async def read(self) -> float:
        """One new reading in `unit`."""
        lines = await self._conversation.ask(
            b"R\r", self.answer(earliest_s=self._earliest_s), timeout_s=READING_TIMEOUT_S
        )
        if fault := self._fault:
            self._fault = None
            raise fault
        if len(lines) != 1:
            self._conversation.doubt()
            raise bad_reply(b"\r".join(lines), self.config.name, "one reading")
        value = number(lines[0], self.config.name)
        if not self.low <= value <= self.high:
            raise DeviceFault(
                f"it reads {value:g} {self.unit}, outside {self.low:g} to {self.high:g}",
                where=self.config.name,
                cause="the probe is missing, broken or dry, or its cable is open",
                action="check the probe and its connector",
            )
        return value


class _Reading(Sensor):
    def __init__(self, circuit: AtlasEzoSensor) -> None:
        self._circuit = circuit
        self.unit = circuit.unit

    async def read(self) -> float:
        return await self._circuit.read()


def _model(id: str, name: str, manual: str) -> DeviceModel:
    return DeviceModel(
        id=id,
        vendor="Atlas Scientific",
        name=name,
        kind="sensor",
        transports=("serial", "tcp", "sim"),
        capabilities=("read",),
        guarantee=Guarantee.HOST,
        manual=manual,
    )


_WIRING = (
    "UART, 3.3 or 5 V (TX to RX, common ground) through a USB-serial adapter; 9600 8N1. Use an isolated carrier: probes in"
    " one medium disturb each other through a common ground."
)
_SETTINGS = (("earliest_reading_s", "a reading that comes sooner is an older one, 0 to 1 s (default 0.3)"),)
_COMMANDS = (
    ("C,0", "end the readings that every restart turns on", "UART mode"),
    ("i", "who answers, firmware; fences late replies", "UART mode"),
    ("*OK,1", "response codes on", "DO data sheet p. 32"),
    ("Status", "reason of the last restart, supply voltage", "UART mode"),
    ("R", "one reading, after 0.6 to 0.9 s", "UART mode"),
)
_TRAPS = (
    "It sends readings by itself after every restart: these are never taken for the one that was asked for.",
    "Capitals of answers differ between firmware (`?Status`, `?STATUS`): both are understood.",
)


class AtlasEzoPh(AtlasEzoSensor):
    """EZO-pH: 0 to 14."""

    model = _model("atlas-ezo-ph", "EZO-pH", "EZO-pH data sheet, UART mode")
    page = Page(_WIRING, _SETTINGS, _COMMANDS, (*_TRAPS, "Temperature is not sent to it: it compensates for 25 °C."))
    circuit = "PH"
    point, unit, low, high = "ph", "pH", 0.0, 14.0


class AtlasEzoDo(AtlasEzoSensor):
    """EZO-DO: dissolved oxygen in % of air saturation; mg/L is turned off: a reading is one number."""

    model = _model("atlas-ezo-do", "EZO-DO", "EZO-DO data sheet p32, p55, UART mode")
    page = Page(
        _WIRING,
        _SETTINGS,
        (*_COMMANDS, ("O,? and O,%,1 O,mg,0", "put out % alone; written only when it differs", "p. 55")),
        (
            *_TRAPS,
            "The data sheet prints the answer to `O,?` with a comma more than to other questions: both are read.",
        ),
    )
    circuit = "DO"
    point, unit, low, high = "oxygen", "%", 0.0, 500.0

    async def _settle_in(self) -> None:
        if await self._outputs() == {"%"}:
            return  # kept over a power cut: written only when it differs, to spare the memory
        await self.command(b"O,%,1")
        await self.command(b"O,mg,0")
        if (outputs := await self._outputs()) != {"%"}:
            raise Refused(
                f"it still puts out {', '.join(sorted(outputs)) or 'nothing'} instead of % alone",
                where=self.config.name,
                cause="its settings are locked",
                action="unlock it (Plock,0) and set O,%,1 and O,mg,0",
            )

    async def _outputs(self) -> set[str]:
        # The data sheet prints “?,O,%,mg”, its other queries “?O,…”: both are understood.
        words = (await self.query(b"O,?")).decode("ascii").lstrip("?,").split(",")
        if not words or words[0].upper() != "O":
            raise bad_reply(",".join(words).encode(), self.config.name, "the list of outputs")
        return {word.lower() for word in words[1:] if word}


class AtlasEzoRtd(AtlasEzoSensor):
    """EZO-RTD: temperature in °C."""

    model = _model("atlas-ezo-rtd", "EZO-RTD", "EZO-RTD data sheet, UART mode")
    page = Page(_WIRING, _SETTINGS, (*_COMMANDS, ("S,c", "degrees Celsius", "UART mode")), _TRAPS)
    circuit = "RTD"
    point, unit, low, high = "temperature", "degC", -126.0, 850.0

    async def _settle_in(self) -> None:
        await self.command(b"S,c")
