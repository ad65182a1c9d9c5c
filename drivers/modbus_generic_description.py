"""Content of a Modbus device description: points, blocks, and the encoding of numbers in registers."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

COILS, INPUT_BITS, HOLDING, INPUTS = 1, 2, 3, 4
WordOrder = Literal["high_first", "low_first"]
TYPES: Mapping[str, tuple[str, int]] = {
    "u16": (">H", 1),
    "i16": (">h", 1),
    "u32": (">I", 2),
    "i32": (">i", 2),
    "f32": (">f", 2),
}
"""Name → struct format with the high word first, number of registers."""


@dataclass(frozen=True, slots=True)
class LevelSpec:
    """How a number is written: `limits` and `rest` in the point's unit; `measured` names the point that follows it."""

    low: float
    high: float
    rest: float
    function: int
    measured: str
    eeprom: bool


@dataclass(frozen=True, slots=True)
class SwitchSpec:
    """How a switch is written: the raw words for on and off (1 and 0 for a coil)."""

    on: int
    off: int
    function: int
    eeprom: bool


@dataclass(frozen=True, slots=True)
class PointSpec:
    """One value of the device. `address` is the wire address; a reading outside `limits` is a fault."""

    name: str
    function: int
    address: int
    type: str
    word_order: WordOrder
    byte_order: WordOrder
    """Order of the two bytes of each register: Modbus has the high one first, some devices do not."""
    bit: int | None
    scale: float
    offset: float
    unit: str
    limits: tuple[float, float] | None
    invalid: tuple[float, ...]
    group: str
    level: LevelSpec | None
    switch: SwitchSpec | None

    @property
    def count(self) -> int:
        """Number of registers (or bits of functions 1 and 2) of the value."""
        return TYPES[self.type][1] if self.type else 1

    def raw(self, words: bytes) -> float:
        """Return the number in `words` (2 bytes per register as on the wire), before scale and offset."""
        number: float = struct.unpack(TYPES[self.type][0], self.in_order(words))[0]
        return number if self.bit is None else float(int(number) >> self.bit & 1)

    def value(self, raw: float) -> float:
        """Return `raw` in the point's unit."""
        return raw * self.scale + self.offset

    def words(self, value: float) -> bytes:
        """Return the registers' bytes for `value` (in the point's unit).

        Raises:
            OverflowError: The type cannot hold the value.
        """
        raw = (value - self.offset) / self.scale
        code = TYPES[self.type][0]
        try:
            packed = struct.pack(code, raw if self.type == "f32" else round(raw))
        except struct.error:
            raise OverflowError(f"{value:g} does not fit into {self.type}") from None
        return self.in_order(packed)

    def in_order(self, words: bytes) -> bytes:
        """Return the bytes of the registers in the order high word and high byte first, or from that in the device's."""
        if self.word_order == "low_first" and len(words) == 4:
            words = words[2:] + words[:2]
        if self.byte_order == "low_first":
            words = b"".join(words[at : at + 2][::-1] for at in range(0, len(words), 2))
        return words


@dataclass(frozen=True, slots=True)
class BlockSpec:
    """One request: `count` registers or bits of `function` from `address`, and the points in it."""

    function: int
    address: int
    count: int
    points: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CheckSpec:
    """A value that identifies this model: read at every verification, as raw number."""

    point: PointSpec
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Description:
    """A complete device."""

    name: str
    maker: str
    manual: str
    timeout_s: float
    late_s: float
    check: CheckSpec | None
    points: Mapping[str, PointSpec]
    blocks: tuple[BlockSpec, ...]
