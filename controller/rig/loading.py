"""Loading a rig file: every problem at once, each with file, line, key, what is wrong and the likely fix."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from controller.rig.description import Rig
from controller.rig.plumbing import plumbing_problems

MAX_BYTES = 1_000_000
"""A rig file is a page or two; anything larger is a mistake or an attack (S3)."""

Path_ = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, where, and what would mend it."""

    line: int
    key: str
    what: str
    fix: str


class RigError(Exception):
    """The rig file is not sound; `problems` holds everything that is wrong, by line."""

    def __init__(self, path: Path, problems: list[Problem]) -> None:
        self.path = path
        self.problems = sorted(problems, key=lambda problem: (problem.line, problem.key))
        text = "\n".join(f"  {path}:{p.line}: {p.key}: {p.what}. {p.fix}" for p in self.problems)
        super().__init__(f"the rig file has {len(problems)} problem(s); nothing was opened or moved\n{text}")


def load_rig(path: Path, *, models: Collection[str] | None = None) -> Rig:
    """Read and validate a rig file.

    `models` is the drivers' catalogue (ids); with it, unknown device models are problems too. Raises
    :class:`RigError` with every problem found, OSError when the file cannot be read.
    """
    if path.stat().st_size > MAX_BYTES:
        raise RigError(path, [Problem(1, "(file)", "larger than a megabyte", "Is this a rig file?")])
    text = path.read_text(encoding="utf-8", errors="replace")
    problems: list[Problem] = []
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        what = str(getattr(error, "problem", None) or error)
        line = mark.line + 1 if mark else 1
        fix = "Check indentation, colons and quotes at this line and the one before"
        raise RigError(path, [Problem(line, "(yaml)", what, fix)]) from None
    if not isinstance(root, yaml.MappingNode):
        raise RigError(path, [Problem(1, "(file)", "not a mapping of sections", "Start from examples/rigs/bench.yaml")])
    lines: dict[Path_, int] = {}
    data = _plain(root, (), lines, problems, depth=0)
    rig: Rig | None = None
    try:
        rig = Rig.model_validate(data)
    except ValidationError as error:
        problems += [_problem(detail, data, lines) for detail in error.errors()]
    if rig is not None:
        for place, what, fix in plumbing_problems(rig, models):
            problems.append(Problem(_line(place, lines), ".".join(map(str, place)), what, fix))
    if problems or rig is None:
        raise RigError(path, problems)
    return rig


def effective_hash(rig: Rig) -> str:
    """sha256 of the whole effective description, defaults included (D7): which rig was this run on?"""
    canonical = json.dumps(rig.model_dump(mode="json", by_alias=True), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _plain(node: yaml.Node, place: Path_, lines: dict[Path_, int], problems: list[Problem], depth: int) -> Any:
    """Plain data of a node tree; remembers the line of each key. Aliases are refused: they hide what is set where."""
    lines.setdefault(place, node.start_mark.line + 1)
    if depth > 12:
        problems.append(Problem(node.start_mark.line + 1, ".".join(map(str, place)), "nested too deeply", "Flatten it"))
        return None
    if isinstance(node, yaml.MappingNode):
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            line = key_node.start_mark.line + 1
            if key in result:
                first = lines[(*place, key)]
                what = f"“{key}” stands twice (first at line {first})"
                problems.append(Problem(line, ".".join([*map(str, place), key]), what, "Remove one of the two"))
                continue
            lines[(*place, key)] = line
            result[key] = _plain(value_node, (*place, key), lines, problems, depth + 1)
        return result
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, (*place, index), lines, problems, depth + 1) for index, item in enumerate(node.value)]
    constructor = yaml.SafeLoader("")
    try:
        return constructor.construct_object(node)  # type: ignore[no-untyped-call]
    except yaml.YAMLError as error:
        what = str(getattr(error, "problem", error))
        problems.append(Problem(node.start_mark.line + 1, ".".join(map(str, place)), what, "Write plain text"))
        return None


def _line(place: Path_, lines: dict[Path_, int]) -> int:
    for length in range(len(place), -1, -1):
        if place[:length] in lines:
            return lines[place[:length]]
    return 1


def _problem(detail: Any, data: Any, lines: dict[Path_, int]) -> Problem:
    place: Path_ = tuple(detail["loc"])
    key = ".".join(map(str, place))
    line = _line(place, lines)
    kind = detail["type"]
    if kind == "extra_forbidden":
        known = sorted(_known_keys(place[:-1]))
        close = difflib.get_close_matches(str(place[-1]), known, n=1, cutoff=0.5)
        fix = f"Did you mean “{close[0]}”?" if close else f"Known here: {', '.join(known)}"
        return Problem(line, key, f"unknown key “{place[-1]}”", fix)
    if kind == "missing":
        return Problem(line, key, f"“{place[-1]}” is missing", f"Add “{place[-1]}:” here")
    message = str(detail["msg"]).removeprefix("Value error, ")
    what, _, fix = message.partition("; ")
    fix = fix or "See docs/rig.md for what this key takes"
    return Problem(line, key, what, fix[:1].upper() + fix[1:])


def _known_keys(place: Path_) -> Iterator[str]:
    """The keys that the description knows at `place`, following models, dictionaries and lists."""
    from typing import get_args

    from pydantic import BaseModel

    kind: Any = Rig
    for part in place:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            field = next((f for n, f in kind.model_fields.items() if (f.alias or n) == part), None)
            kind = field.annotation if field else None
        else:
            kind = get_args(kind)[-1] if get_args(kind) else None
        options = [option for option in get_args(kind) if isinstance(option, type) and issubclass(option, BaseModel)]
        if options and not (hasattr(kind, "__origin__") and kind.__origin__ is dict):
            kind = options[0]
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield from (field.alias or name for name, field in kind.model_fields.items())
