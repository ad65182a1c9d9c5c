"""Read the description of a Modbus device: check its YAML key by key and build its points and blocks.

Every problem names the key, what is wrong with it and what to write instead; all problems are reported together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

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
from drivers.modbus_generic_format import (
    CHECK_KEYS,
    DEVICE_KEYS,
    LEVEL_KEYS,
    MAX_REGISTERS,
    NAME,
    POINT_KEYS,
    SWITCH_KEYS,
    TYPE,
)
from drivers.modbus_generic_yaml import EXAMPLE, DescriptionProblem, YamlReader
from drivers.settings import BadSetting

MAX_BYTES = 64_000
MAX_POINTS = 64


class BadDescription(BadSetting):
    """A device description with mistakes; `problems` holds key, what is wrong, and the fix for each."""

    def __init__(self, where: str, source: str, problems: list[DescriptionProblem]) -> None:
        self.problems = tuple(problems)
        first, *others = problems
        more = "".join(f"; also {problem.text}" for problem in others)
        super().__init__(
            f"{source}: {first.text}{more}",
            where=where,
            cause="a mistake in the device's description",
            action=f"correct the named key; a valid description is {EXAMPLE}",
        )


def describe(where: str, settings: Mapping[str, float | str | bool]) -> Description:
    """Return the description in a device's settings (`description`: YAML text, or `file`: a path).

    With both, the text came from that file: loading a rig reads it.

    Raises:
        BadDescription: It has problems; the error has all of them.
        BadSetting: No description is given, or the file cannot be read.
    """
    inline, path = settings.get("description"), settings.get("file")
    if inline is not None:
        return parse(where, "its description" if path is None else Path(str(path)).name, str(inline))
    if path is None:
        raise BadSetting(
            "needs one of the settings file and description",
            where=where,
            cause="a mistake in the rig file",
            action=f"write file: and the path of a description such as {EXAMPLE}, or description: | and its text",
        )
    file = Path(str(path))
    try:
        with file.open("rb") as opened:
            text = opened.read(MAX_BYTES + 1).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(
            f"setting file: {file.absolute()} cannot be read ({error})",
            where=where,
            cause="a wrong path; only in a rig file is it relative to the file's own folder",
            action="write the path from the root (/…)",
        ) from None
    return parse(where, file.name, text)


@lru_cache(maxsize=64)
def parse(where: str, source: str, text: str) -> Description:
    """Return the description in `text`. The result is cached: reading YAML takes a hundred times as long as the rest.

    Args:
        where: Name of the device, for messages.
        source: Name of the text, for messages.
        text: YAML.

    Raises:
        BadDescription: It has problems; the error has all of them.
    """
    import yaml  # late: the guard imports every driver and must stay light

    reader = YamlReader()
    data: dict[str, Any] = {}
    if len(text) > MAX_BYTES:
        reader.problem("(file)", f"is larger than {MAX_BYTES // 1000} kB", "is this the right file?")
    else:
        try:
            root = yaml.compose(text, Loader=yaml.SafeLoader)
        except (yaml.YAMLError, RecursionError) as error:
            mark = getattr(error, "problem_mark", None)
            reader.lines["(file)"] = mark.line + 1 if mark is not None else 1
            reason = getattr(error, "problem", None) or type(error).__name__
            reader.problem("(file)", f"is not YAML: {reason}", "check indentation, colons and quotes at this line")
        else:
            if isinstance(root, yaml.MappingNode):
                data = reader.mapping(root, "")
            else:
                reader.problem("(file)", "is not a mapping of keys such as “points:”", f"start from {EXAMPLE}")
    description = None if reader.problems else _build(reader, data)
    if reader.problems or description is None:
        raise BadDescription(where, source, reader.problems)
    return description


# --- from plain data to points and blocks -----------------------------------------------------------------


def _build(reader: YamlReader, data: dict[str, Any]) -> Description | None:
    device = reader.fields(data, "", DEVICE_KEYS)
    if device is None and not isinstance(data.get("points"), dict):
        return None
    common = device or {"counted_from": 0, "word_order": "high_first", "byte_order": "high_first"}
    if not 1 <= len(data["points"]) <= MAX_POINTS:
        reader.problem("points", f"has {len(data['points'])} points", f"write 1 to {MAX_POINTS}")
    points = {
        name: point
        for name, fields in data["points"].items()
        if (point := _point(reader, name, fields, common)) is not None
    }
    _require_measured_points(reader, points)
    if device is None:
        return None
    check = None if device["check"] is None else _check(reader, device["check"], common)
    if reader.problems:
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


def _require_measured_points(reader: YamlReader, points: Mapping[str, PointSpec]) -> None:
    """Record a problem for each level whose `measured` names no point that is only read."""
    sensors = [point.name for point in points.values() if point.level is None and point.switch is None]
    for point in points.values():
        level = point.level
        if level is not None and level.measured and level.measured not in sensors:
            fix = f"name one of {', '.join(sensors) or '-'}"
            reader.problem(f"points.{point.name}.level.measured", f"“{level.measured}” measures nothing", fix)


def _address(reader: YamlReader, place: str, fields: dict[str, Any], common: dict[str, Any], count: int) -> int:
    address: int = fields["register"] - common["counted_from"]
    if not 0 <= address <= 65536 - count:
        fix = f"write {common['counted_from']} to {65536 - count + common['counted_from']}; see counted_from"
        reader.problem(f"{place}.register", f"{fields['register']} leads to wire address {address}", fix)
    return address


def _point_fields(reader: YamlReader, name: str, data: Any) -> dict[str, Any] | None:
    """Return the keys of a point that fit each other; None after a problem."""
    place = f"points.{name}"
    if not NAME.fullmatch(name):
        reader.problem(place, "is not a name", "begin with a letter; letters, digits, - and _, up to 40")
        return None
    if not isinstance(data, dict):
        reader.problem(place, "has no keys", "write function, register, type and unit below it")
        return None
    fields = reader.fields(data, place, POINT_KEYS)
    if fields is None:
        return None
    before = len(reader.problems)
    if fields["function"] in (HOLDING, INPUTS):
        if not fields["type"]:
            reader.problem(f"{place}.type", "is missing", TYPE.fix)
    else:
        for key in ("type", "bit", "word_order", "byte_order", "invalid"):
            if fields[key] not in ("", None, ()):
                reader.problem(f"{place}.{key}", "does not go with function 1 or 2", "leave it out: a bit has none")
    _require_compatible(reader, place, fields)
    return fields if len(reader.problems) == before else None


def _point(reader: YamlReader, name: str, data: Any, common: dict[str, Any]) -> PointSpec | None:
    place = f"points.{name}"
    fields = _point_fields(reader, name, data)
    if fields is None:
        return None
    before = len(reader.problems)
    point = PointSpec(
        name,
        fields["function"],
        _address(reader, place, fields, common, TYPES[fields["type"]][1] if fields["type"] else 1),
        fields["type"],
        fields["word_order"] or common["word_order"],
        fields["byte_order"] or common["byte_order"],
        fields["bit"],
        float(fields["scale"]),
        float(fields["offset"]),
        fields["unit"],
        None if fields["limits"] is None else (float(fields["limits"][0]), float(fields["limits"][1])),
        tuple(map(float, fields["invalid"])),
        fields["group"],
        _level(reader, f"{place}.level", fields) if fields["level"] is not None else None,
        _switch(reader, f"{place}.switch", fields) if fields["switch"] is not None else None,
    )
    if point.level is not None and len(reader.problems) == before:
        _require_representable(reader, place, point, point.level)
    return point if len(reader.problems) == before else None


def _require_compatible(reader: YamlReader, place: str, fields: dict[str, Any]) -> None:
    """Record a problem for each pair of keys of a point that exclude each other."""
    if fields["bit"] is not None and fields["type"] != "u16":
        reader.problem(f"{place}.bit", f"does not go with {fields['type'] or 'no type'}", "use it with type u16")
    if fields["level"] is not None and fields["switch"] is not None:
        reader.problem(f"{place}.switch", "excludes level", "keep one of the two")


def _require_representable(reader: YamlReader, place: str, point: PointSpec, level: LevelSpec) -> None:
    """Record a problem for each limit of a level that its type cannot hold."""
    for value in (level.low, level.high, level.rest):
        try:
            point.words(value)
        except OverflowError:
            raw = (value - point.offset) / point.scale
            reader.problem(
                f"{place}.level",
                f"{value:g} would be written as {raw:g}, which {point.type} cannot hold",
                "correct limits, rest, scale or type",
            )


def _level(reader: YamlReader, place: str, point: dict[str, Any]) -> LevelSpec | None:
    if point["function"] != HOLDING or point["bit"] is not None:
        reader.problem(place, "is only for whole holding registers", "use function: 3 without bit, or take level out")
        return None
    level = reader.fields(point["level"], place, LEVEL_KEYS)
    if level is None:
        return None
    count = TYPES[point["type"]][1]
    function = level["function"] or (6 if count == 1 else 16)
    if function == 6 and count > 1:
        reader.problem(f"{place}.function", f"6 cannot write {point['type']}", "use 16")
        return None
    low, high = map(float, level["limits"])
    if (rest := float(level["rest"])) != 0.0 and low <= rest <= high:
        fix = "write a value outside, so that the readback tells rest from a set-point"
        reader.problem(f"{place}.rest", f"{rest:g} lies within the limits", fix)
        return None
    return LevelSpec(low, high, rest, function, level["measured"], level["eeprom"])


def _switch(reader: YamlReader, place: str, point: dict[str, Any]) -> SwitchSpec | None:
    coil = point["function"] == COILS
    if not coil and (point["function"] != HOLDING or point["type"] != "u16" or point["bit"] is not None):
        fix = "use function: 1, or function: 3 with type: u16 and no bit"
        reader.problem(place, "is only for coils and whole u16 holding registers", fix)
        return None
    switch = reader.fields(point["switch"], place, SWITCH_KEYS)
    if switch is None:
        return None
    function = switch["function"] or (5 if coil else 6)
    if problem := _switch_problem(switch["on"], switch["off"], function, point["function"]):
        key, what, fix = problem
        reader.problem(f"{place}.{key}", what, fix)
        return None
    return SwitchSpec(switch["on"], switch["off"], function, switch["eeprom"])


def _switch_problem(on: int, off: int, write: int, read: int) -> tuple[str, str, str] | None:
    """Return key, problem and fix of a switch with functions `write` and `read`; None if it is correct."""
    coil = read == COILS
    if coil != (write in (5, 15)):
        return "function", f"{write} does not write what {read} reads", "use 5 or 15" if coil else "use 6 or 16"
    if on == off or (coil and {on, off} != {0, 1}):
        fix = "write 0 and 1 for a coil" if coil else "write two different numbers"
        return "on", f"{on} with off {off} is not possible", fix
    return None


def _check(reader: YamlReader, data: dict[str, Any], common: dict[str, Any]) -> CheckSpec | None:
    fields = reader.fields(data, "check", CHECK_KEYS)
    if fields is None:
        return None
    if (fields["equals"] is None) == (fields["between"] is None):
        reader.problem("check.equals", "or between must be given, not both", "write one of the two")
        return None
    if fields["function"] not in (HOLDING, INPUTS) or not fields["type"]:
        reader.problem("check.function", "and type must name a register", "use function 3 or 4 and a type")
        return None
    count = TYPES[fields["type"]][1]
    address = _address(reader, "check", fields, common, count)
    order: WordOrder = fields["word_order"] or common["word_order"]
    byte_order: WordOrder = fields["byte_order"] or common["byte_order"]
    point = PointSpec(
        "check",
        fields["function"],
        address,
        fields["type"],
        order,
        byte_order,
        None,
        1.0,
        0.0,
        "",
        None,
        (),
        "",
        None,
        None,
    )
    low, high = (fields["equals"], fields["equals"]) if fields["between"] is None else fields["between"]
    return CheckSpec(point, float(low), float(high))


def _blocks(reader: YamlReader, points: Mapping[str, PointSpec], max_block: int, max_gap: int) -> tuple[BlockSpec, ...]:
    """Return the blocks that are read together: the points of a named group always, others when they are neighbours."""
    blocks: list[list[PointSpec]] = []
    for point in sorted(points.values(), key=lambda p: (p.group, p.function, p.address)):
        if blocks and _joins(point, blocks[-1], max_block, max_gap):
            blocks[-1].append(point)
        else:
            blocks.append([point])
    _require_sound_groups(reader, blocks, max_block)
    return tuple(
        BlockSpec(block[0].function, block[0].address, _span(block), tuple(p.name for p in block)) for block in blocks
    )


def _span(block: Sequence[PointSpec]) -> int:
    """Return the number of registers or bits from the first to the last point of a block."""
    return max(p.address + p.count for p in block) - block[0].address


def _joins(point: PointSpec, block: Sequence[PointSpec], max_block: int, max_gap: int) -> bool:
    """Return whether `point` is read together with `block`."""
    if (block[0].group, block[0].function) != (point.group, point.function):
        return False
    if point.group:
        return True
    gap = point.address - max(p.address + p.count for p in block)
    return gap <= max_gap and _span([*block, point]) <= max_block


def _require_sound_groups(reader: YamlReader, blocks: Sequence[Sequence[PointSpec]], max_block: int) -> None:
    """Record a problem for each named group with two functions, or with more registers than one request may read."""
    groups: set[str] = set()
    for block in blocks:
        group = block[0].group
        if not group:
            continue
        if group in groups:
            fix = "give each function a group of its own"
            reader.problem(f"points.{block[0].name}.group", f"“{group}” mixes two functions", fix)
        groups.add(group)
        if (span := _span(block)) > max_block:
            fix = f"split the group, or raise max_block (up to {MAX_REGISTERS}) if the device answers so many"
            reader.problem(f"points.{block[-1].name}.group", f"“{group}” spans {span} registers", fix)
