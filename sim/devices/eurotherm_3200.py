"""A Eurotherm 3200 controller on Modbus RTU (HA028651 p. 81, wire addresses; function 3 reads, 6 and 16 write).

Temperatures are 16-bit integers with `decimals` places (device setting, default 1). Address 26 is the remote set-point:
volatile, and believed for 5 s after each writing; then SP1 holds again. Addresses 2, 24 and 25 are kept in EEPROM, and
`memory_writes` counts how often they were written.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from controller.rig.description import DeviceSpec
from sim.devices.bath import Bath
from sim.devices.bench_facts import BenchFacts
from sim.devices.modbus_slave import (
    ILLEGAL_ADDRESS,
    ILLEGAL_FUNCTION,
    ILLEGAL_VALUE,
    READ_HOLDING_REGISTERS,
    WRITE_MULTIPLE_REGISTERS,
    WRITE_SINGLE_REGISTER,
    ModbusError,
    ModbusSlave,
)
from sim.devices.port import PlantPort
from sim.devices.wire import forgetting

PV, TARGET, MANUAL, OUTPUT, WORKING, BAND, ACTION, TI, TD = range(1, 10)
RANGE_LOW, RANGE_HIGH, SELECT, SP1, SP2, REMOTE, VERSION, ADDRESS = 11, 12, 15, 24, 25, 26, 107, 131
EEPROM = (TARGET, SP1, SP2)
FACTORY = {MANUAL: 0, BAND: 20, ACTION: 0, TI: 360, TD: 60, SELECT: 0, VERSION: 0x0210}
REMOTE_S = 5.0
SENSOR_BREAK = 0x7FFF


class Eurotherm3200(ModbusSlave):
    """A heating loop with its own bath; `remote_selected` is the choice at the front panel."""

    model_id = "eurotherm-3200"
    bench = BenchFacts(
        similar=("Modbus",),
        checksum=True,
        no_worse={"guarantee overstated": "a remote set-point that is not repeated ends by itself within seconds"},
    )
    think_s = 0.010

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        super().__init__(name, spec, plant)
        self.scale = 10.0 ** -int(spec.settings.get("decimals", 1))
        self.bath = Bath(lambda course: plant.set_bath(f"{name}.setpoint", course))
        self.remote_selected = True
        self.remote_s = REMOTE_S
        """How long an unrepeated remote set-point is believed; math.inf for a firmware that never forgets."""
        self.sensor_broken = False
        self.range_c = (-10.0, 100.0)
        self.memory_writes: int = 0
        self._stored = {SP1: self._raw(20.0), SP2: self._raw(20.0)}
        self._registers = dict(FACTORY)
        self._remote: int | None = None
        self._remote_at_s = 0.0

    def forget(self) -> Callable[[], None]:
        """See :meth:`WireDevice.forget`: set-points, constants, address, and that the remote set-point is selected."""
        return forgetting(
            self,
            {
                "_stored": {SP1: self._raw(20.0), SP2: self._raw(20.0)},
                "_registers": dict(FACTORY),
                "address": 1,
                "remote_selected": False,
            },
        )

    def _boot(self) -> None:
        self._remote = None
        self.bath.touch(True)  # the block that it heats is fitted for good, with power or without
        self._regulate()

    def _halt(self) -> None:
        super()._halt()
        self.bath.regulate(None)

    def _raw(self, celsius: float) -> int:
        return round(celsius / self.scale)

    def working(self) -> int:
        """Return the set-point in force."""
        fresh = self.loop.time() - self._remote_at_s <= self.remote_s
        if self.remote_selected and self._remote is not None and fresh:
            return self._remote
        return self._stored[SP2 if self._registers[SELECT] else SP1]

    def _regulate(self) -> None:
        """Regulate the bath to the working set-point."""
        if not self.powered:
            return
        self.bath.regulate(self.working() * self.scale)

    def _grown_old(self, boots: int) -> None:
        if boots == self.boots:
            self._regulate()

    def serve(self, function: int, body: bytes) -> bytes:
        """See :meth:`ModbusSlave.serve`."""
        if function not in (READ_HOLDING_REGISTERS, WRITE_SINGLE_REGISTER, WRITE_MULTIPLE_REGISTERS):
            raise ModbusError(ILLEGAL_FUNCTION)
        first, value = struct.unpack_from(">HH", body)
        if function == READ_HOLDING_REGISTERS:
            if not 1 <= value <= 125:
                raise ModbusError(ILLEGAL_VALUE)
            words = [self._read(first + at) & 0xFFFF for at in range(value)]
            return struct.pack(f">B{value}H", 2 * value, *words)
        if function == WRITE_SINGLE_REGISTER:
            self._write(first, struct.unpack(">h", body[2:4])[0])
            return body
        if value != 1 or len(body) != 7 or body[4] != 2:
            raise ModbusError(ILLEGAL_VALUE)
        self._write(first, struct.unpack(">h", body[5:7])[0])
        return body[:4]

    def _read(self, address: int) -> int:
        self._regulate()
        match address:
            case 1:
                return SENSOR_BREAK if self.sensor_broken else self._raw(self.bath.temperature_c)
            case 2 | 5:
                return self.working()
            case 4:
                return self._raw(self.bath.output(cools=False))
            case 11 | 12:
                return self._raw(self.range_c[address - RANGE_LOW])
        known = {**self._registers, **self._stored, 10: 0, 26: self._remote or 0, 131: self.address}
        if address not in known:
            raise ModbusError(ILLEGAL_ADDRESS)
        return known[address]

    def _write(self, address: int, value: int) -> None:
        low, high = (self._raw(celsius) for celsius in self.range_c)
        if address in (TARGET, SP1, SP2, REMOTE):
            if not low <= value <= high:
                raise ModbusError(ILLEGAL_VALUE)
            if not self.obeys:
                return
            if address == REMOTE:
                self._remote, self._remote_at_s = value, self.loop.time()
                if self.remote_s < 1e6:
                    self.loop.call_later(self.remote_s + 0.001, self._grown_old, self.boots)
            else:
                self.memory_writes += 1
                self._stored[(SP2 if self._registers[SELECT] else SP1) if address == TARGET else address] = value
        elif address in (SELECT, MANUAL, BAND, TI, TD):
            self._registers[address] = value
        else:
            raise ModbusError(ILLEGAL_ADDRESS)
        self._regulate()
