"""Keller series 30/40 (X-Line) pressure transmitter on Modbus RTU. Keller communication protocol series 30, pp. 13–16."""

from __future__ import annotations

import struct

from sim.devices.modbus_slave import ModbusError, ModbusSlave

BAR_PER_KPA = 0.01


class KellerXLine(ModbusSlave):
    """Process values from 0x0000 as float32, high word first: CH0, P1 (bar), P2, T (°C), TOB1."""

    functions = (3, 4)

    def serve(self, function: int, body: bytes) -> bytes:
        start, count = struct.unpack(">HH", body)
        if not 1 <= count <= 10 or start + count > 10:
            raise ModbusError(2)
        pressure_bar = self.plant.sense(f"{self.name}.pressure") * BAR_PER_KPA
        values = struct.pack(">5f", pressure_bar, pressure_bar, float("nan"), float("nan"), 25.0)
        return bytes((2 * count,)) + values[2 * start : 2 * (start + count)]
