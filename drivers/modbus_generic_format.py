"""Format of a Modbus device description: its keys, with the check, fix and default of each.

The tables below are the format's only definition; docs/generic-modbus.md describes it in prose.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from drivers.modbus_generic_description import TYPES

MAX_REGISTERS = 125
"""Registers in one request (Modbus Application Protocol V1.1b3 §6.3)."""
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")

Check = Callable[[Any], bool]
MISSING = object()


@dataclass(frozen=True, slots=True)
class DescriptionKey:
    """One key of the format: the check of its value, the fix for a wrong one, and its default."""

    right: Check
    fix: str
    default: Any = MISSING


def _number(low: float, high: float) -> Check:
    return lambda value: (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and math.isfinite(value)
        and low <= value <= high
    )


def _whole(low: int, high: int) -> Check:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _among(*values: object) -> Check:
    return lambda value: not isinstance(value, bool) and value in values


def _text(max_length: int, min_length: int = 1) -> Check:
    return lambda value: isinstance(value, str) and min_length <= len(value) <= max_length and value.isprintable()


def _pair(value: Any) -> bool:
    each = _number(-1e12, 1e12)
    return isinstance(value, list) and len(value) == 2 and all(map(each, value)) and value[0] < value[1]


def _numbers(value: Any) -> bool:
    return isinstance(value, list) and 1 <= len(value) <= 16 and all(map(_number(-1e12, 1e12), value))


def _mapping(value: Any) -> bool:
    return isinstance(value, dict)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


_RANGE = "write the lower and the upper bound: [low, high]"
DEVICE_KEYS: Mapping[str, DescriptionKey] = {
    "format": DescriptionKey(_among(1), "write format: 1"),
    "name": DescriptionKey(_text(60), "write what the device is called, up to 60 characters"),
    "maker": DescriptionKey(_text(60), "write the maker's name, up to 60 characters", ""),
    "manual": DescriptionKey(_text(200), "write manual and page of the register table, up to 200 characters", ""),
    "counted_from": DescriptionKey(
        _among(0, 1), "0 if the manual's numbers are those on the wire, 1 if it counts from one", 0
    ),
    "word_order": DescriptionKey(_among("high_first", "low_first"), "choose high_first or low_first", "high_first"),
    "byte_order": DescriptionKey(_among("high_first", "low_first"), "choose high_first or low_first", "high_first"),
    "timeout": DescriptionKey(_number(0.05, 5.0), "write seconds, 0.05 to 5", 0.3),
    "late": DescriptionKey(_number(0.1, 10.0), "write seconds, 0.1 to 10: how late an answer can still come", 1.0),
    "max_block": DescriptionKey(_whole(2, MAX_REGISTERS), f"write 2 to {MAX_REGISTERS} registers", 60),
    "max_gap": DescriptionKey(
        _whole(0, MAX_REGISTERS), f"write 0 to {MAX_REGISTERS} registers that may be read for nothing", 0
    ),
    "check": DescriptionKey(_mapping, "write function, register, type and equals or between below it", None),
    "points": DescriptionKey(_mapping, "write the device's points below it, each with function and register"),
}
_REGISTER = DescriptionKey(_whole(0, 65536), "write the number from the manual, up to 65535 (0x… for hexadecimal)")
TYPE = DescriptionKey(_among(*TYPES), f"choose {', '.join(TYPES)}", "")
_ORDER = DescriptionKey(_among("high_first", "low_first"), "choose high_first or low_first", "")
POINT_KEYS: Mapping[str, DescriptionKey] = {
    "function": DescriptionKey(
        _among(1, 2, 3, 4), "write the function that reads it: 1 coil, 2 input bit, 3 holding, 4 input register"
    ),
    "register": _REGISTER,
    "type": TYPE,
    "word_order": _ORDER,
    "byte_order": _ORDER,
    "bit": DescriptionKey(_whole(0, 15), "write the bit's number, 0 (lowest) to 15", None),
    "scale": DescriptionKey(
        lambda v: _number(-1e9, 1e9)(v) and v != 0, "write a number other than 0: value = raw x scale", 1.0
    ),
    "offset": DescriptionKey(
        _number(-1e9, 1e9), "write a number in the point's unit: it is added after the scale", 0.0
    ),
    "unit": DescriptionKey(_text(20, 0), "write the unit, up to 20 characters", ""),
    "limits": DescriptionKey(_pair, _RANGE + "; a reading outside is a fault", None),
    "invalid": DescriptionKey(_numbers, "write a list of raw numbers that mean “no value”, such as [0x8000]", ()),
    "group": DescriptionKey(lambda v: isinstance(v, str) and bool(NAME.fullmatch(v)), "write a plain word", ""),
    "example": DescriptionKey(_number(-1e12, 1e12), "write a plausible value in the point's unit", None),
    "level": DescriptionKey(_mapping, "write limits and rest below it", None),
    "switch": DescriptionKey(_mapping, "write on and off below it, or {} for a coil", None),
}
LEVEL_KEYS: Mapping[str, DescriptionKey] = {
    "limits": DescriptionKey(_pair, _RANGE + ", in the point's unit; nothing else is ever written"),
    "rest": DescriptionKey(_number(-1e12, 1e12), "write the value of rest: 0, or one outside the limits"),
    "function": DescriptionKey(_among(6, 16), "choose 6 (one register) or 16 (several)", None),
    "measured": DescriptionKey(_text(40), "name the point that measures what this one sets", ""),
    "eeprom": DescriptionKey(_flag, "write true if the register is kept in EEPROM, else false", False),
}
SWITCH_KEYS: Mapping[str, DescriptionKey] = {
    "on": DescriptionKey(_whole(0, 0xFFFF), "write the raw number for on", 1),
    "off": DescriptionKey(_whole(0, 0xFFFF), "write the raw number for off", 0),
    "function": DescriptionKey(_among(5, 15, 6, 16), "choose 5 or 15 for a coil, 6 or 16 for a register", None),
    "eeprom": DescriptionKey(_flag, "write true if the register is kept in EEPROM, else false", False),
}
CHECK_KEYS: Mapping[str, DescriptionKey] = {
    "function": POINT_KEYS["function"],
    "register": _REGISTER,
    "type": TYPE,
    "word_order": _ORDER,
    "byte_order": _ORDER,
    "equals": DescriptionKey(_number(-1e12, 1e12), "write the raw number that this model tells", None),
    "between": DescriptionKey(_pair, _RANGE, None),
}
