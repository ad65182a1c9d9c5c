"""Hamilton Arc sensors on Modbus RTU: pH Arc and VisiFerm DO (Programmer's Manual 624300/01, registers from 1).

A register block is read and written whole or not at all. 32-bit values travel least significant word first. What a
register may be asked, and at which operator level, stands in its entry of the table that :meth:`_blocks` builds.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from controller.rig.description import DeviceSpec
from sim.devices.bench_facts import BenchFacts
from sim.devices.modbus_slave import (
    ILLEGAL_ADDRESS,
    ILLEGAL_FUNCTION,
    ILLEGAL_VALUE,
    READ_HOLDING_REGISTERS,
    WRITE_MULTIPLE_REGISTERS,
    ModbusError,
    ModbusSlave,
)
from sim.devices.port import PlantPort
from sim.devices.wire import forgetting

READ_INPUT_REGISTERS = 0x04

USER, ADMINISTRATOR, SPECIALIST = 0x03, 0x0C, 0x30
FACTORY_PASSWORDS = {USER: 0, ADMINISTRATOR: 18111978, SPECIALIST: 16021966}
EVERYONE = (USER, ADMINISTRATOR, SPECIALIST)
CALIBRATORS = (ADMINISTRATOR, SPECIALIST)

UNIT_TEXTS = {0x2: "K", 0x4: "°C", 0x8: "°F", 0x10: "%-vol", 0x20: "%-sat", 0x1000: "pH", 0x200000: "mV"}
T_MEASURING, T_OPERATING, CALIBRATION, WARNING, ERROR = 0x01, 0x02, 0x04, 0x08, 0x10
"""Bits of the status of a measured value."""
AIR_PERCENT_VOL = 20.95
MV_PER_PH = -59.16
BUFFERS_PH = (4.01, 7.00, 9.21, 10.01)
RECOGNISED_PH = 0.5
"""How far off a buffer may read and still be recognised."""

Words = tuple[int, ...]


class RegisterBlock(NamedTuple):
    """`length` registers that are read and written together."""

    length: int
    read: Callable[[], bytes] | None = None
    write: Callable[[bytes], None] | None = None
    readers: Words = EVERYONE
    writers: Words = ()
    writes: int = 0
    """Registers that a writing takes, if fewer than are read."""


class HamiltonArc(ModbusSlave):
    """The common part of both sensors; subclasses define the measurement."""

    baud = 19200
    think_s = 0.010
    point = ""
    channels = 0
    """PMC and SMC bits that exist."""
    units: Words = ()
    """Units of the primary value, the factory's first."""
    description = ""
    firmware = "EPHUM011"

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        super().__init__(name, spec, plant)
        self.level = USER
        self.passwords = dict(FACTORY_PASSWORDS)
        self.unit = self.units[0]
        self.temperature_unit = 0x4
        self.warnings = [0, 0, 0, 0]
        """Active warnings: measurement, calibration, interface, hardware."""
        self.errors = [0, 0, 0, 0]
        self.quality_pct = 100.0
        self.memory_writes: int = 0
        """Writes that wear the memory; the sensor stands 100 000."""
        self._point = f"{name}.{self.point}"
        self._temperature = f"{name}.temperature"
        self._offset = 0.0
        self._calibration_status = 0
        self._calibrated_at = 0.0
        self._table = self._blocks()

    def forget(self) -> Callable[[], None]:
        """See :meth:`WireDevice.forget`: the calibration, the units, the passwords, the address."""
        return forgetting(
            self,
            {
                "_offset": 0.0,
                "_calibration_status": 0,
                "_calibrated_at": 0.0,
                "unit": self.units[0],
                "temperature_unit": 0x4,
                "passwords": dict(FACTORY_PASSWORDS),
                "address": 1,
            },
        )

    def _boot(self) -> None:
        self.level = USER

    # --- what it measures -------------------------------------------------------------------------------

    def primary(self) -> tuple[float, float, float]:
        """Return the value and the measuring range, in the selected unit."""
        raise NotImplementedError

    def celsius(self) -> float:
        """Return the temperature at the sensor (°C)."""
        return self.plant.sense(self._temperature)

    def status(self) -> int:
        """Return the status bits of every measured value."""
        celsius = self.celsius()
        return (
            T_MEASURING * (not -20.0 <= celsius <= 130.0)
            | T_OPERATING * (not -20.0 <= celsius <= 140.0)
            | CALIBRATION * bool(self._calibration_status)
            | WARNING * any(self.warnings)
            | ERROR * any(self.errors)
        )

    # --- the registers ----------------------------------------------------------------------------------

    def _blocks(self) -> dict[int, RegisterBlock]:
        """Return the blocks by their first register, counted from 1."""
        blocks = {
            1032: RegisterBlock(8, lambda: _text(self.firmware, 16)),
            2048: RegisterBlock(2, lambda: _u32(self.channels)),
            2080: RegisterBlock(8, lambda: _text(self.description, 16)),
            2088: RegisterBlock(2, lambda: _u32(sum(self.units))),
            2090: RegisterBlock(10, self._pmc1, self._select_unit, writers=(SPECIALIST,), writes=2),
            2400: RegisterBlock(8, lambda: _text("T", 16)),
            2408: RegisterBlock(2, lambda: _u32(0xE)),
            2410: RegisterBlock(10, self._pmc6, self._select_temperature_unit, writers=(SPECIALIST,), writes=2),
            4096: RegisterBlock(2, lambda: _u32(self.address), self._new_address, (SPECIALIST,), (SPECIALIST,)),
            4288: RegisterBlock(4, lambda: _u32(self.level) + _u32(0), self._log_in, writers=EVERYONE),
            4292: RegisterBlock(4, None, self._new_password, writers=(SPECIALIST,)),
            4736: RegisterBlock(8, lambda: b"".join(map(_u32, self.warnings))),
            4800: RegisterBlock(8, lambda: b"".join(map(_u32, self.errors))),
            4872: RegisterBlock(2, lambda: _f32(self.quality_pct)),
            5152: RegisterBlock(6, lambda: _u32(self.units[0]) + _f32(0.0) + _f32(0.0)),
            5158: RegisterBlock(
                6, lambda: _u32(self._calibration_status) + _u32(self.units[0]) + _f32(self._calibrated_at)
            ),
            5162: RegisterBlock(2, None, self._calibrate, writers=CALIBRATORS),
        }
        for code, text in UNIT_TEXTS.items():
            blocks[1920 + 4 * (code.bit_length() - 1)] = RegisterBlock(4, partial(_text, text, 8))
        return blocks

    def serve(self, function: int, body: bytes) -> bytes:
        """See :meth:`ModbusSlave.serve`."""
        if function in (READ_HOLDING_REGISTERS, READ_INPUT_REGISTERS):
            first, count = struct.unpack(">HH", body)
            block = self._block(first)
            if block.read is None:
                raise ModbusError(ILLEGAL_ADDRESS)
            if count != block.length:
                raise ModbusError(ILLEGAL_VALUE)
            self._allow(block.readers)
            return bytes((2 * count,)) + block.read()
        if function == WRITE_MULTIPLE_REGISTERS:
            first, count, size = struct.unpack_from(">HHB", body)
            block = self._block(first)
            if block.write is None:
                raise ModbusError(ILLEGAL_ADDRESS)
            if count != (block.writes or block.length) or size != 2 * count:
                raise ModbusError(ILLEGAL_VALUE)
            self._allow(block.writers)
            block.write(body[5:])
            return body[:4]
        raise ModbusError(ILLEGAL_FUNCTION)

    def _block(self, first: int) -> RegisterBlock:
        if first + 1 not in self._table:
            raise ModbusError(ILLEGAL_ADDRESS)
        return self._table[first + 1]

    def _allow(self, levels: Words) -> None:
        if self.level not in levels:
            raise ModbusError(ILLEGAL_VALUE)

    def _pmc1(self) -> bytes:
        value, low, high = self.primary()
        return _u32(self.unit) + _f32(value) + _u32(self.status()) + _f32(low) + _f32(high)

    def _pmc6(self) -> bytes:
        scale: Callable[[float], float] = {
            0x2: lambda celsius: celsius + 273.15,
            0x4: lambda celsius: celsius,
            0x8: lambda celsius: celsius * 1.8 + 32.0,
        }[self.temperature_unit]
        values = b"".join(_f32(scale(celsius)) for celsius in (self.celsius(), -20.0, 130.0))
        return _u32(self.temperature_unit) + values[:4] + _u32(self.status()) + values[4:]

    def _select_unit(self, data: bytes) -> None:
        self.unit = self._one_of(data, self.units)

    def _select_temperature_unit(self, data: bytes) -> None:
        self.temperature_unit = self._one_of(data, (0x2, 0x4, 0x8))

    def _one_of(self, data: bytes, allowed: Words) -> int:
        if (code := _number(data)) not in allowed:
            raise ModbusError(ILLEGAL_VALUE)
        self.memory_writes += 1
        return code

    def _new_address(self, data: bytes) -> None:
        if not 1 <= (address := _number(data)) <= 247:
            raise ModbusError(ILLEGAL_VALUE)
        self.memory_writes += 1
        self.address = address

    def _log_in(self, data: bytes) -> None:
        level, password = _number(data), _number(data[4:])
        if self.passwords.get(level) != password:
            raise ModbusError(ILLEGAL_VALUE)
        self.level = level

    def _new_password(self, data: bytes) -> None:
        level, password = _number(data), _number(data[4:])
        if level not in CALIBRATORS:
            raise ModbusError(ILLEGAL_VALUE)
        self.memory_writes += 1
        self.passwords[level] = password

    def _calibrate(self, data: bytes) -> None:
        """Calibrate point 1 at once, as in a stable liquid; 0 asks the sensor to recognise the liquid."""
        (wanted,) = struct.unpack(">f", data[2:4] + data[:2])
        if not math.isfinite(wanted) or wanted < 0.0:
            raise ModbusError(ILLEGAL_VALUE)
        self.memory_writes += 1
        raw = self.plant.sense(self._point)
        target = self.recognised(raw, wanted)
        if target is None:
            self.warnings[1] |= 2
            return
        self.warnings[1] &= ~2
        self._offset = target - raw
        self._calibrated_at = target

    def recognised(self, raw: float, wanted: float) -> float | None:
        """Return the value of calibration point 1 in this liquid; None if the sensor does not recognise the liquid."""
        raise NotImplementedError


class HamiltonPhArc(HamiltonArc):
    """pH Arc: pH or mV."""

    model_id = "hamilton-ph-arc"
    bench = BenchFacts(similar=("Modbus",), doubts=True, checksum=True)
    point = "ph"
    channels = 0x06E1
    units = (0x1000, 0x200000)
    description = "pH"

    def primary(self) -> tuple[float, float, float]:
        """Return the pH (0 to 14), or the voltage of the glass membrane."""
        ph = self.plant.sense(self._point) + self._offset
        if self.unit == 0x1000:
            return ph, 0.0, 14.0
        return (ph - 7.0) * MV_PER_PH, 7.0 * MV_PER_PH, -7.0 * MV_PER_PH

    def recognised(self, raw: float, wanted: float) -> float | None:
        """Return the pH of the nearest buffer; None if none is near."""
        nearest = min(BUFFERS_PH, key=lambda buffer: abs(buffer - raw))
        if abs(nearest - raw) > RECOGNISED_PH or (wanted and abs(wanted - nearest) > 0.01):
            return None
        return nearest


class HamiltonVisifermDo(HamiltonArc):
    """VisiFerm DO: % of air saturation or % by volume."""

    model_id = "hamilton-visiferm-do"
    bench = BenchFacts(similar=("Modbus",), doubts=True, checksum=True)
    point = "oxygen"
    channels = 0x0021
    units = (0x20, 0x10)
    description = "DO"
    firmware = "ODOUM043"

    def primary(self) -> tuple[float, float, float]:
        """Return oxygen in the selected unit, up to three times air."""
        scale = 1.0 if self.unit == 0x20 else AIR_PERCENT_VOL / 100.0
        return (self.plant.sense(self._point) + self._offset) * scale, 0.0, 300.0 * scale

    def recognised(self, raw: float, wanted: float) -> float | None:
        """Return the value of air if the reading is near it, else None."""
        target = wanted or 100.0
        return target if abs(raw - target) < 30.0 else None


def _u32(value: int) -> bytes:
    return struct.pack(">HH", value & 0xFFFF, value >> 16)


def _f32(value: float) -> bytes:
    data = struct.pack(">f", value)
    return data[2:] + data[:2]


def _number(data: bytes) -> int:
    low, high = struct.unpack_from(">HH", data)
    return int(high) << 16 | int(low)


def _text(text: str, size: int) -> bytes:
    return text.encode("latin-1")[:size].ljust(size, b"\0")
