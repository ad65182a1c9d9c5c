"""Atlas Scientific EZO circuits on a UART: pH, dissolved oxygen, RTD temperature, conductivity, ORP (EZO data sheets).

`R` asks for one reading and takes the circuit most of a second. Continuous mode is ended at verification:
the reading returned is always the one that was requested.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import ClassVar

from drivers.atlas_uart import AtlasEzo
from drivers.commands import Calibrate, CalibrationStatus, Guarantee
from drivers.device import Calibrator, DeviceConfig, DeviceModel, Page, Sensor
from drivers.errors import BadReply, DeviceFault, Refused
from drivers.probe_health import PH_ITEMS, HealthItem, ProbeHealth
from drivers.settings import NumberSetting, Setting, known_only
from drivers.transport.link import Link
from drivers.transport.replies import Form, bad_reply, decimals, number

READING_TIMEOUT_S = 2.5
CALIBRATION_TIMEOUT_S = 2.5
"""A calibration takes 900 ms."""
STATE_ASKS = 4
K_OFF = 0.005
"""Largest difference of a setting that the circuit prints with two decimals."""
EARLIEST_READING_S = 0.3
"""No EZO circuit measures faster (600 to 900 ms): an earlier line is a repeated or a late one (C2)."""

EARLIEST_READING = NumberSetting(
    key="earliest_reading_s",
    meaning="a reading that arrives sooner is an older one",
    low=0.0,
    high=1.0,
    default=EARLIEST_READING_S,
    unit="s",
)
PROBE_K = NumberSetting(
    key="probe_k",
    meaning="cell constant of the probe",
    low=0.1,
    high=10.0,
    unit="per cm",
    without="default: what the circuit has stored",
)
TEMPERATURE = NumberSetting(
    key="temperature_c",
    meaning="temperature that the circuit compensates for",
    low=0.0,
    high=100.0,
    unit="°C",
    without="default: 25 after every restart",
)


class AtlasEzoSensor(AtlasEzo):
    """One measuring circuit with one point."""

    point: ClassVar[str]
    unit: ClassVar[str]
    low: ClassVar[float]
    high: ClassVar[float]
    settings: ClassVar[tuple[Setting, ...]] = (EARLIEST_READING,)
    fixed_decimals: ClassVar[bool] = True
    """Whether a reading always has the same number of decimals."""

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        super().__init__(link, config)
        known_only(config.settings, config.name, self.settings)
        self._earliest_s = EARLIEST_READING.of(config.settings, config.name)
        self._form = Form()
        self.sensors[self.point] = _Reading(self)

    async def read(self) -> float:
        """Return one new reading in `unit`."""
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
        if self.fixed_decimals:
            self._form.check((decimals(lines[0]),), lines[0], self.config.name)
        return value

    async def put_out_only(self, wanted: str) -> None:
        """Make `wanted` the only output. The circuit stores it: it is written only when it differs, to spare the
        memory.
        """
        outputs = await self._outputs()
        if {each.lower() for each in outputs} == {wanted.lower()}:
            return
        await self.command(f"O,{wanted},1".encode())
        for each in outputs:
            if each.lower() != wanted.lower():
                await self.command(f"O,{each},0".encode())
        outputs = await self._outputs()
        if {each.lower() for each in outputs} != {wanted.lower()}:
            raise Refused(
                f"it still puts out {', '.join(sorted(outputs)) or 'nothing'} instead of {wanted} alone",
                where=self.config.name,
                cause="its settings are locked",
                action=f"unlock it (Plock,0) and have it put out {wanted} alone (O,{wanted},1; 0 for all others)",
            )

    async def _outputs(self) -> list[str]:
        # The data sheet prints “?,O,%,mg”, its other queries “?O,…”: both are understood.
        words = (await self.query(b"O,?")).decode("ascii").lstrip("?,").split(",")
        if not words or words[0].upper() != "O":
            raise bad_reply(",".join(words).encode(), self.config.name, "the list of outputs")
        return [word for word in words[1:] if word.replace("%", "a").isalnum()]


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
_COMMANDS = (
    ("C,0", "end the readings that every restart turns on", "UART mode"),
    ("i", "who answers, firmware; fences late replies", "UART mode"),
    ("*OK,1", "response codes on", "DO data sheet p. 32"),
    ("Status", "reason of the last restart, supply voltage", "UART mode"),
    ("R", "one reading, after 0.6 to 0.9 s", "UART mode"),
)
_TRAPS = (
    "It sends readings by itself after every restart: these are never taken for the one that was requested.",
    "Capitals of answers differ between firmware (`?Status`, `?STATUS`): both are understood.",
)


class AtlasEzoPh(AtlasEzoSensor):
    """EZO-pH: 0 to 14."""

    model = _model("atlas-ezo-ph", "EZO-pH", "EZO-pH data sheet, UART mode")
    page = Page(
        _WIRING,
        "",
        (
            *_COMMANDS,
            (
                "Cal,mid,n; Cal,low,n; Cal,high,n",
                "what it measures now is pH n; only for a recipe",
                "UART mode",
            ),
            ("Cal,?", "how many places are set", "UART mode"),
            (
                "Slope,?",
                "slope below and above the middle in % of an ideal probe, zero offset in mV: at its start, daily and after"
                " a calibration",
                "UART mode",
            ),
        ),
        (
            *_TRAPS,
            "Temperature is not sent to it: it compensates for 25 °C.",
            "Cal,mid comes first and discards the other places; a place is kept over a power cut.",
        ),
    )
    circuit = "PH"
    point, unit, low, high = "ph", "pH", 0.0, 14.0

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        super().__init__(link, config)
        calibration = _PhCalibration(self)
        self.calibrators[self.point] = calibration
        self.health = _PhHealth(calibration)


class _PhCalibration(Calibrator):
    """Calibrates a pH circuit at three points: the middle, and one on either side of it (EZO-pH data sheet, UART mode,
    “Calibration”).
    """

    unit = "pH"
    low, high = 1.0, 13.0

    def __init__(self, circuit: AtlasEzoPh) -> None:
        self._circuit = circuit

    async def calibrate(self, command: Calibrate) -> None:
        await self._circuit.command(
            f"Cal,{command.place},{command.value:.2f}".encode(), timeout_s=CALIBRATION_TIMEOUT_S
        )

    async def state(self) -> CalibrationStatus:
        """Ask for the calibration until two replies in a row agree: one digit that is lost or doubled is another slope."""
        known = await self._told()
        for _ in range(STATE_ASKS):
            told = await self._told()
            if told == known:
                return told
            known = told
        raise BadReply(
            "it told another state of its calibration each time",
            where=self._circuit.config.name,
            cause="noise on the line",
            action="look at its cable, then ask again",
        )

    async def _told(self) -> CalibrationStatus:
        name = self._circuit.config.name
        told, slopes = await self._circuit.query(b"Cal,?"), await self._circuit.query(b"Slope,?")
        places = re.fullmatch(rb"\?CAL,([0-3])", told, re.IGNORECASE)
        slope = re.fullmatch(rb"\?SLOPE,([0-9.]+),([0-9.]+)(?:,(-?[0-9.]+))?", slopes, re.IGNORECASE)
        if places is None or slope is None:
            raise bad_reply(told if places is None else slopes, name, "what it says of its calibration")
        low, high = (number(slope[which], name) / 100.0 for which in (1, 2))
        return CalibrationStatus(int(places[1]), low, high, None if slope[3] is None else number(slope[3], name))


class _PhHealth(ProbeHealth):
    """Slope and zero offset, as the circuit found them at its last calibration; older firmware tells no offset."""

    point = AtlasEzoPh.point
    items = PH_ITEMS

    def __init__(self, calibration: _PhCalibration) -> None:
        self._calibration = calibration

    async def read(self) -> dict[str, float]:
        told = await self._calibration.state()
        figures = {"slope_acid": told.slope_low, "slope_base": told.slope_high}
        found = {name: 100.0 * slope for name, slope in figures.items() if slope is not None}
        return found if told.offset_mv is None else found | {"zero_offset": told.offset_mv}


class AtlasEzoDo(AtlasEzoSensor):
    """EZO-DO: dissolved oxygen in % of air saturation; mg/L is turned off: a reading is one number."""

    model = _model("atlas-ezo-do", "EZO-DO", "EZO-DO data sheet p32, p55, UART mode")
    page = Page(
        _WIRING,
        "",
        (*_COMMANDS, ("O,? and O,%,1 O,mg,0", "put out % alone; written only when it differs", "p. 55")),
        (
            *_TRAPS,
            "The data sheet prints the answer to `O,?` with a comma more than to other questions: both are read.",
        ),
    )
    circuit = "DO"
    point, unit, low, high = "oxygen", "%", 0.0, 500.0

    async def _settle_in(self) -> None:
        await self.put_out_only("%")


class AtlasEzoRtd(AtlasEzoSensor):
    """EZO-RTD: temperature in °C."""

    model = _model("atlas-ezo-rtd", "EZO-RTD", "EZO-RTD data sheet, UART mode")
    page = Page(_WIRING, "", (*_COMMANDS, ("S,c", "degrees Celsius", "UART mode")), _TRAPS)
    circuit = "RTD"
    point, unit, low, high = "temperature", "degC", -126.0, 850.0

    async def _settle_in(self) -> None:
        if not self.link.read_only:
            await self.command(b"S,c")
        elif (told := await self.query(b"S,?")).upper() != b"?S,C":
            raise Refused(
                f"it does not measure in °C ({told.decode('ascii', 'replace')})",
                where=self.config.name,
                cause="it has not been set up yet",
                action="start the controller, which sets it",
            )


FRAGMENTS = "written from fragments of the data sheet and open drivers, against a simulator written apart from it"


class AtlasEzoEc(AtlasEzoSensor):
    """EZO-EC: conductivity in µS/cm; total dissolved solids, salinity and gravity are turned off."""

    model = replace(_model("atlas-ezo-ec", "EZO-EC", "EZO-EC data sheet, UART mode"), verification=FRAGMENTS)
    circuit = "EC"
    fixed_decimals = False  # it prints a fixed number of significant digits
    point, unit, low, high = "conductivity", "uS/cm", 0.0, 500_000.0
    settings = (EARLIEST_READING, PROBE_K, TEMPERATURE)

    page = Page(
        wiring=_WIRING,
        commands=(
            *_COMMANDS,
            ("O,?", "what it puts out", "UART mode"),
            ("O,EC,1", "put out conductivity, and O,…,0 for all others: only if it differs", "UART mode"),
            ("K,?", "cell constant it counts with, at its start and daily", "UART mode"),
            ("K,n", "set it, only if probe_k is set and differs", "UART mode"),
            ("T,?", "temperature it compensates for", "UART mode"),
            ("T,n", "set it, only if temperature_c is set and differs", "UART mode"),
        ),
        traps=(
            *_TRAPS,
            "Conductivity changes by about 2 % a degree: without temperature_c the reading is right at 25 °C only.",
            "K and the list of outputs are kept in the circuit's memory: written only when they differ.",
            "A probe in air reads 0: no fault, for an empty chamber reads so too.",
            "The pages read print only fragments of this circuit's commands: O, K and T follow the other EZO circuits, "
            "and the bounds of probe_k and temperature_c are those of usual probes and of water.",
        ),
    )

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        super().__init__(link, config)
        given = {"K": PROBE_K, "T": TEMPERATURE}
        values = {letter: each.optional(config.settings, config.name) for letter, each in given.items()}
        self._own = {letter: value for letter, value in values.items() if value is not None}
        self.health = _CellConstant(self, values["K"])

    async def _settle_in(self) -> None:
        await self.put_out_only("EC")
        for letter, wanted in () if self.link.read_only else self._own.items():
            if abs(await self.asked(letter) - wanted) <= K_OFF:
                continue
            await self.command(f"{letter},{wanted:.2f}".encode())
            if abs(told := await self.asked(letter) - wanted) > K_OFF:
                raise Refused(
                    f"{letter} was set to {wanted:.2f} and is {told + wanted:g}",
                    where=self.config.name,
                    cause="its settings are locked, or its firmware does not take this value",
                    action="unlock it (Plock,0); correct the setting in the rig file",
                )

    async def asked(self, letter: str) -> float:
        """Return the number in the answer `?K,1.00` to `K,?`."""
        told = await self.query(f"{letter},?".encode())
        name, _, text = told.partition(b",")
        if name.upper() != f"?{letter}".encode():
            raise bad_reply(told, self.config.name, f"the answer to {letter},?")
        return number(text, self.config.name)


class _CellConstant(ProbeHealth):
    """The cell constant that the circuit counts with: one that is not the probe's makes every reading wrong by its ratio."""

    point = AtlasEzoEc.point

    def __init__(self, circuit: AtlasEzoEc, wanted: float | None) -> None:
        low, high = (PROBE_K.low, PROBE_K.high) if wanted is None else (wanted - K_OFF, wanted + K_OFF)
        action = (
            "set K to the constant printed on the probe (`probe_k` in the rig file); replace a probe that has another"
        )
        self.items = (HealthItem("cell_constant", "1/cm", low, high, "cell constant", action),)
        self._circuit = circuit

    async def read(self) -> dict[str, float]:
        first, second = await self._circuit.asked("K"), await self._circuit.asked("K")
        if first != second:  # no checksum: a digit that is lost or doubled is another constant
            raise BadReply(
                f"it counts with the cell constants {first:g} and {second:g} at once",
                where=self._circuit.config.name,
                cause="noise on the line",
                action="look at its cable, then ask again",
            )
        return {"cell_constant": first}


class AtlasEzoOrp(AtlasEzoSensor):
    """EZO-ORP: oxidation-reduction potential in mV."""

    model = replace(_model("atlas-ezo-orp", "EZO-ORP", "EZO-ORP data sheet, UART mode"), verification=FRAGMENTS)
    circuit = "ORP"
    point, unit, low, high = "orp", "mV", -1019.9, 1019.9

    page = Page(
        wiring=_WIRING,
        commands=_COMMANDS,
        traps=(
            *_TRAPS,
            "A reading at ±1019.9 mV is the end of the range: a probe that is not connected drifts there.",
            "Calibration is one point (Cal,225 in the maker's solution) and is made by hand, not by this driver.",
        ),
    )
