"""Jobst Technologies SIX: potentiostat with a flow-through biosensor of lactate and glucose (maker's readout source).

The device sends a frame of 25 bytes by itself, about one a second; nothing is sent to it. Bytes 0–3 are a prefix, byte
4 is 04, 5–16 are six currents (int16, high byte first), 17–18 the temperature (1/16 °C), 19–22 the device's number, 23
the sum of bytes 4–22, 24 is 16 (hex). A concentration is its channel's current times its sensitivity, corrected for
temperature, less the same of the channel without enzyme.
"""

from __future__ import annotations

import asyncio
import math
import re
from dataclasses import dataclass

from drivers.commands import Guarantee
from drivers.device import Device, DeviceConfig, DeviceModel, Identity, Page, Sensor
from drivers.errors import DeviceFault, WrongDevice
from drivers.settings import Given, NumberSetting, bad_setting, known_only
from drivers.transport.conversation import Conversation, SyncQuery
from drivers.transport.link import Link
from drivers.transport.url import LineSettings

LENGTH = 25
BEGIN_AT, BEGIN, END = 4, 0x04, 0x16
CHANNELS = 6
TIMEOUT_S = 2.5
"""The maker's reader expects a frame within 2 s."""
APART_S = 0.4
"""Frames that waited in a converter arrive together: after a failure, those closer than this are dropped."""
SHARED_S = 0.2
"""The points of one poll share a frame; an older one is never used."""
FULL_COUNTS = 32_767
TEMPERATURE_C = (-20.0, 80.0)
FACTORS = (0.5, 1.0, 5.0, 10.0)
ANALYTES = {"lactate": 25.0, "glucose": 40.0}
"""Linear range of each analyte (mM): 10.1021/ac950630x."""
BELOW_ZERO_MM = -1.0
"""Difference of two channels that noise explains; a lower one is a fault."""

FACTOR = NumberSetting(
    key="gain_factor",
    meaning="factor of this device type on the sensitivities of the definition file, one of 0.5, 1, 5 and 10",
    low=0.5,
    high=10.0,
    default=1.0,
)
REFERENCE_C = NumberSetting(
    key="reference_c",
    meaning="reference temperature of the sensitivities",
    low=10.0,
    high=50.0,
    default=37.0,
    unit="°C",
)


def _channel(name: str, low: int, default: int) -> NumberSetting:
    without = "0: none" if low == 0 else ""
    return NumberSetting(
        key=f"{name}_channel",
        meaning=f"channel of {name}",
        low=float(low),
        high=float(CHANNELS),
        default=float(default),
        without=f"default {default}; {without}" if without else "",
    )


def _gain(name: str, without: str = "") -> NumberSetting:
    meaning = f"sensitivity of the channel of {name}, mM per 100 counts, from its definition file or calibration"
    return NumberSetting(key=f"{name}_gain", meaning=meaning, low=1e-4, high=1e3, without=without, unit="mM")


def _coefficient(name: str) -> NumberSetting:
    meaning = f"temperature coefficient of the channel of {name}"
    return NumberSetting(key=f"{name}_tc", meaning=meaning, low=-20.0, high=20.0, default=0.0, unit="%/K")


@dataclass(frozen=True, slots=True)
class _Keys:
    """Settings of one electrode."""

    channel: NumberSetting
    gain: NumberSetting
    coefficient: NumberSetting

    def electrode(self, given: Given, where: str) -> Electrode | None:
        """Return the described electrode; None for channel 0."""
        number = self.channel.of(given, where)
        if number != round(number):
            raise bad_setting(where, self.channel.key, f"is “{number:g}”", f"write a whole number up to {CHANNELS}")
        if not number:
            return None
        return Electrode(int(number) - 1, self.gain.of(given, where), self.coefficient.of(given, where))


_ELECTRODES = {
    "lactate": _Keys(_channel("lactate", 1, 1), _gain("lactate"), _coefficient("lactate")),
    "glucose": _Keys(_channel("glucose", 1, 2), _gain("glucose"), _coefficient("glucose")),
    "blank": _Keys(_channel("blank", 0, 3), _gain("blank", "required with a blank channel"), _coefficient("blank")),
}


@dataclass(frozen=True, slots=True)
class Electrode:
    """Calibration of one channel: `index` from 0, mM per 100 counts at the reference, % per kelvin."""

    index: int
    gain: float
    coefficient: float

    def value_mm(self, frame: SixFrame, factor: float, reference_c: float) -> float:
        """Return its signal in mM."""
        warmth = math.exp(self.coefficient / 100.0 * (frame.temperature_c - reference_c))
        return frame.counts[self.index] * self.gain * factor / 100.0 / warmth


@dataclass(frozen=True, slots=True)
class SixFrame:
    """Content of one frame."""

    counts: tuple[int, ...]
    temperature_c: float
    number: int


def take_frame(buffer: bytearray) -> SixFrame | None:
    """Remove all bytes up to the first whole frame from `buffer`, and return it; None while there is none.

    04 and 16 occur among the data too: only their distance together with the sum makes a frame.
    """
    for begin in range(len(buffer) - LENGTH + 1):
        if buffer[begin + BEGIN_AT] != BEGIN or buffer[begin + LENGTH - 1] != END:
            continue
        body = bytes(buffer[begin + BEGIN_AT : begin + LENGTH - 2])
        if sum(body) & 0xFF != buffer[begin + LENGTH - 2]:
            continue
        del buffer[: begin + LENGTH]
        words = [int.from_bytes(body[at : at + 2], "big", signed=True) for at in range(1, 15, 2)]
        return SixFrame(
            tuple(words[:CHANNELS]), words[CHANNELS] / 16.0, int.from_bytes(body[15:19], "big", signed=True)
        )
    del buffer[: max(len(buffer) - LENGTH + 1, 0)]
    return None


class _Apart:
    """Parser that waits for two frames with a pause between them: the next frame is then one of that moment."""

    def __init__(self) -> None:
        self._before_s: float | None = None

    def __call__(self, buffer: bytearray) -> SixFrame | None:
        while (frame := take_frame(buffer)) is not None:
            now_s = asyncio.get_running_loop().time()
            if self._before_s is not None and now_s - self._before_s >= APART_S:
                return frame
            self._before_s = now_s
        return None


class JobstSix(Device):
    """One SIX; its points are `lactate` and `glucose` (mM), and `temperature` (°C) of the flow cell."""

    model = DeviceModel(
        id="jobst-six",
        vendor="Jobst Technologies",
        name="SIX potentiostat with flow-through biosensor",
        kind="sensor",
        transports=("serial", "tcp", "sim"),
        capabilities=("read",),
        guarantee=Guarantee.HOST,
        manual="readout source of the maker (JT-SIX-Readout, JT-Driver-Sensing)",
        verification="verified against the frame of the maker's readout source and a simulator written independently of it",
    )
    line = LineSettings(baud=9600, bits=8, parity="N", stop=1)
    queries = re.compile(rb"")
    settings = (
        FACTOR,
        REFERENCE_C,
        *(setting for each in _ELECTRODES.values() for setting in (each.channel, each.gain, each.coefficient)),
    )
    page = Page(
        wiring="USB, a port of its own; 9600 8N1. The flow cell is part of the line or vessel `at`; it takes no sample.",
        commands=(("(none)", "the device sends a frame about every second; nothing is sent to it", "readout source"),),
        traps=(
            "Gains and temperature coefficients belong to each sensor: copy them from its definition file. After a"
            " calibration with a standard, the new gain is the old one times the standard over the reading.",
            "Four device types multiply the gains by 0.5, 1, 5 or 10: a wrong `gain_factor` is an error of that size.",
            "Enzyme is lost by 1–3 % a day: the estimator follows the sensitivity by assays (docs/estimation.md).",
            "Oxidases need oxygen: below about 5 kPa (24 % of air saturation) the reading falls.",
            "Bytes 0–3 of a frame are not documented and not checked.",
        ),
    )

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        super().__init__(link, config)
        known_only(config.settings, config.name, self.settings)
        self._factor = FACTOR.of(config.settings, config.name)
        if self._factor not in FACTORS:
            raise bad_setting(config.name, FACTOR.key, f"is “{self._factor:g}”", "write 0.5, 1, 5 or 10")
        self._reference_c = REFERENCE_C.of(config.settings, config.name)
        self._electrodes = {name: keys.electrode(config.settings, config.name) for name, keys in _ELECTRODES.items()}
        _require_distinct(config.name, self._electrodes)
        self._conversation = Conversation(
            link, config.name, timeout_s=TIMEOUT_S, barrier=SyncQuery(b"", _Apart), unsolicited=bytearray.clear
        )
        self._one_at_a_time = asyncio.Lock()
        self._last: tuple[float, SixFrame] | None = None
        for analyte, limit_mm in ANALYTES.items():
            self.sensors[analyte] = SixAnalyte(self, analyte, limit_mm)
        self.sensors["temperature"] = SixTemperature(self)
        link.attach(self._conversation, self.verify)

    @property
    def conversation(self) -> Conversation:
        """This driver's side of the link."""
        return self._conversation

    async def _identify(self) -> Identity:
        self._last = None
        frame = await self._conversation.ask(b"", take_frame)
        return Identity(model="SIX", serial=str(frame.number))

    async def frame(self) -> SixFrame:
        """Return a frame that began after this call, or the one that another point has just received."""
        loop = asyncio.get_running_loop()
        async with self._one_at_a_time:
            self._conversation.require_verified()
            if self._last is None or loop.time() - self._last[0] > SHARED_S:
                self._last = None
                frame = await self._conversation.ask(b"", take_frame)
                self._same_device(frame)
                self._last = (loop.time(), frame)
            return self._last[1]

    def _same_device(self, frame: SixFrame) -> None:
        if self.identity is not None and self.identity.serial != str(frame.number):
            self._conversation.distrust()
            self.link.wake()
            raise WrongDevice(
                f"device {frame.number} sends, and it was {self.identity.serial}",
                where=self.config.name,
                cause="the potentiostat was exchanged: its sensor has other sensitivities",
                action="write the gains of the new sensor into the rig file",
            )

    def concentration_mm(self, frame: SixFrame, analyte: str) -> float:
        """Return the concentration of `analyte` (mM), less the signal of the channel without enzyme."""
        parts = [self._electrodes[analyte], self._electrodes["blank"]]
        for part in parts:
            if part is not None and not -FULL_COUNTS <= frame.counts[part.index] < FULL_COUNTS:
                raise self._fault(
                    f"channel {part.index + 1} is at its limit ({frame.counts[part.index]} counts)",
                    "a short circuit, an air bubble or a worn sensor",
                )
        low, high = TEMPERATURE_C
        if not low <= frame.temperature_c <= high:
            raise self._fault(f"{frame.temperature_c:g} °C is no temperature of a flow cell", "a broken thermometer")
        values = [0.0 if part is None else part.value_mm(frame, self._factor, self._reference_c) for part in parts]
        return values[0] - values[1]

    def _fault(self, what: str, cause: str) -> DeviceFault:
        return DeviceFault(
            what, where=self.config.name, cause=cause, action="look at the flow cell; replace the sensor"
        )


def _require_distinct(where: str, electrodes: dict[str, Electrode | None]) -> None:
    used = [each.index for each in electrodes.values() if each is not None]
    if len(set(used)) != len(used):
        raise bad_setting(
            where, "lactate_channel, glucose_channel, blank_channel", "name one channel twice", "give each its own"
        )


class SixAnalyte(Sensor):
    """One analyte in the medium that passes the flow cell."""

    unit = "mM"

    def __init__(self, six: JobstSix, analyte: str, limit_mm: float) -> None:
        self._six = six
        self._analyte = analyte
        self._limit_mm = limit_mm

    async def read(self) -> float:
        """Return the concentration (mM)."""
        value = self._six.concentration_mm(await self._six.frame(), self._analyte)
        if not BELOW_ZERO_MM <= value <= self._limit_mm:
            raise DeviceFault(
                f"{value:.2f} mM {self._analyte} is outside its linear range, {BELOW_ZERO_MM:g} to {self._limit_mm:g} mM",
                where=self._six.config.name,
                cause="an air bubble, a wrong gain or a worn sensor",
                action="compare with an assay; calibrate or replace the sensor",
            )
        return value


class SixTemperature(Sensor):
    """The thermometer of the flow cell."""

    unit = "degC"

    def __init__(self, six: JobstSix) -> None:
        self._six = six

    async def read(self) -> float:
        """Return the temperature of the flow cell (°C)."""
        value = (await self._six.frame()).temperature_c
        low, high = TEMPERATURE_C
        if not low <= value <= high:
            raise DeviceFault(
                f"{value:g} °C is no temperature of a flow cell",
                where=self._six.config.name,
                cause="a broken thermometer or cable",
                action="check the cable of the sensor",
            )
        return value
