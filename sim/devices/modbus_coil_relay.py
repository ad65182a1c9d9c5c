"""A Modbus relay board of the Waveshare kind: coils 0…7, and coils that fall back by themselves (flash).

Writing address 0x0200 + n closes relay n for value × 100 ms, 0x0400 + n opens it for that long.
"""

from __future__ import annotations

import asyncio
import struct

from sim.devices.modbus_slave import ModbusError, ModbusSlave

RELAYS = 8


class ModbusCoilRelay(ModbusSlave):
    """FC 01 reads coils, 05 writes one, 15 writes several."""

    functions = (1, 5, 15)

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.closed = [False] * RELAYS
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._points = {int(number): f"{self.name}.{channel.point}" for number, channel in self.spec.channels.items()}

    def power_off(self) -> None:
        for number in range(RELAYS):
            self._set(number, False)

    def serve(self, function: int, body: bytes) -> bytes:
        if function == 1:
            start, count = struct.unpack(">HH", body)
            if not count >= 1 or start + count > RELAYS:
                raise ModbusError(2)
            bits = sum(self.closed[start + i] << i for i in range(count))
            return bytes(((count + 7) // 8,)) + bits.to_bytes((count + 7) // 8, "little")
        if function == 15:
            start, count = struct.unpack_from(">HH", body)
            if not count >= 1 or start + count > RELAYS:
                raise ModbusError(2)
            bits = int.from_bytes(body[5:], "little")
            for i in range(count):
                self._set(start + i, bool(bits >> i & 1))
            return body[:4]
        address, value = struct.unpack(">HH", body)
        flash, number = address & 0xFF00, address & 0x00FF
        if number >= RELAYS and not (address == 0xFF):
            raise ModbusError(2)
        if flash == 0:
            if value not in (0xFF00, 0x0000, 0x5500):
                raise ModbusError(3)
            wanted = not self.closed[number] if value == 0x5500 else value == 0xFF00
            self._set(number, wanted)
        elif flash in (0x0200, 0x0400):
            if not 1 <= value <= 0x7FFF:
                raise ModbusError(3)
            self._set(number, flash == 0x0200)
            self._timers[number] = asyncio.get_running_loop().call_later(
                value * 0.1, self._set, number, flash != 0x0200
            )
        else:
            raise ModbusError(2)
        return body

    def _set(self, number: int, closed: bool) -> None:
        if (timer := self._timers.pop(number, None)) is not None:
            timer.cancel()
        self.closed[number] = closed
        if number in self._points:
            self.plant.set_switch(self._points[number], closed)
