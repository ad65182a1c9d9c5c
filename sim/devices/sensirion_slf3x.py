"""A Sensirion SLF3x liquid flow sensor on an SCC1 cable (SHDLC; SCC1 command set, SLF3x data sheets).

A frame to the cable: flag, address, command, length, data, checksum, flag; from it: flag, address, command, state,
length, data, checksum, flag. Inside, 7E, 7D, 11 and 13 are sent as 7D and the byte with bit 5 inverted. The checksum
is the inverted sum of all bytes between the flags, before that.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

from controller.rig.description import DeviceSpec
from sim.devices.bench_facts import BenchFacts
from sim.devices.port import PlantPort
from sim.devices.wire import WireDevice, forgetting

WRONG_SIZE, UNKNOWN_COMMAND, NO_ACCESS, BAD_PARAMETER, WRONG_CHECKSUM = 1, 2, 3, 4, 5
LONGEST = 260
WATER, IPA = 0x3608, 0x3615
UL_PER_MIN, ML_PER_MIN = 0x0844, 0x0845
COUNTS_PER_CELSIUS = 200.0
AIR_IN_LINE, HIGH_FLOW = 0x01, 0x02
FIRST_S = 0.060
"""From the start of measuring to the first measurement."""
DEVICE_ERROR = 0x80
FACTORY_INTERVAL_MS = 100


class Variant(NamedTuple):
    """The properties that differ between models."""

    name: str
    product: int
    """Product number with its revision in the last byte."""
    scale: int
    unit: int
    max_ul_min: float
    """The flow at which the output stays."""


SLF3S_0600F = Variant("SLF3S-0600F", 0x07030302, 10, UL_PER_MIN, 3250.0)
SLF3S_1300F = Variant("SLF3S-1300F", 0x07030202, 500, ML_PER_MIN, 65_000.0)


class Answer(Exception):
    """An answer with an error and no data."""

    def __init__(self, code: int) -> None:
        super().__init__(f"shdlc error {code}")
        self.code = code


_CABLE = (0xD0, 0xD1, 0xD2, 0xD3, 0x24, 0x25)
"""Commands of the cable."""
_SIZES = {
    0xD0: (1,), 0xD1: (0,), 0xD2: (1,), 0xD3: (0,), 0x24: (0,), 0x25: (0,), 0x33: (0, 4), 0x34: (0,), 0x35: (1,),
    0x50: (0,), 0x53: (2,), 0x65: (0,),
}  # fmt: skip
"""Every command with the numbers of bytes that it may carry."""


class SensirionSlf3x(WireDevice):
    """The sensor: it measures after a start or a request since power-up, and does not report the liquid of the start."""

    model_id = "sensirion-slf3x"
    bench = BenchFacts(similar=("addressed frames",), doubts=True, checksum=True)
    baud = 115200
    think_s = 0.002

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        super().__init__(name, spec, plant)
        self.address = int(spec.address or "0")
        self.variant = SLF3S_1300F
        self.sensor_type = 3
        self.air = False
        """Whether a bubble is in the sensor: it flags it, and its flow is no good."""
        self.fault = False
        """Whether the cable reports a fault of its own."""
        self.belong_to(0)
        self.interval_ms = self.liquid = 0
        self.starts = 0
        self._ready_s = 0.0
        self._inside: bytearray | None = None
        self._escaping = False

    @property
    def answers_to(self) -> str | None:
        """See :meth:`WireDevice.answers_to`."""
        return str(self.address)

    def readdress(self, address: str) -> None:
        """See :meth:`WireDevice.readdress`."""
        self.address = int(address)

    def forged(self, data: bytes, address: str) -> bytes | None:
        """See :meth:`WireDevice.forged`; an answer that holds stuffed bytes is left as it is."""
        if len(data) < 7 or data[0] != 0x7E or data[-1] != 0x7E or data[1] != self.address or 0x7D in data:
            return None
        plain = bytes((int(address),)) + data[2:-2]
        frame = plain + bytes((~sum(plain) & 0xFF,))
        return b"\x7e" + frame + b"\x7e" if not set(frame) & {0x7E, 0x7D, 0x11, 0x13} else None

    def forget(self) -> Callable[[], None]:
        """See :meth:`WireDevice.forget`: the cable's address, and the sensor type that it expects."""
        return forgetting(self, {"address": 0, "sensor_type": 3})

    def _boot(self) -> None:
        self._stop()
        self._inside, self._escaping = None, False

    def _stop(self) -> None:
        self.interval_ms = self.liquid = 0

    # --- frames -----------------------------------------------------------------------------------------

    def belong_to(self, lab: int) -> None:
        """See :meth:`WireDevice.belong_to`."""
        self.serial = f"{2209000000 + sum(self.name.encode()) + lab:010d}"

    def receive(self, data: bytes) -> None:
        """Receive bytes. A flag ends a frame and begins the next; a short frame, or one for another address, is ignored."""
        for byte in data:
            if byte == 0x7E:
                frame, self._inside, self._escaping = self._inside, bytearray(), False
                if frame is not None and len(frame) >= 4:
                    self._on_frame(bytes(frame))
            elif self._inside is None:
                continue
            elif byte == 0x7D:
                self._escaping = True
            else:
                self._inside.append(byte ^ 0x20 if self._escaping else byte)
                self._escaping = False
                if len(self._inside) > LONGEST:
                    self._inside = None

    def _on_frame(self, frame: bytes) -> None:
        address, command, length = frame[:3]
        if address != self.address:
            return
        try:
            if ~sum(frame[:-1]) & 0xFF != frame[-1]:
                raise Answer(WRONG_CHECKSUM)
            if length != len(frame) - 4:
                raise Answer(WRONG_SIZE)
            state, data = DEVICE_ERROR * self.fault, self._carry_out(command, frame[3:-1])
        except Answer as answer:
            state, data = DEVICE_ERROR * self.fault | answer.code, b""
        body = bytes((address, command, state, len(data))) + data
        inside = bytearray()
        for byte in (*body, ~sum(body) & 0xFF):
            inside += bytes((0x7D, byte ^ 0x20)) if byte in (0x7E, 0x7D, 0x11, 0x13) else bytes((byte,))
        self.send(b"\x7e" + bytes(inside) + b"\x7e")

    # --- commands ---------------------------------------------------------------------------------------

    def _carry_out(self, command: int, data: bytes) -> bytes:
        if (sizes := _SIZES.get(command)) is None:
            raise Answer(UNKNOWN_COMMAND)
        if len(data) not in sizes:
            raise Answer(WRONG_SIZE)
        if command in _CABLE:
            return self._of_the_cable(command, data)
        match command:
            case 0x33 if data:
                return self._start(*struct.unpack(">HH", data))
            case 0x33:
                return struct.pack(">H", self.interval_ms) if self.interval_ms else b""
            case 0x34 | 0x65:
                self._stop()
                return b""
            case 0x35:
                return self._last_measurement(data[0])
            case 0x50:
                return f"{self.variant.product:08X}{self.serial}".encode("ascii") + b"\0"
        self._known(*struct.unpack(">H", data))
        return struct.pack(">HHH", self.variant.scale, self.variant.unit, 0)

    def _of_the_cable(self, command: int, data: bytes) -> bytes:
        """Carry out a command of the cable rather than of the sensor."""
        match command:
            case 0xD0:
                return self._device_info(data[0])
            case 0xD1:
                return bytes((1, 8, 0, 1, 0, 1, 0))
            case 0xD2:
                return bytes(5)
            case 0x24:
                return bytes((self.sensor_type,))
            case 0x25:
                return b"\x08"
        self._boot()
        return b""

    def _device_info(self, which: int) -> bytes:
        texts = {1: "SCC1-USB", 2: "1-101452-02", 3: f"SCC1-{self.serial}"}
        if which not in texts:
            raise Answer(BAD_PARAMETER)
        return texts[which].encode("ascii") + b"\0"

    def _known(self, liquid: int) -> None:
        if liquid not in (WATER, IPA):
            raise Answer(BAD_PARAMETER)

    def _start(self, interval_ms: int, liquid: int) -> bytes:
        self._known(liquid)
        if self.interval_ms:
            raise Answer(NO_ACCESS)  # it measures already
        self.starts += 1
        self.interval_ms, self.liquid = max(1, interval_ms), liquid
        self._ready_s = self.loop.time() + FIRST_S + self.interval_ms / 1000.0
        return b""

    def _last_measurement(self, what: int) -> bytes:
        """Return flow, temperature and flags, or nothing yet; start measuring if the cable does not measure."""
        if what != 3:
            raise Answer(BAD_PARAMETER)
        if not self.interval_ms:
            return self._start(FACTORY_INTERVAL_MS, WATER)
        if self.loop.time() < self._ready_s:
            return b""
        variant = self.variant
        ul_min = self.plant.sense(f"{self.name}.flow")
        within = max(-variant.max_ul_min, min(variant.max_ul_min, 0.0 if self.air else ul_min))
        counts = round(within * variant.scale / (1000.0 if variant.unit == ML_PER_MIN else 1.0))
        celsius = self.plant.sense(f"{self.name}.temperature")
        flags = AIR_IN_LINE * self.air | HIGH_FLOW * (abs(ul_min) > variant.max_ul_min)
        return struct.pack(">hhH", counts, round(celsius * COUNTS_PER_CELSIUS), flags)
