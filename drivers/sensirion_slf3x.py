"""Sensirion SLF3x liquid flow sensors behind an SCC1 cable, which uses SHDLC.

A frame is enclosed by two flag bytes; a flag, escape, XON or XOFF inside it is escaped. The answer repeats address
and command and has a state: zero, or the cable's error. One measurement has flow, temperature and the sensor's
flags: the three points of this driver share it.
"""

from __future__ import annotations

import asyncio
import re
import struct
from contextlib import suppress
from dataclasses import dataclass

from drivers.commands import Guarantee, Quality
from drivers.device import Device, DeviceConfig, DeviceModel, Identity, Page, Sensor
from drivers.errors import DeviceFault, NoReply, Refused, WrongDevice
from drivers.settings import ChoiceSetting, NumberSetting, bad_setting, known_only
from drivers.transport.conversation import Conversation, SyncQuery
from drivers.transport.link import Link, Parser
from drivers.transport.replies import bad_reply
from drivers.transport.url import LineSettings

TIMEOUT_S = 0.3
SHARED_S = 0.05
"""Maximum age of a measurement that serves the other points (s): less than the sensor's own interval."""
FIRST_MEASUREMENT_S = 1.0
"""The first measurement after a start arrives within 60 ms plus one interval."""

FLAG, ESCAPE = 0x7E, 0x7D
_ESCAPED = frozenset({FLAG, ESCAPE, 0x11, 0x13})
_MIN_FRAME, _MAX_FRAME = 5, 260

SENSOR_TYPE, START, STOP, LAST_MEASUREMENT = 0x24, 0x33, 0x34, 0x35
PRODUCT, SCALE, VERSION = 0x50, 0x53, 0xD1
FLOW_TEMPERATURE_FLAGS = b"\x03"
SLF3X = 3
LIQUIDS = {"water": 0x3608, "ipa": 0x3615}
PRODUCTS = {0x070302: "SLF3S-1300F", 0x070303: "SLF3S-0600F", 0x070304: "SLF3C-1300F", 0x070305: "SLF3S-4000B"}
UL_MIN_PER_UNIT = {0x0843: 1e-3, 0x0844: 1.0, 0x0845: 1000.0, 0x0834: 60.0, 0x0855: 1000.0 / 60.0}
"""Flow units (prefix, time, volume of litres): nL/min, µL/min, mL/min, µL/s, mL/h."""
COUNTS_PER_CELSIUS = 200.0
AIR_IN_LINE, HIGH_FLOW = 0x01, 0x02
OUT_OF_RANGE = 32767
"""End of the number range: the flow beyond it is unknown."""

_ERRORS = {
    1: "the data have a wrong size",
    2: "it does not know the command",
    3: "it does not allow the command",
    4: "a parameter is out of range",
    5: "our frame came with a wrong checksum",
    6: "its firmware is being updated",
}

LIQUID = ChoiceSetting(
    key="liquid", meaning="calibration of the sensor that is used", among=tuple(LIQUIDS), default="water"
)
INTERVAL = NumberSetting(
    key="interval_ms",
    meaning="time between two measurements inside the sensor",
    low=20.0,
    high=1000.0,
    default=100.0,
    unit="ms",
)


@dataclass(frozen=True, slots=True)
class FlowMeasurement:
    """One measurement: flow (µL/min), temperature (°C), and whether the flow is valid."""

    flow_ul_min: float
    temperature_c: float
    air_in_line: bool
    high_flow: bool


class SensirionSlf3x(Device):
    """One sensor: points `flow` (µL/min), `temperature` (°C) and `air` (1 while there is air in the line, else 0)."""

    model = DeviceModel(
        id="sensirion-slf3x",
        vendor="Sensirion",
        name="SLF3x liquid flow sensor with SCC1 cable",
        kind="sensor",
        transports=("serial", "tcp", "sim"),
        capabilities=("read",),
        guarantee=Guarantee.HOST,
        manual="Sensirion's open libraries sensirion-shdlc-driver 1.0.2 and sensirion-uart-scc1 2.0.0 (the SHDLC "
        "specification is not public)",
        verification="verified against the manufacturer's libraries and an independent simulator that they accept",
    )
    line = LineSettings(baud=115200, bits=8, parity="N", stop=1)
    queries = re.compile(rb"\x7e.(?:[\xd1\x24\x50]\x00|[\xd0\x53\x35].).*\x7e", re.DOTALL)

    settings = (LIQUID, INTERVAL)
    page = Page(
        wiring="SCC1-USB or SCC1-RS485 cable, 115200 baud 8N1; the cable's own address is 0 unless it was changed.",
        address="the cable's SHDLC address, 0 to 254 (default 0)",
        commands=(
            ("D1", "version of the cable; barrier", "SHDLC"),
            ("24", "sensor type, must be 3", "SCC1"),
            ("50", "product id and serial number of the sensor", "SCC1"),
            ("53 liquid", "scale factor and unit of the flow", "SCC1"),
            ("34", "stop measuring: a cable does not report which liquid it measures", "SCC1"),
            ("33 interval liquid", "start continuous measurement", "SCC1"),
            ("35 03", "last measurement: flow, temperature, flags", "SCC1"),
        ),
        traps=(
            "The scale differs between models and is read from the sensor: 500 per mL/min applies to the 1300F only.",
            "The flow is not valid with air in the line: then the point `air` is 1 and the flow missing.",
            "Above its range the sensor flags high flow: the value is then suspect, at the end of the number range "
            "it is a fault.",
            "The flow is right only for the liquid of the chosen calibration.",
            "After a power cut the first query starts a measurement with factory settings and is answered with "
            "no data: the driver then starts its own measurement again.",
            "Flag bits 0 (air) and 1 (high flow) follow public drivers of the same sensors on I2C; other bits are "
            "considered harmless.",
        ),
    )

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        super().__init__(link, config)
        known_only(config.settings, config.name, self.settings)
        liquid = LIQUID.of(config.settings, config.name)
        self._liquid = LIQUIDS[liquid]
        interval_ms = INTERVAL.of(config.settings, config.name)
        self._interval_ms = round(interval_ms)
        self._address = _address(config)
        self._ul_min_per_count = 0.0
        self._last: FlowMeasurement | None = None
        self._last_at_s = 0.0
        self._conversation = Conversation(
            link,
            config.name,
            timeout_s=TIMEOUT_S,
            barrier=SyncQuery(request_frame(self._address, VERSION), lambda: self.answer(VERSION)),
        )
        self._conversation.addressed = True
        self.sensors["flow"] = _Flow(self)
        self.sensors["temperature"] = _Temperature(self)
        self.sensors["air"] = _Air(self)
        link.attach(self._conversation, self.verify)

    @property
    def conversation(self) -> Conversation:
        """This driver's side of the link."""
        return self._conversation

    async def _identify(self) -> Identity:
        self._last = None
        version = await self._exactly(7, VERSION)
        if (kind := await self._ask(SENSOR_TYPE)) != bytes((SLF3X,)):
            raise WrongDevice(
                f"the cable is set to sensor type {kind.hex()}, not {SLF3X} (SLF3x)",
                where=self.config.name,
                cause="another sensor on the cable, or none",
                action="plug the SLF3x in before the cable gets power",
            )
        product, serial = await self._product()
        scale, unit, _ = struct.unpack(">HHH", await self._exactly(6, SCALE, struct.pack(">H", self._liquid)))
        if unit not in UL_MIN_PER_UNIT or scale == 0:
            raise WrongDevice(
                f"it measures in unit 0x{unit:04X} with scale {scale}, which this driver does not know",
                where=self.config.name,
                cause="a gas flow sensor, or a newer model",
                action="check the model in the rig file; report the unit",
            )
        self._ul_min_per_count = UL_MIN_PER_UNIT[unit] / scale
        if (
            not self.link.read_only
        ):  # otherwise it measures for another client, or :meth:`measurement` reports that it does not
            await self._measure()
        return Identity(model=PRODUCTS.get(product, f"SLF3x 0x{product:06X}"), serial=serial, firmware=_dots(version))

    async def _product(self) -> tuple[int, str]:
        """Return product id without its revision, and serial number."""
        text = (await self._ask(PRODUCT)).rstrip(b"\0")
        try:
            return int(text[:8].decode("ascii"), 16) >> 8, text[8:].decode("ascii")
        except ValueError:
            raise bad_reply(text, self.config.name, "a product id") from None

    async def _measure(self) -> None:
        """Start measuring the configured liquid and interval; wait for the first measurement.

        A cable that already measures does not report for which liquid, so it is always stopped first.
        """
        with suppress(Refused):  # nothing to stop
            await self._ask(STOP)
        await self._ask(START, struct.pack(">HH", self._interval_ms, self._liquid))
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + FIRST_MEASUREMENT_S + self._interval_ms / 1000.0
        while not await self._ask(LAST_MEASUREMENT, FLOW_TEMPERATURE_FLAGS):
            if loop.time() > give_up_s:
                raise NoReply(
                    "it was started and measures nothing",
                    where=self.config.name,
                    cause="the sensor is unplugged from the cable, or broken",
                    action="check the plug between sensor and cable",
                )
            await asyncio.sleep(0.05)

    async def measurement(self) -> FlowMeasurement:
        """Return the sensor's last measurement, requested once for all points.

        Raises:
            DeviceError: No valid measurement.
        """
        loop = asyncio.get_running_loop()
        if self._last is None or loop.time() - self._last_at_s > SHARED_S or not self._conversation.verified:
            self._last = None
            data = await self._ask(LAST_MEASUREMENT, FLOW_TEMPERATURE_FLAGS)
            if not data:
                self._conversation.restarted()
                raise DeviceFault(
                    "it measures nothing",
                    where=self.config.name,
                    cause="the cable lost power, or the sensor was unplugged from it",
                    action="it is started again by itself; check the plug if this comes again",
                )
            if len(data) != 6:
                self._conversation.doubt()
                raise bad_reply(data, self.config.name, "flow, temperature and flags")
            flow, temperature, flags = struct.unpack(">hhH", data)
            if abs(flow) >= OUT_OF_RANGE:
                raise DeviceFault(
                    "the flow is beyond what it can tell",
                    where=self.config.name,
                    cause="a far too high flow, or a sensor of too small range",
                    action="slow the pump; choose a sensor of a larger range",
                )
            self._last = FlowMeasurement(
                flow * self._ul_min_per_count,
                temperature / COUNTS_PER_CELSIUS,
                bool(flags & AIR_IN_LINE),
                bool(flags & HIGH_FLOW),
            )
            self._last_at_s = loop.time()
        return self._last

    async def _exactly(self, size: int, command: int, data: bytes = b"") -> bytes:
        told = await self._ask(command, data)
        if len(told) != size:
            self._conversation.doubt()
            raise bad_reply(told, self.config.name, f"{size} bytes in answer to command {command:02X}")
        return told

    async def _ask(self, command: int, data: bytes = b"") -> bytes:
        return await self._conversation.ask(request_frame(self._address, command, data), self.answer(command))

    def answer(self, command: int) -> Parser[bytes]:
        """Return a parser of the answer to `command` that returns its data; other and broken frames are skipped."""

        def parse(buffer: bytearray) -> bytes | None:
            while (frame := take_frame(buffer)) is not None:
                if frame[:2] != bytes((self._address, command)):
                    continue
                if state := frame[2]:
                    raise self._refused(command, state)
                return frame[4:]
            return None

        return parse

    def _refused(self, command: int, state: int) -> Refused | DeviceFault:
        if error := state & 0x7F:
            return Refused(
                f"error {error} to command {command:02X}: {_ERRORS.get(error, 'see the SCC1 data sheet')}",
                where=self.config.name,
                cause="another sensor on the cable, or a firmware that speaks differently",
                action="check the model in the rig file",
            )
        return DeviceFault(
            "the cable reports a fault of its own",
            where=self.config.name,
            cause="the sensor was unplugged while it measured, or the supply is weak",
            action="check the plug and the supply; then take its power away and give it back",
        )


class _Flow(Sensor):
    unit = "uL/min"

    def __init__(self, sensor: SensirionSlf3x) -> None:
        self._sensor = sensor

    async def read(self) -> float:
        told = await self._sensor.measurement()
        self.quality = Quality.MISSING if told.air_in_line else Quality.SUSPECT if told.high_flow else Quality.GOOD
        return told.flow_ul_min


class _Temperature(Sensor):
    unit = "degC"

    def __init__(self, sensor: SensirionSlf3x) -> None:
        self._sensor = sensor

    async def read(self) -> float:
        told = await self._sensor.measurement()
        self.quality = Quality.SUSPECT if told.air_in_line else Quality.GOOD
        return told.temperature_c


class _Air(Sensor):
    """1 while the sensor sees air in the line, else 0."""

    unit = "1"

    def __init__(self, sensor: SensirionSlf3x) -> None:
        self._sensor = sensor

    async def read(self) -> float:
        return float((await self._sensor.measurement()).air_in_line)


# --- SHDLC ------------------------------------------------------------------------------------------------


def request_frame(address: int, command: int, data: bytes = b"") -> bytes:
    """Return the frame that sends `command` with `data` (at most 255 bytes) to `address`."""
    body = bytes((address, command, len(data))) + data
    return b"\x7e" + stuffed(body + bytes((checksum(body),))) + b"\x7e"


def checksum(body: bytes) -> int:
    """Return the ones' complement of the sum of all bytes before stuffing."""
    return ~sum(body) & 0xFF


def stuffed(data: bytes) -> bytes:
    """Return `data` with flags, escapes, XON and XOFF replaced by an escape and the byte with bit 5 inverted."""
    return b"".join(bytes((ESCAPE, byte ^ 0x20)) if byte in _ESCAPED else bytes((byte,)) for byte in data)


def unstuffed(data: bytes) -> bytes | None:
    """Return `data` before stuffing; None for invalid escapes."""
    pieces = data.split(b"\x7d")
    if any(not piece or piece[0] ^ 0x20 not in _ESCAPED for piece in pieces[1:]):
        return None
    return pieces[0] + b"".join(bytes((piece[0] ^ 0x20,)) + piece[1:] for piece in pieces[1:])


def take_frame(buffer: bytearray) -> bytes | None:
    """Remove the first valid answer from `buffer`: address, command, state, length, data; None while there is none.

    The flag that ends a frame may start the next: it stays in the buffer unless the frame was valid.
    """
    while (begin := buffer.find(FLAG)) >= 0:
        end = buffer.find(FLAG, begin + 1)
        if end < 0:
            del buffer[:begin]
            if len(buffer) > 2 * _MAX_FRAME:
                buffer.clear()  # noise: longer than any frame
            return None
        frame = unstuffed(bytes(buffer[begin + 1 : end]))
        if (
            frame is not None
            and _MIN_FRAME <= len(frame) <= _MAX_FRAME
            and frame[3] == len(frame) - 5
            and frame[-1] == checksum(frame[:-1])
        ):
            del buffer[: end + 1]
            return frame[:-1]
        del buffer[:end]
    buffer.clear()
    return None


def _address(config: DeviceConfig) -> int:
    text = config.address or "0"
    if not (text.isascii() and text.isdigit() and int(text) <= 254):
        raise bad_setting(config.name, "address", f"is “{text}”", "write the cable's address, 0 to 254")
    return int(text)


def _dots(version: bytes) -> str:
    return f"{version[0]}.{version[1]}"
