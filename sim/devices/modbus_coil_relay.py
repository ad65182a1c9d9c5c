"""A Modbus RTU relay board of the Waveshare family (wiki "Modbus RTU Relay", development protocol).

Coils 0 to 7 are the relays; coil 0x00FF is all of them. Writing coil 0x0200 + n closes relay n for value × 100 ms and
then opens it, 0x0400 + n opens it for that long and then closes it: the board itself ends what a dead host began.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterable

from controller.rig.description import DeviceSpec
from sim.devices.bench_facts import BenchFacts
from sim.devices.modbus_slave import (
    ILLEGAL_ADDRESS,
    ILLEGAL_FUNCTION,
    ILLEGAL_VALUE,
    READ_COILS,
    READ_HOLDING_REGISTERS,
    WRITE_MULTIPLE_COILS,
    WRITE_SINGLE_COIL,
    WRITE_SINGLE_REGISTER,
    ModbusError,
    ModbusSlave,
)
from sim.devices.port import PlantPort
from sim.devices.wire import forgetting

RELAYS = 8
ALL = 0x00FF
FLASH_ON = 0x0200
FLASH_OFF = 0x0400
FLASH_UNIT_S = 0.1
FLASH_LONGEST = 0x7FFF
ON, OFF, FLIP = 0xFF00, 0x0000, 0x5500
ADDRESS_REGISTER = 0x4000
VERSION_REGISTER = 0x8000
VERSION = 200
"""V2.00, as the register gives it."""


class ModbusCoilRelay(ModbusSlave):
    """FC 01 reads coils, 05 writes one, 0F several; 03 and 06 the address register, 03 the version.

    A channel of the rig is named by its coil number ("0" to "7"). Without power every relay is open.
    """

    model_id = "modbus-coil-relay"
    bench = BenchFacts(similar=("Modbus", "laboratory"), checksum=True)

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        super().__init__(name, spec, plant)
        self.closed = [False] * RELAYS
        self._points = {int(coil): f"{name}.{channel.point}" for coil, channel in spec.channels.items()}
        self._flashes: dict[int, asyncio.TimerHandle] = {}

    def forget(self) -> Callable[[], None]:
        """See :meth:`WireDevice.forget`: its address; what relays do at power-up it never stored."""
        return forgetting(self, {"address": 1})

    def _halt(self) -> None:
        super()._halt()
        for relay in range(RELAYS):
            self._set(relay, False)

    def serve(self, function: int, body: bytes) -> bytes:
        """See :meth:`ModbusSlave.serve`."""
        if function == READ_COILS:
            return self._read_coils(body)
        if function == WRITE_SINGLE_COIL:
            return self._write_coil(body)
        if function == WRITE_MULTIPLE_COILS:
            return self._write_coils(body)
        if function in (READ_HOLDING_REGISTERS, WRITE_SINGLE_REGISTER):
            return self._register(function, body)
        raise ModbusError(ILLEGAL_FUNCTION)

    def _read_coils(self, body: bytes) -> bytes:
        first, count = _range(body)
        bits = sum(closed << place for place, closed in enumerate(self.closed[first : first + count]))
        return bytes((1, bits))

    def _write_coil(self, body: bytes) -> bytes:
        address, value = struct.unpack(">HH", body)
        if address < RELAYS or address == ALL:
            if value not in (ON, OFF, FLIP):
                raise ModbusError(ILLEGAL_VALUE)
            self._switch(range(RELAYS) if address == ALL else (address,), value)
            return body
        kind, relay = address & 0xFF00, address & 0x00FF
        if kind not in (FLASH_ON, FLASH_OFF) or relay >= RELAYS:
            raise ModbusError(ILLEGAL_ADDRESS)
        if not 1 <= value <= FLASH_LONGEST:
            raise ModbusError(ILLEGAL_VALUE)
        if not self.obeys:
            return body
        self._set(relay, kind == FLASH_ON)
        self._flashes[relay] = self.loop.call_later(value * FLASH_UNIT_S, self._set, relay, kind == FLASH_OFF)
        return body

    def _switch(self, relays: Iterable[int], value: int) -> None:
        for relay in relays if self.obeys else ():
            self._set(relay, not self.closed[relay] if value == FLIP else value == ON)

    def _write_coils(self, body: bytes) -> bytes:
        first, count = _range(body)
        if body[4] != (count + 7) // 8:
            raise ModbusError(ILLEGAL_VALUE)
        for place in range(count if self.obeys else 0):
            self._set(first + place, bool(body[5] >> place & 1))
        return body[:4]

    def _register(self, function: int, body: bytes) -> bytes:
        register, value = struct.unpack(">HH", body)
        if function == READ_HOLDING_REGISTERS:
            registers = {ADDRESS_REGISTER: self.address, VERSION_REGISTER: VERSION}
            if register not in registers:
                raise ModbusError(ILLEGAL_ADDRESS)
            if value != 1:
                raise ModbusError(ILLEGAL_VALUE)
            return struct.pack(">BH", 2, registers[register])
        if register != ADDRESS_REGISTER:
            raise ModbusError(ILLEGAL_ADDRESS)
        if not 1 <= value <= 255:
            raise ModbusError(ILLEGAL_VALUE)
        self.address = value
        return body

    def _set(self, relay: int, closed: bool) -> None:
        if (flash := self._flashes.pop(relay, None)) is not None:
            flash.cancel()
        if self.closed[relay] != closed:
            self.closed[relay] = closed
            if relay in self._points:
                self.plant.set_switch(self._points[relay], closed)


def _range(body: bytes) -> tuple[int, int]:
    """Return first coil and count of a request, both within the board."""
    first, count = struct.unpack_from(">HH", body)
    if first + count > RELAYS:
        raise ModbusError(ILLEGAL_ADDRESS)
    if count < 1:
        raise ModbusError(ILLEGAL_VALUE)
    return first, count
