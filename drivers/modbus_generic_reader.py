"""Reads the description of a Modbus device in YAML: checked key by key, and turned into points and blocks.

The tables of keys below are the format's only definition (docs/generic-modbus.md is its prose). Every problem names the
key, what is wrong with it and what to write instead; all problems of a description are told at once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivers.modbus_generic_description import (
    COILS,
    HOLDING,
    INPUTS,
    TYPES,
    BlockSpec,
    CheckSpec,
    Description,
    LevelSpec,
    PointSpec,
    SwitchSpec,
    WordOrder,
)
from drivers.settings import BadSetting

if TYPE_CHECKING:
    import yaml

MOST_BYTES = 64_000
MOST_POINTS = 64
MOST_REGISTERS = 125
"""Registers in one request (Modbus Application Protocol V1.1b3 §6.3)."""
EXAMPLE = "examples/devices/thermostat.yaml"

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")


class BadDescription(BadSetting):
    """A device description with mistakes; `problems` holds key, what is wrong, and the fix for each."""

    def __init__(self, where: str, source: str, problems: list[MapProblem]) -> None:
        self.problems = tuple(problems)
        first, *others = problems
        more = "".join(f"; also {problem.text}" for problem in others)
        super().__init__(
            f"{source}: {first.text}{more}",
            where=where,
            cause="a slip in the device's description",
            action=f"correct the named key; a sound description is {EXAMPLE}",
        )


@dataclass(frozen=True, slots=True)
class MapProblem:
    """One mistake: the key's path (`points.co2.type`), its line, what is wrong, what to write."""

    key: str
    line: int
    what: str
    fix: str

    @property
    def text(self) -> str:
        """In one line."""
        return f"line {self.line}, {self.key}: {self.what} ({self.fix})"


def describe(where: str, settings: Mapping[str, float | str | bool]) -> Description:
    """The description that a device's settings hold (`description`: YAML text) or name (`file`: a path).

    With both, the text came from that file: loading a rig reads it. Raises :class:`BadDescription` with all its problems,
    or BadSetting when there is none to read.
    """
    inline, path = settings.get("description"), settings.get("file")
    if inline is not None:
        return parse(where, "its description" if path is None else Path(str(path)).name, str(inline))
    if path is None:
        raise BadSetting(
            "needs one of the settings file and description",
            where=where,
            cause="a slip in the rig file",
            action=f"write file: and the path of a description such as {EXAMPLE}, or description: | and its text",
        )
    file = Path(str(path))
    try:
        with file.open("rb") as opened:
            text = opened.read(MOST_BYTES + 1).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(
            f"setting file: {file.absolute()} cannot be read ({error})",
            where=where,
            cause="a slip in the path; only in a rig file is it seen from the file's own folder",
            action="write the path from the root (/…)",
        ) from None
    return parse(where, file.name, text)


@lru_cache(maxsize=64)
def parse(where: str, source: str, text: str) -> Description:
    """The description in `text`; `where` and `source` are for the error's words. Raises :class:`BadDescription`.

    A text is read once, however often its device is built: YAML takes a hundred times as long as all the rest.
    """
    import yaml  # the guard knows every driver and has to stay light: who describes nothing loads nothing

    reader = _Reader()
    data: dict[str, Any] = {}
    if len(text) > MOST_BYTES:
        reader.problem("(file)", f"is larger than {MOST_BYTES // 1000} kB", "is this the right file?")
    else:
        try:
            root = yaml.compose(text, Loader=yaml.SafeLoader)
        except (yaml.YAMLError, RecursionError) as error:
            mark = getattr(error, "problem_mark", None)
            reader.lines["(file)"] = mark.line + 1 if mark is not None else 1
            said = getattr(error, "problem", None) or type(error).__name__
            reader.problem("(file)", f"is not YAML: {said}", "check indentation, colons and quotes at this line")
        else:
            if isinstance(root, yaml.MappingNode):
                data = reader.mapping(root, "")
            else:
                reader.problem("(file)", "is not a mapping of keys such as “points:”", f"start from {EXAMPLE}")
    description = None if reader.problems else _build(reader, data)
    if reader.problems or description is None:
        raise BadDescription(where, source, reader.problems)
    return description


# --- YAML, the plain part of it ---------------------------------------------------------------------------


@dataclass(slots=True)
class _Reader:
    lines: dict[str, int] = field(default_factory=dict)
    problems: list[MapProblem] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)

    def problem(self, key: str, what: str, fix: str) -> None:
        place = key
        while place not in self.lines and "." in place:
            place = place.rpartition(".")[0]
        self.problems.append(MapProblem(key, self.lines.get(place, 1), what, fix))

    def mapping(self, node: yaml.MappingNode, place: str) -> dict[str, Any]:
        import yaml

        found: dict[str, Any] = {}
        for key_node, node_of_value in node.value:
            key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else "?"
            path = f"{place}.{key}" if place else key
            self.lines[path] = key_node.start_mark.line + 1
            if key in found:
                self.problem(path, "stands twice", "keep one of the two")
            found[key] = self.value(node_of_value, path)
        return found

    def value(self, node: yaml.Node, place: str) -> Any:
        import yaml

        if id(node) in self.seen:
            self.problem(place, "is an alias (*name)", "write the values out")
            return None
        self.seen.add(id(node))
        if place.count(".") > 5:
            self.problem(place, "is nested too deeply", f"compare with {EXAMPLE}")
            return None
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, place)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(each, place) for each in node.value]
        if node.tag == "tag:yaml.org,2002:str":
            return node.value
        try:
            return yaml.constructor.SafeConstructor().construct_object(node)
        except (yaml.YAMLError, ValueError):
            self.problem(place, f"“{node.value}” cannot be read", "write a plain number or word")
            return None


# --- the format -------------------------------------------------------------------------------------------

Check = Callable[[Any], bool]
_MISSING = object()


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the format: when its value is right, what to write otherwise, and what it is when left out."""

    right: Check
    fix: str
    default: Any = _MISSING


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


def _text(most: int, least: int = 1) -> Check:
    return lambda value: isinstance(value, str) and least <= len(value) <= most and value.isprintable()


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
DEVICE_KEYS: Mapping[str, Key] = {
    "format": Key(_among(1), "write format: 1"),
    "name": Key(_text(60), "write what the device is called, up to 60 characters"),
    "maker": Key(_text(60), "write the maker's name, up to 60 characters", ""),
    "manual": Key(_text(200), "write manual and page of the register table, up to 200 characters", ""),
    "counted_from": Key(_among(0, 1), "0 if the manual's numbers are those on the wire, 1 if it counts from one", 0),
    "word_order": Key(_among("high_first", "low_first"), "choose high_first or low_first", "high_first"),
    "timeout": Key(_number(0.05, 5.0), "write seconds, 0.05 to 5", 0.3),
    "late": Key(_number(0.1, 10.0), "write seconds, 0.1 to 10: how late an answer can still come", 1.0),
    "max_block": Key(_whole(2, MOST_REGISTERS), f"write 2 to {MOST_REGISTERS} registers", 60),
    "max_gap": Key(_whole(0, MOST_REGISTERS), f"write 0 to {MOST_REGISTERS} registers that may be read for nothing", 0),
    "check": Key(_mapping, "write function, register, type and equals or between below it", None),
    "points": Key(_mapping, "write the device's points below it, each with function and register"),
}
_REGISTER = Key(_whole(0, 65536), "write the number from the manual, up to 65535 (0x… for hexadecimal)")
_TYPE = Key(_among(*TYPES), f"choose {', '.join(TYPES)}", "")
_ORDER = Key(_among("high_first", "low_first"), "choose high_first or low_first", "")
POINT_KEYS: Mapping[str, Key] = {
    "function": Key(
        _among(1, 2, 3, 4), "write the function that reads it: 1 coil, 2 input bit, 3 holding, 4 input register"
    ),
    "register": _REGISTER,
    "type": _TYPE,
    "word_order": _ORDER,
    "bit": Key(_whole(0, 15), "write the bit's number, 0 (lowest) to 15", None),
    "scale": Key(lambda v: _number(-1e9, 1e9)(v) and v != 0, "write a number other than 0: value = raw x scale", 1.0),
    "offset": Key(_number(-1e9, 1e9), "write a number in the point's unit: it is added after the scale", 0.0),
    "unit": Key(_text(20, 0), "write the unit, up to 20 characters", ""),
    "limits": Key(_pair, _RANGE + "; a reading outside is a fault", None),
    "invalid": Key(_numbers, "write a list of raw numbers that mean “no value”, such as [0x8000]", ()),
    "group": Key(lambda v: isinstance(v, str) and bool(_NAME.fullmatch(v)), "write a plain word", ""),
    "example": Key(_number(-1e12, 1e12), "write a plausible value in the point's unit", None),
    "level": Key(_mapping, "write limits and rest below it", None),
    "switch": Key(_mapping, "write on and off below it, or {} for a coil", None),
}
LEVEL_KEYS: Mapping[str, Key] = {
    "limits": Key(_pair, _RANGE + ", in the point's unit; nothing else is ever written"),
    "rest": Key(_number(-1e12, 1e12), "write the value of rest: 0, or one outside the limits"),
    "function": Key(_among(6, 16), "choose 6 (one register) or 16 (several)", None),
    "measured": Key(_text(40), "name the point that measures what this one sets", ""),
    "eeprom": Key(_flag, "write true if the register is kept in EEPROM, else false", False),
}
SWITCH_KEYS: Mapping[str, Key] = {
    "on": Key(_whole(0, 0xFFFF), "write the raw number for on", 1),
    "off": Key(_whole(0, 0xFFFF), "write the raw number for off", 0),
    "function": Key(_among(5, 15, 6, 16), "choose 5 or 15 for a coil, 6 or 16 for a register", None),
    "eeprom": Key(_flag, "write true if the register is kept in EEPROM, else false", False),
}
CHECK_KEYS: Mapping[str, Key] = {
    "function": POINT_KEYS["function"],
    "register": _REGISTER,
    "type": _TYPE,
    "word_order": _ORDER,
    "equals": Key(_number(-1e12, 1e12), "write the raw number that this model tells", None),
    "between": Key(_pair, _RANGE, None),
}


def _fields(reader: _Reader, data: dict[str, Any], place: str, keys: Mapping[str, Key]) -> dict[str, Any] | None:
    """The values of `keys` in `data`, defaults filled in; None after a problem."""
    before = len(reader.problems)
    dot = f"{place}." if place else ""
    for unknown in sorted(set(data) - set(keys)):
        reader.problem(f"{dot}{unknown}", "is unknown", f"known here: {', '.join(keys)}")
    found = {}
    for name, key in keys.items():
        if name not in data:
            if key.default is _MISSING:
                reader.problem(f"{dot}{name}", "is missing", key.fix)
            found[name] = key.default
        elif key.right(data[name]):
            found[name] = data[name]
        else:
            told = data[name] if isinstance(data[name], (str, int, float, bool)) else type(data[name]).__name__
            reader.problem(f"{dot}{name}", f"“{told}” is not possible", key.fix)
    return found if len(reader.problems) == before else None


def _build(reader: _Reader, data: dict[str, Any]) -> Description | None:
    device = _fields(reader, data, "", DEVICE_KEYS)
    if device is None and not isinstance(data.get("points"), dict):
        return None
    common = device or {"counted_from": 0, "word_order": "high_first"}
    if not 1 <= len(data["points"]) <= MOST_POINTS:
        reader.problem("points", f"has {len(data['points'])} points", f"write 1 to {MOST_POINTS}")
    points = {}
    for name, told in data["points"].items():
        if (point := _point(reader, name, told, common)) is not None:
            points[name] = point
    for point in points.values():
        if (level := point.level) is not None and level.measured:
            target = points.get(level.measured)
            if target is None or target.level is not None or target.switch is not None:
                fix = f"name one of {', '.join(p.name for p in points.values() if not p.level and not p.switch) or '-'}"
                reader.problem(f"points.{point.name}.level.measured", f"“{level.measured}” measures nothing", fix)
    check = _check(reader, device["check"], common) if device and device["check"] is not None else None
    if device is None or reader.problems:
        return None
    blocks = _blocks(reader, points, device["max_block"], device["max_gap"])
    return Description(
        device["name"],
        device["maker"],
        device["manual"],
        float(device["timeout"]),
        float(device["late"]),
        check,
        points,
        blocks,
    )


def _address(reader: _Reader, place: str, told: dict[str, Any], common: dict[str, Any], count: int) -> int:
    address: int = told["register"] - common["counted_from"]
    if not 0 <= address <= 65536 - count:
        fix = f"write {common['counted_from']} to {65536 - count + common['counted_from']}; see counted_from"
        reader.problem(f"{place}.register", f"{told['register']} leads to wire address {address}", fix)
    return address


def _point(reader: _Reader, name: str, data: Any, common: dict[str, Any]) -> PointSpec | None:
    place = f"points.{name}"
    if not _NAME.fullmatch(name):
        reader.problem(place, "is not a name", "begin with a letter; letters, digits, - and _, up to 40")
        return None
    if not isinstance(data, dict):
        reader.problem(place, "has no keys", "write function, register, type and unit below it")
        return None
    told = _fields(reader, data, place, POINT_KEYS)
    if told is None:
        return None
    before = len(reader.problems)
    registers = told["function"] in (HOLDING, INPUTS)
    if registers and not told["type"]:
        reader.problem(f"{place}.type", "is missing", _TYPE.fix)
    if not registers:
        for key in ("type", "bit", "word_order", "invalid"):
            if told[key] not in ("", None, ()):
                reader.problem(f"{place}.{key}", "does not go with function 1 or 2", "leave it out: a bit has none")
    if told["bit"] is not None and told["type"] != "u16":
        reader.problem(f"{place}.bit", f"does not go with {told['type'] or 'no type'}", "use it with type u16")
    if told["level"] is not None and told["switch"] is not None:
        reader.problem(f"{place}.switch", "stands beside level", "keep one of the two")
    if len(reader.problems) > before:
        return None
    count = TYPES[told["type"]][1] if told["type"] else 1
    point = PointSpec(
        name,
        told["function"],
        _address(reader, place, told, common, count),
        told["type"],
        told["word_order"] or common["word_order"],
        told["bit"],
        float(told["scale"]),
        float(told["offset"]),
        told["unit"],
        None if told["limits"] is None else (float(told["limits"][0]), float(told["limits"][1])),
        tuple(map(float, told["invalid"])),
        told["group"],
        _level(reader, f"{place}.level", told) if told["level"] is not None else None,
        _switch(reader, f"{place}.switch", told) if told["switch"] is not None else None,
    )
    if point.level is not None and len(reader.problems) == before:
        for value in (point.level.low, point.level.high, point.level.rest):
            try:
                point.words(value)
            except OverflowError:
                raw = (value - point.offset) / point.scale
                reader.problem(
                    f"{place}.level",
                    f"{value:g} would be written as {raw:g}, which {point.type} cannot hold",
                    "correct limits, rest, scale or type",
                )
    return point if len(reader.problems) == before else None


def _level(reader: _Reader, place: str, told: dict[str, Any]) -> LevelSpec | None:
    if told["function"] != HOLDING or told["bit"] is not None:
        reader.problem(place, "is only for whole holding registers", "use function: 3 without bit, or take level out")
        return None
    level = _fields(reader, told["level"], place, LEVEL_KEYS)
    if level is None:
        return None
    count = TYPES[told["type"]][1]
    function = level["function"] or (6 if count == 1 else 16)
    if function == 6 and count > 1:
        reader.problem(f"{place}.function", f"6 cannot write {told['type']}", "use 16")
        return None
    low, high = map(float, level["limits"])
    if (rest := float(level["rest"])) != 0.0 and low <= rest <= high:
        fix = "write a value outside, so that the readback tells rest from a set-point"
        reader.problem(f"{place}.rest", f"{rest:g} lies within the limits", fix)
        return None
    return LevelSpec(low, high, rest, function, level["measured"], level["eeprom"])


def _switch(reader: _Reader, place: str, told: dict[str, Any]) -> SwitchSpec | None:
    coil = told["function"] == COILS
    if not coil and (told["function"] != HOLDING or told["type"] != "u16" or told["bit"] is not None):
        fix = "use function: 1, or function: 3 with type: u16 and no bit"
        reader.problem(place, "is only for coils and whole u16 holding registers", fix)
        return None
    switch = _fields(reader, told["switch"], place, SWITCH_KEYS)
    if switch is None:
        return None
    function = switch["function"] or (5 if coil else 6)
    if coil != (function in (5, 15)):
        fix = "use 5 or 15" if coil else "use 6 or 16"
        reader.problem(f"{place}.function", f"{function} does not write what {told['function']} reads", fix)
        return None
    if switch["on"] == switch["off"] or (coil and {switch["on"], switch["off"]} != {0, 1}):
        fix = "write 0 and 1 for a coil" if coil else "write two different numbers"
        reader.problem(f"{place}.on", f"{switch['on']} with off {switch['off']} is not possible", fix)
        return None
    return SwitchSpec(switch["on"], switch["off"], function, switch["eeprom"])


def _check(reader: _Reader, data: dict[str, Any], common: dict[str, Any]) -> CheckSpec | None:
    told = _fields(reader, data, "check", CHECK_KEYS)
    if told is None:
        return None
    if (told["equals"] is None) == (told["between"] is None):
        reader.problem("check.equals", "or between must stand, not both", "write one of the two")
        return None
    if told["function"] not in (HOLDING, INPUTS) or not told["type"]:
        reader.problem("check.function", "and type must name a register", "use function 3 or 4 and a type")
        return None
    count = TYPES[told["type"]][1]
    address = _address(reader, "check", told, common, count)
    order: WordOrder = told["word_order"] or common["word_order"]
    point = PointSpec(
        "check", told["function"], address, told["type"], order, None, 1.0, 0.0, "", None, (), "", None, None
    )
    low, high = (told["equals"], told["equals"]) if told["between"] is None else told["between"]
    return CheckSpec(point, float(low), float(high))


def _blocks(reader: _Reader, points: Mapping[str, PointSpec], max_block: int, max_gap: int) -> tuple[BlockSpec, ...]:
    """Which points are read together: a named group always, others when they are neighbours."""
    blocks: list[list[PointSpec]] = []
    for point in sorted(points.values(), key=lambda p: (p.group, p.function, p.address)):
        last = blocks[-1] if blocks else []
        together = bool(last) and (last[0].group, last[0].function) == (point.group, point.function)
        if together and not point.group:
            end = max(p.address + p.count for p in last)
            span = max(end, point.address + point.count) - last[0].address
            together = point.address - end <= max_gap and span <= max_block
        if together:
            last.append(point)
        else:
            blocks.append([point])
    groups: set[str] = set()
    for block in blocks:
        first, span = block[0], max(p.address + p.count for p in block) - block[0].address
        if first.group in groups:
            fix = "give each function a group of its own"
            reader.problem(f"points.{first.name}.group", f"“{first.group}” mixes two functions", fix)
        if first.group:
            groups.add(first.group)
        if first.group and span > max_block:
            fix = f"split the group, or raise max_block (up to {MOST_REGISTERS}) if the device answers so many"
            reader.problem(f"points.{block[-1].name}.group", f"“{first.group}” spans {span} registers", fix)
    return tuple(
        BlockSpec(
            block[0].function,
            block[0].address,
            max(p.address + p.count for p in block) - block[0].address,
            tuple(p.name for p in block),
        )
        for block in blocks
    )
