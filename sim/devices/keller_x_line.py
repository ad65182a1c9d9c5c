"""Keller series 30/40 (X-Line) pressure transmitter: Modbus RTU and Keller bus on one port.

Source: Keller, "Communication protocol Serie 30" pp. 13–16. Both protocols use one CRC-16, but Modbus sends its low
byte first and Keller bus its high byte. Pressure is in bar relative to the atmosphere; the plant tells kPa.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import ClassVar

from controller.rig.description import DeviceSpec
from sim.devices.bench_facts import BenchFacts
from sim.devices.modbus_slave import (
    BROADCAST,
    DIAGNOSTICS,
    ILLEGAL_ADDRESS,
    ILLEGAL_FUNCTION,
    ILLEGAL_VALUE,
    READ_HOLDING_REGISTERS,
    WRITE_MULTIPLE_REGISTERS,
    ModbusError,
    ModbusSlave,
    crc16,
)
from sim.devices.port import PlantPort

KPA_PER_BAR = 100.0
TRANSPARENT_ADDRESS = 250
"""Every transmitter answers to it, whatever its own address: of use only when it is alone on the line."""

FLOATS_AT, INTEGERS_AT = 0x0000, 0x0010
SET_ZERO_P1, RESET_ZERO_P1 = 0xFF00, 0xFF02
CHANNELS = ("CH0", "P1", "P2", "T", "TOB1")
"""Process values in the order of their registers: calculated, pressure 1 and 2, temperature, temperature of P1."""

KB_READ_COEFFICIENT, KB_READ_CONFIG, KB_WRITE_CONFIG = 30, 32, 33
KB_INITIALISE, KB_NEW_ADDRESS, KB_SERIAL, KB_READ_FLOAT, KB_READ_INTEGER, KB_ZERO = 48, 66, 69, 73, 74, 95
_KB_DATA_BYTES = {
    KB_READ_COEFFICIENT: 1,
    KB_READ_CONFIG: 1,
    KB_WRITE_CONFIG: 2,
    KB_INITIALISE: 0,
    KB_NEW_ADDRESS: 1,
    KB_SERIAL: 0,
    KB_READ_FLOAT: 1,
    KB_READ_INTEGER: 1,
    KB_ZERO: 1,
}
KB_ILLEGAL_PARAMETER, KB_NOT_INITIALISED = 2, 32
IDENTITY = bytes((5, 20, 12, 40, 8))
"""Class, group, firmware year and week, buffer length: the answer to function 48 without its last byte."""

MAX_GAUGE_BAR = 10.0
MIN_GAUGE_BAR = -1.0
SENSOR_C = 25.0
"""TOB1: the housing stays at the bench's temperature."""


class KellerXLine(ModbusSlave):
    """One pressure channel (P1); P2, T and the calculated channel are not fitted and read NaN."""

    model_id = "keller-x-line"
    bench = BenchFacts(similar=("Modbus",), checksum=True)
    think_s = 0.003

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        super().__init__(name, spec, plant)
        self.belong_to(0)
        self.zero_bar = 0.0
        self._initialised = False
        self._point = f"{name}.pressure"
        self._config = bytearray(32)

    def belong_to(self, lab: int) -> None:
        """See :meth:`WireDevice.belong_to`."""
        self.serial = 100_000 + self.address + lab

    def _boot(self) -> None:
        self._initialised = False

    def forged(self, data: bytes, address: str) -> bytes | None:
        """See :meth:`WireDevice.forged`; on its own bus the checksum goes the other way round."""
        if len(data) > 3 and data[0] == self.address and crc16(data[:-2]) == data[-2] << 8 | data[-1]:
            plain = bytes((int(address),)) + data[1:-2]
            return plain + crc16(plain).to_bytes(2, "big")
        return super().forged(data, address)

    def forget(self) -> Callable[[], None]:
        """See :meth:`WireDevice.forget`: the zero and the configuration."""
        stored = self.zero_bar, self._config
        self.zero_bar, self._config = 0.0, bytearray(32)

        def again() -> None:
            self.zero_bar, self._config = stored

        return again

    def mine(self, address: int) -> bool:
        """Return whether the device answers to `address`: its own, or the transparent one."""
        return address in (self.address, TRANSPARENT_ADDRESS)

    def value(self, channel: int) -> float:
        """Return process value `channel` (bar or °C): NaN without a sensor, ±infinity beyond the range."""
        if channel == 1:
            bar = self.plant.sense(self._point) / KPA_PER_BAR - self.zero_bar
            if bar > MAX_GAUGE_BAR:
                return math.inf
            return -math.inf if bar < MIN_GAUGE_BAR else bar
        return SENSOR_C if channel == CHANNELS.index("TOB1") else math.nan

    # --- Modbus -----------------------------------------------------------------------------------------

    def serve(self, function: int, body: bytes) -> bytes:
        """See :meth:`ModbusSlave.serve`."""
        if function == READ_HOLDING_REGISTERS:
            return self._read_registers(*struct.unpack(">HH", body))
        if function == WRITE_MULTIPLE_REGISTERS:
            return self._write_registers(body)
        if function == DIAGNOSTICS:
            if body[:2] != b"\0\0":
                raise ModbusError(ILLEGAL_VALUE)
            return body
        raise ModbusError(ILLEGAL_FUNCTION)

    def _read_registers(self, first: int, count: int) -> bytes:
        base, pack = (INTEGERS_AT, self._integer) if first >= INTEGERS_AT else (FLOATS_AT, self._float)
        offset = first - base
        if offset + count > 2 * len(CHANNELS):
            raise ModbusError(ILLEGAL_ADDRESS)
        if count < 1:
            raise ModbusError(ILLEGAL_VALUE)
        channels = range(offset // 2, (offset + count + 1) // 2)
        values = b"".join(pack(channel) for channel in channels)
        skipped = offset % 2 * 2
        return bytes((2 * count,)) + values[skipped : skipped + 2 * count]

    def _float(self, channel: int) -> bytes:
        return struct.pack(">f", self.value(channel))

    def _integer(self, channel: int) -> bytes:
        """Return a value in 1/100 mbar or 1/100 °C; NaN and infinity become the ends of the range."""
        value = self.value(channel)
        scaled = value * (100_000.0 if channel in (0, 1, 2) else 100.0)
        if math.isnan(scaled):
            scaled = -(2.0**31)
        return struct.pack(">i", round(max(-(2.0**31), min(2.0**31 - 1, scaled))))

    def _write_registers(self, body: bytes) -> bytes:
        first, count, size = struct.unpack_from(">HHB", body)
        if first not in (SET_ZERO_P1, RESET_ZERO_P1):
            raise ModbusError(ILLEGAL_ADDRESS)
        if count != 2 or size != 4:
            raise ModbusError(ILLEGAL_VALUE)
        (wanted,) = struct.unpack_from(">f", body, 5)
        self._zero(reset=first == RESET_ZERO_P1, wanted_bar=wanted if math.isfinite(wanted) else 0.0)
        return body[:4]

    def _zero(self, *, reset: bool, wanted_bar: float = 0.0) -> None:
        """Make P1 read `wanted_bar` now, or restore the factory's zero."""
        self.zero_bar = 0.0 if reset else self.plant.sense(self._point) / KPA_PER_BAR - wanted_bar

    # --- Keller bus -------------------------------------------------------------------------------------

    def frame_length(self, buffer: bytes | bytearray) -> int | None:
        """Return the length of a frame; Keller bus frames have their own lengths."""
        data_bytes = _KB_DATA_BYTES.get(buffer[1])
        return super().frame_length(buffer) if data_bytes is None else 4 + data_bytes

    def intact(self, frame: bytes) -> bool:
        """Return whether the checksum fits: in a Keller bus frame its high byte comes first."""
        if frame[1] not in _KB_DATA_BYTES:
            return super().intact(frame)
        return crc16(frame[:-2]) == frame[-2] << 8 | frame[-1]

    def on_frame(self, frame: bytes) -> None:
        """Carry out Keller bus functions here, all others as Modbus."""
        if frame[1] not in _KB_DATA_BYTES:
            super().on_frame(frame)
        elif self.mine(frame[0]) and frame[0] != BROADCAST:
            self._keller_bus(frame[0], frame[1], frame[2:-2])

    def _keller_bus(self, address: int, function: int, data: bytes) -> None:
        try:
            frame = bytes((address, function)) + self._kb_answer(function, data)
        except ModbusError as error:
            frame = bytes((address, function | 0x80, error.code))
        self.send(frame + crc16(frame).to_bytes(2, "big"))

    def _kb_answer(self, function: int, data: bytes) -> bytes:
        """Return the answer's data; after power-up no function is served before function 48."""
        if function == KB_INITIALISE:
            first, self._initialised = not self._initialised, True
            return IDENTITY + bytes((first,))
        if not self._initialised:
            raise ModbusError(KB_NOT_INITIALISED)
        return self._KB_FUNCTIONS[function](self, data)

    def _kb_read_float(self, data: bytes) -> bytes:
        return self._float(_below(len(CHANNELS), data[0])) + b"\0"

    def _kb_read_integer(self, data: bytes) -> bytes:
        return self._integer(_below(len(CHANNELS), data[0])) + b"\0"

    def _kb_serial(self, data: bytes) -> bytes:
        return struct.pack(">I", self.serial)

    def _kb_new_address(self, data: bytes) -> bytes:
        """Take a new address; 0 asks for the present one."""
        self.address = _below(TRANSPARENT_ADDRESS, data[0]) or self.address
        return bytes((self.address,))

    def _kb_zero(self, data: bytes) -> bytes:
        """Set the zero of P1: with 0 it reads 0 now, with 1 the factory's zero is restored."""
        self._zero(reset=_below(2, data[0]) == 1)
        return b"\0"

    def _kb_read_coefficient(self, data: bytes) -> bytes:
        """Return coefficient 64 (zero of P1), 80 or 81 (range of P1, bar); the others are not simulated."""
        known = {64: -self.zero_bar, 80: MIN_GAUGE_BAR, 81: MAX_GAUGE_BAR}
        if data[0] not in known:
            raise ModbusError(KB_ILLEGAL_PARAMETER)
        return struct.pack(">f", known[data[0]])

    def _kb_read_config(self, data: bytes) -> bytes:
        return bytes((self._config[_below(len(self._config), data[0])],))

    def _kb_write_config(self, data: bytes) -> bytes:
        self._config[_below(len(self._config), data[0])] = data[1]
        return b"\0"

    _KB_FUNCTIONS: ClassVar[dict[int, Callable[[KellerXLine, bytes], bytes]]] = {
        KB_READ_COEFFICIENT: _kb_read_coefficient,
        KB_READ_CONFIG: _kb_read_config,
        KB_WRITE_CONFIG: _kb_write_config,
        KB_NEW_ADDRESS: _kb_new_address,
        KB_SERIAL: _kb_serial,
        KB_READ_FLOAT: _kb_read_float,
        KB_READ_INTEGER: _kb_read_integer,
        KB_ZERO: _kb_zero,
    }


def _below(limit: int, parameter: int) -> int:
    """Return `parameter`. Raises ModbusError if it is not below `limit`."""
    if parameter >= limit:
        raise ModbusError(KB_ILLEGAL_PARAMETER)
    return parameter
