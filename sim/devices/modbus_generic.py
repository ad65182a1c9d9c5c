"""A device by its Modbus description: registers at the described addresses and in the described types.

Written from the format's page (docs/generic-modbus.md) and the Modbus application protocol V1.1b3. The plant gives the
values of the points it knows; a point that it does not know tells its `example`, and one that a level names as
`measured` follows the set-point with a time constant, as a bath or an oven does.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from controller.rig.description import DeviceSpec
from drivers.strict_yaml import load_yaml
from sim.devices.bench_facts import BenchFacts
from sim.devices.modbus_slave import (
    ILLEGAL_ADDRESS,
    ILLEGAL_FUNCTION,
    ILLEGAL_VALUE,
    READ_COILS,
    READ_HOLDING_REGISTERS,
    WRITE_MULTIPLE_COILS,
    WRITE_MULTIPLE_REGISTERS,
    WRITE_SINGLE_COIL,
    WRITE_SINGLE_REGISTER,
    ModbusError,
    ModbusSlave,
)
from sim.devices.port import PlantPort
from sim.devices.wire import forgetting

READ_INPUT_BITS, READ_INPUT_REGISTERS = 0x02, 0x04
LAG_S = 60.0
"""Time constant with which a measured value follows its set-point."""
_FUNCTIONS = frozenset({1, 2, 3, 4, WRITE_SINGLE_COIL, WRITE_SINGLE_REGISTER, WRITE_MULTIPLE_COILS, 16})
_CODES = {"u16": "H", "i16": "h", "u32": "I", "i32": "i", "f32": "f"}
DESCRIBED = """
format: 1
name: a probe with an output
check: {function: 3, register: 20, type: u16, equals: 4711}
points:
  measured: {function: 3, register: 0, type: f32, word_order: low_first, unit: ppm, limits: [0, 200000]}
  setpoint: {function: 3, register: 10, type: i16, scale: 0.1, unit: degC, level: {limits: [5, 60], rest: 0}}
"""
"""A Modbus device as users describe one, for its bench."""


@dataclass(slots=True)
class _Cell:
    """One described point: its address and its value."""

    name: str
    told: dict[str, Any]
    address: int
    low_first: bool
    """Whether the low word of a 32-bit value comes first."""
    swapped: bool
    """Whether the low byte of each register comes first."""
    raw: float = 0.0
    goal: float | None = None
    """The set-point that it follows, in its unit."""
    since_s: float = 0.0
    was: float = 0.0
    """What it was when the goal was set, in its unit."""
    jammed: bool = False
    """Whether it stands still whatever the set-point, as a stirrer whose bar is blocked."""

    @property
    def kind(self) -> str:
        return str(self.told.get("type") or "bit")

    @property
    def size(self) -> int:
        return 2 if self.kind in ("u32", "i32", "f32") else 1

    @property
    def scale(self) -> float:
        return float(self.told.get("scale", 1.0))

    @property
    def offset(self) -> float:
        return float(self.told.get("offset", 0.0))

    def unit_value(self, raw: float) -> float:
        return raw * self.scale + self.offset

    def raw_value(self, value: float) -> float:
        return (value - self.offset) / self.scale

    def registers(self) -> bytes:
        if self.kind == "bit":
            return bytes((0, 1 if self.raw else 0))
        if self.kind == "f32":
            data = struct.pack(">f", self.raw)
        else:
            bits = 16 * self.size
            low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if self.kind[0] == "i" else (0, (1 << bits) - 1)
            value = int(min(max(round(self.raw), low), high))
            bit = self.told.get("bit")
            data = struct.pack(">" + _CODES[self.kind], (value & 1) << bit if bit is not None else value)
        return _on_the_wire(self, data)


class ModbusGeneric(ModbusSlave):
    """One described device; `writes` counts the writes to each point, which wear its EEPROM."""

    model_id = "modbus-generic"
    bench = BenchFacts(settings={"description": DESCRIBED}, similar=("Modbus",), checksum=True)

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        super().__init__(name, spec, plant)
        text = spec.settings.get("description")
        if text is None:
            text = Path(str(spec.settings["file"])).read_text(encoding="utf-8")
        self._told = _described(str(text))
        base = int(self._told.get("counted_from", 0))
        self._cells: dict[str, _Cell] = {}
        for point, told in self._told["points"].items():
            self._cells[point] = _Cell(point, told, int(told["register"]) - base, *self._orders(told))
        self.writes = dict.fromkeys(self._cells, 0)
        for cell in self._cells.values():
            self._fill(cell)
        self._check: _Cell | None = None
        if (check := self._told.get("check")) is not None:
            told = check["equals"] if "equals" in check else check["between"][0]
            self._check = _Cell("check", check, int(check["register"]) - base, *self._orders(check), raw=float(told))

    def _orders(self, told: Mapping[str, Any]) -> tuple[bool, bool]:
        """Return whether the low word, and the low byte of each register, come first in a point or check."""
        orders = [told.get(key) or self._told.get(key) for key in ("word_order", "byte_order")]
        return orders[0] == "low_first", orders[1] == "low_first"

    def forget(self) -> Callable[[], None]:
        """See :meth:`WireDevice.forget`: its address; every level and switch is at rest after a power-up anyway."""
        return forgetting(self, {"address": 1})

    # --- what stands where --------------------------------------------------------------------------------

    def _fill(self, cell: _Cell) -> None:
        """Fill a cell with its value at power-up: rest, or its example."""
        told = cell.told
        if told.get("level") is not None:
            cell.raw = self._rounded(cell, float(told["level"]["rest"]))
        elif told.get("switch") is not None:
            cell.raw = float(told["switch"].get("off", 0))
        else:
            limits = told.get("limits")
            example = told.get("example", sum(limits) / 2 if limits else 0.0)
            cell.raw = cell.raw_value(float(example))

    def _rounded(self, cell: _Cell, value: float) -> float:
        raw = cell.raw_value(value)
        return struct.unpack(">f", struct.pack(">f", raw))[0] if cell.kind == "f32" else float(round(raw))

    def _halt(self) -> None:
        super()._halt()
        for cell in self._cells.values():
            if cell.told.get("level") is not None or cell.told.get("switch") is not None:
                before = cell.raw
                self._fill(cell)
                if cell.raw != before:
                    self._act(cell)

    def _refresh(self, cell: _Cell) -> None:
        if cell is self._check:
            return  # what a device is called does not depend on the plant
        if cell.told.get("level") is not None or cell.told.get("switch") is not None:
            return
        try:
            cell.raw = cell.raw_value(self.plant.sense(f"{self.name}.{cell.name}"))
        except KeyError:  # the plant has no such quantity
            if cell.goal is not None:
                passed_s = self.loop.time() - cell.since_s
                cell.raw = cell.raw_value(cell.goal + (cell.was - cell.goal) * math.exp(-passed_s / LAG_S))

    def _table(self, function: int) -> list[_Cell]:
        cells = [cell for cell in self._cells.values() if cell.told["function"] == function]
        if self._check is not None and self._check.told["function"] == function:
            cells.append(self._check)
        return cells

    def _hole(self, function: int, address: int) -> bool:
        """Return whether an undescribed register may be read: between points of one group, or within the allowed gap."""
        gap = int(self._told.get("max_gap", 0))
        cells = self._table(function)
        below = [cell for cell in cells if cell.address + cell.size <= address]
        above = [cell for cell in cells if cell.address > address]
        grouped = _groups(below) & _groups(above)
        if not below or not above:
            return False
        nearest = min(cell.address for cell in above) - max(cell.address + cell.size for cell in below)
        return bool(grouped) or nearest <= gap

    def _register(self, function: int, address: int) -> bytes:
        bits = 0
        found = False
        for cell in self._table(function):
            if cell.address <= address < cell.address + cell.size:
                self._refresh(cell)
                at = 2 * (address - cell.address)
                bits |= int.from_bytes(cell.registers()[at : at + 2], "big")  # several bits may share a register
                found = True
        if not found and not self._hole(function, address):
            raise ModbusError(ILLEGAL_ADDRESS)
        return bits.to_bytes(2, "big")

    # --- requests -----------------------------------------------------------------------------------------

    def serve(self, function: int, body: bytes) -> bytes:
        """See :meth:`ModbusSlave.serve`."""
        if function not in _FUNCTIONS or len(body) < 4:
            raise ModbusError(ILLEGAL_FUNCTION)
        first, value = struct.unpack_from(">HH", body)
        if function in (READ_COILS, READ_INPUT_BITS):
            return self._read_bits(function, first, value)
        if function in (READ_HOLDING_REGISTERS, READ_INPUT_REGISTERS):
            if not 1 <= value <= 125:
                raise ModbusError(ILLEGAL_VALUE)
            return bytes((2 * value,)) + b"".join(self._register(function, first + at) for at in range(value))
        if function in (WRITE_SINGLE_COIL, WRITE_SINGLE_REGISTER):
            return self._write_single(function, first, body)
        return self._write_multiple(function, first, value, body)

    def _read_bits(self, function: int, first: int, count: int) -> bytes:
        if not 1 <= count <= 2000:
            raise ModbusError(ILLEGAL_VALUE)
        states = [self._register(function, first + at)[1] for at in range(count)]
        packed = sum(state << place for place, state in enumerate(states))
        return bytes(((count + 7) // 8,)) + packed.to_bytes((count + 7) // 8, "little")

    def _write_single(self, function: int, address: int, body: bytes) -> bytes:
        if function == WRITE_SINGLE_REGISTER:
            self._write(READ_HOLDING_REGISTERS, address, body[2:4])
            return body
        value = int.from_bytes(body[2:4], "big")
        if value not in (0xFF00, 0x0000):
            raise ModbusError(ILLEGAL_VALUE)
        self._write(READ_COILS, address, bytes((0, value == 0xFF00)))
        return body

    def _write_multiple(self, function: int, first: int, count: int, body: bytes) -> bytes:
        """Write registers, or one coil."""
        if function == WRITE_MULTIPLE_REGISTERS:
            if len(body) != 5 + 2 * count or body[4] != 2 * count:
                raise ModbusError(ILLEGAL_VALUE)
            self._write(READ_HOLDING_REGISTERS, first, body[5:])
            return body[:4]
        if count != 1 or len(body) != 6 or body[4] != 1:
            raise ModbusError(ILLEGAL_VALUE)
        self._write(READ_COILS, first, bytes((0, body[5] & 1)))
        return body[:4]

    def _write(self, table: int, address: int, data: bytes) -> None:
        for cell in self._table(table):
            way = cell.told.get("level"), cell.told.get("switch")
            if cell.address == address and 2 * cell.size == len(data) and way != (None, None):
                raw = _raw_value(cell, data)
                if not self.obeys:
                    return
                cell.raw = raw
                self.writes[cell.name] += 1
                self._act(cell)
                return
        raise ModbusError(ILLEGAL_ADDRESS)

    @property
    def commanded(self) -> tuple[str, ...]:
        """Return the points that a host may set."""
        return tuple(
            name for name, cell in self._cells.items() if cell.told.get("level") or cell.told.get("switch") is not None
        )

    def told(self, point: str) -> float:
        """Return the last command for `point`: a level in its unit, a switch as 1 or 0."""
        cell = self._cells[point]
        if cell.told.get("switch") is not None:
            return float(cell.raw != float(cell.told["switch"].get("off", 0)))
        return cell.unit_value(cell.raw)

    def _act(self, cell: _Cell) -> None:
        """Pass the command in a cell to the plant, and start the change of the value that measures it."""
        point, value = f"{self.name}.{cell.name}", cell.unit_value(cell.raw)
        if cell.told.get("switch") is not None:
            self.plant.set_switch(point, cell.raw != float(cell.told["switch"].get("off", 0)))
            return
        if cell.told.get("unit") == "mL/min":
            self.plant.set_gas(point, value)
        follower = self._cells.get(str(cell.told["level"].get("measured") or ""))
        if follower is not None:
            self._follow(follower, value)

    def _follow(self, follower: _Cell, value: float) -> None:
        self._refresh(follower)
        follower.was, follower.since_s = follower.unit_value(follower.raw), self.loop.time()
        follower.goal = 0.0 if follower.jammed else value

    def jam(self, point: str, *, jammed: bool = True) -> None:
        """Block what `point` measures, such as the speed of a stirrer, or free it; the set-point stays as it is."""
        follower = self._cells[point]
        follower.jammed = jammed
        level = next(cell for cell in self._cells.values() if (cell.told.get("level") or {}).get("measured") == point)
        self._follow(follower, level.unit_value(level.raw))


@lru_cache(maxsize=64)
def _described(text: str) -> Mapping[str, Any]:
    """Read a description, once for all devices that share it; no device changes it."""
    told: Mapping[str, Any] = load_yaml(text)
    return told


def _groups(cells: list[_Cell]) -> set[str]:
    """Return the names of the groups to which the cells belong."""
    return {cell.told["group"] for cell in cells if cell.told.get("group")}


def _on_the_wire(cell: _Cell, data: bytes) -> bytes:
    """Return `data` with words and bytes exchanged as the device has them; twice is the beginning again."""
    if cell.low_first and cell.size == 2:
        data = data[2:4] + data[0:2]
    return (
        b"".join(data[at + 1 : at + 2] + data[at : at + 1] for at in range(0, len(data), 2)) if cell.swapped else data
    )


def _raw_value(cell: _Cell, data: bytes) -> float:
    """Return the value that is written into a cell. Raises ModbusError for a float that is not finite."""
    swapped = _on_the_wire(cell, data)
    code = "H" if cell.kind == "bit" else _CODES[cell.kind]
    raw = struct.unpack(">" + code, swapped)[0]
    if cell.kind == "f32" and not math.isfinite(raw):
        raise ModbusError(ILLEGAL_VALUE)
    return float(raw)
