"""Remove parts from a rig file, with everything that names them, until what is left is a rig or is refused for a hazard."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from controller.capabilities.catalogue import capabilities_of
from controller.hazards.table import gaps_of
from controller.rig.description import Rig
from controller.rig.keys import keys_of, kind_at
from controller.rig.loading import load_rig
from controller.rig.problems import Problem, RigError
from drivers.registry import MODELS

Data = dict[str, Any]
COLLECTIONS = ("devices", "lines", "vessels", "filters", "dialysers", "zones")
"""Sections whose entries have names of their own."""


@dataclass(frozen=True, slots=True)
class Smaller:
    """What is left of a rig: the rig with what it lacks, or the problems for which it is refused."""

    rig: Rig | None
    lacks: frozenset[str]
    problems: tuple[Problem, ...]
    removed: tuple[str, ...]


def parts(data: Data) -> Iterator[str]:
    """Yield the dotted place of every device, channel of a device, organ and chamber with tissue of a rig file."""
    for name, device in data["devices"].items():
        yield f"devices.{name}"
        for number in device.get("channels", ()):
            yield f"devices.{name}.channels.{number}"
    for name in data.get("organs", ()):
        yield f"organs.{name}"
    for name in data["tissue"]:
        yield f"tissue.{name}"


def smaller(data: Data, places: tuple[str, ...], folder: Path) -> Smaller:
    """Remove `places`, then everything that names what is gone, and judge the rest."""
    data, removed = copy.deepcopy(data), list(places)
    for place in places:
        _remove(data, place)
    path = folder / "rig.yaml"
    for _ in range(100):
        path.write_text(yaml.safe_dump(data), encoding="utf-8")
        try:
            rig = load_rig(path, models=MODELS)
        except RigError as error:
            found = (_dangling(data, problem) for problem in error.problems)
            dangling = list(dict.fromkeys(place for place in found if place is not None))
            if not dangling:
                return Smaller(None, frozenset(), tuple(error.problems), tuple(removed))
            for name in dangling:
                _remove(data, name)
            removed += dangling
            continue
        try:
            load_rig(path, models=MODELS, rules=(gaps_of,))
        except RigError as error:
            return Smaller(None, frozenset(), tuple(error.problems), tuple(removed))
        lacks = frozenset(each.id for each in capabilities_of(rig) if not each.available)
        return Smaller(rig, lacks, (), tuple(removed))
    raise AssertionError(f"{removed} does not come to an end")


def _dangling(data: Data, problem: Problem) -> str | None:
    """Return the place that has to go because it names something absent; None if it cannot."""
    steps = problem.key.split(".")
    if steps[0] in COLLECTIONS and len(steps) >= 2:
        if len(steps) == 3 and _optional(steps) and steps[2] != "pump" and _has(data, steps):
            return problem.key
        return ".".join(steps[:2]) if _has(data, steps[:2]) else None
    if steps[0] == "safety" and len(steps) >= 2:
        at = 3 if steps[1] in ("over_pressure", "accepted") else 2
        if steps[-2:-1] == ["trips"]:
            at = len(steps)
        return ".".join(steps[:at]) if _has(data, steps[:at]) else None
    if steps[0] in ("organs", "upkeep", "nerves"):
        for at in range(len(steps), 1, -1):
            if _optional(steps[:at]) and _has(data, steps[:at]):
                return ".".join(steps[:at])
    return None


def _optional(steps: list[str]) -> bool:
    parent = kind_at(tuple(steps[:-1]))
    if isinstance(parent, type):
        field = keys_of(parent).get(steps[-1])
        return field is not None and not field.is_required()
    return True


def _has(data: Data, steps: list[str]) -> bool:
    part: Any = data
    for step in steps:
        if isinstance(part, list):
            if not step.isdigit() or int(step) >= len(part):
                return False
            part = part[int(step)]
        elif isinstance(part, Mapping) and step in part:
            part = part[step]
        else:
            return False
    return True


def _remove(data: Data, place: str) -> None:
    steps = place.split(".")
    if not _has(data, steps):
        return
    part: Any = data
    for step in steps[:-1]:
        part = part[int(step)] if isinstance(part, list) else part[step]
    del part[int(steps[-1]) if isinstance(part, list) else steps[-1]]
