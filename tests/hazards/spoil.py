"""Systematic spoilings of a rig file: each takes one thing away from its safety, or changes one thing to another.

`harmless` names, with a reason, those that leave the rig as safe as it was; everything else has to be rejected.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from controller.rig.description import Rig
from controller.rig.document import read_document
from controller.rig.families import FAMILIES, points_of
from controller.safety.limits import limits_of

Data = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Spoiling:
    """A spoilt rig: what was done, and the file's data."""

    name: str
    data: Data


def spoilings(path: Path, rig: Rig) -> Iterator[Spoiling]:
    """Yield every spoiling of the rig in `path`."""
    for part in (_interlocks, _trips, _places, _swaps, _gases, _zones, _scaled, _sampling, _devices, _volumes):
        yield from part(path, rig)


def _data(path: Path) -> Data:
    return json.loads(_text(path))  # type: ignore[no-any-return]


@cache
def _text(path: Path) -> str:
    return json.dumps(read_document(path).data)


def _limits(data: Data) -> Iterator[tuple[str, Data, str]]:
    """Name, the mapping that holds it, and its key there, of each interlock of the file."""
    for name in ("temperature", "over_pressure_heart", "over_pressure_filter"):
        if name in data["safety"]:
            yield name, data["safety"], name
    for name in data["safety"].get("over_pressure", {}):
        yield f"over_pressure.{name}", data["safety"]["over_pressure"], name


def _each_limit(path: Path) -> Iterator[tuple[str, Data, Data, str]]:
    for index, (name, _, _) in enumerate(list(_limits(_data(path)))):
        data = _data(path)
        _, holder, key = list(_limits(data))[index]
        yield name, data, holder, key


def _interlocks(path: Path, _: Rig) -> Iterator[Spoiling]:
    for name, data, holder, key in _each_limit(path):
        del holder[key]
        yield Spoiling(f"delete {name}", data)


def _trips(path: Path, rig: Rig) -> Iterator[Spoiling]:
    for actuators in ([], *([name] for name in limits_of(rig).basal)):
        for name, data, holder, key in _each_limit(path):
            if holder[key]["trips"] == actuators:
                continue
            holder[key]["trips"] = actuators
            yield Spoiling(f"{name} trips {', '.join(actuators) or 'nothing'}", data)
    for added in limits_of(rig).basal:
        for name, data, holder, key in _each_limit(path):
            if added in holder[key]["trips"]:
                continue
            holder[key]["trips"] = [*holder[key]["trips"], added]
            yield Spoiling(f"{name} also trips {added}", data)


def _places(path: Path, rig: Rig) -> Iterator[Spoiling]:
    for device, spec in rig.devices.items():
        if spec.at is None:
            continue
        for place in (*rig.vessels, *rig.lines, None):
            if place == spec.at:
                continue
            data = _data(path)
            data["devices"][device]["at"] = place
            yield Spoiling(f"{device} at {place}", data)


def _swaps(path: Path, rig: Rig) -> Iterator[Spoiling]:
    """Each point that the file names, exchanged for each other point of its kind."""
    kinds = points_of(rig)
    text = json.dumps(_data(path))
    for point, kind in kinds.items():
        for other, its in kinds.items():
            if other == point or its != kind or kind.kind == "switch" or kind.kind == "pump":
                continue
            for match in re.finditer(rf'"(\w+)": "{re.escape(point)}"', text):
                spoilt = text[: match.start()] + f'"{match[1]}": "{other}"' + text[match.end() :]
                section = _section(json.loads(text), json.loads(spoilt))
                yield Spoiling(f"{section} {other}", json.loads(spoilt))


def _section(one: Any, other: Any) -> str:
    """The dotted place at which two trees differ."""
    if isinstance(one, dict):
        for key in one:
            if one[key] != other[key]:
                return f"{key}.{_section(one[key], other[key])}".rstrip(".")
    return ""


def _gases(path: Path, _: Rig) -> Iterator[Spoiling]:
    gases = ("air", "co2", "o2")
    if "lung" not in _data(path).get("organs", {}):
        return
    for one, other in (("air", "co2"), ("air", "o2"), ("co2", "o2")):
        data = _data(path)
        lung = data["organs"]["lung"]
        lung[one], lung[other] = lung[other], lung[one]
        yield Spoiling(f"swap {one} and {other}", data)
        data = _data(path)
        lung = data["organs"]["lung"]
        lung[one] = lung[other]
        yield Spoiling(f"{one} is {other}", data)
        data = _data(path)
        for gas in gases:
            del data["devices"][f"gas_{gas}"]["gas"]
        lung = data["organs"]["lung"]
        lung[one], lung[other] = lung[other], lung[one]
        yield Spoiling(f"swap {one} and {other} undeclared", data)


def _zones(path: Path, rig: Rig) -> Iterator[Spoiling]:
    """Vessels in the room, and zones that are cold, hot, or without CO2 or oxygen."""
    for name, vessel in rig.vessels.items():
        if vessel.zone is not None:
            data = _data(path)
            del data["vessels"][name]["zone"]
            yield Spoiling(f"{name} in the room", data)
    for zone in rig.zones:
        for key, value in (
            ("temperature", "24 degC"), ("temperature", "45 degC"), ("co2", "0.04 %"), ("co2", "20 %"), ("oxygen", "1 %"),
        ):  # fmt: skip
            data = _data(path)
            data["zones"][zone][key] = value
            yield Spoiling(f"{zone} with {value} {key}", data)


def _times(value: str, factor: float) -> str:
    number, _, unit = value.partition(" ")
    return f"{float(number) * factor:.9g} {unit}".strip()


SCALED = (
    ("safety", "temperature", "high"), ("safety", "temperature", "low"), ("safety", "temperature", "stale"),
    ("safety", "over_pressure_heart", "high"), ("safety", "over_pressure_heart", "stale"),
    ("safety", "over_pressure_filter", "high"), ("safety", "over_pressure_filter", "stale"),
    ("organs", "heart", "flow"), ("organs", "heart", "basal"), ("organs", "heart", "min"), ("organs", "heart", "max"),
    ("organs", "heart", "lease"), ("organs", "kidney", "flow"), ("organs", "gut", "flow"), ("organs", "liver", "flow"),
    ("organs", "lung", "total_flow"), ("organs", "lung", "co2_min"), ("organs", "lung", "co2_max"),
    ("organs", "lung", "oxygen_setpoint"), ("organs", "skin", "setpoint"), ("organs", "skin", "power"),
    ("organs", "skin", "lease"), ("filters", "sterile", "max_pressure"),
)  # fmt: skip


def _scaled(path: Path, rig: Rig) -> Iterator[Spoiling]:
    for place in SCALED:
        for factor in (10.0, 0.1):
            data = _data(path)
            part = data
            for key in place[:-1]:
                part = part.get(key, {})
            if place[-1] not in part:
                continue
            part[place[-1]] = _times(part[place[-1]], factor)
            yield Spoiling(f"{'.'.join(place)} x {factor:g}", data)
    for gas in ("air", "co2", "o2"):
        for factor in (10.0, 0.1):
            data = _data(path)
            if f"gas_{gas}" not in data["devices"]:
                continue
            data["devices"][f"gas_{gas}"]["settings"]["full_scale_ml_min"] *= factor
            yield Spoiling(f"gas_{gas}.full_scale x {factor:g}", data)
    for chamber in rig.tissue:
        data = _data(path)
        data["tissue"][chamber]["count"] *= 10
        yield Spoiling(f"tissue.{chamber}.count x 10", data)


def _sampling(path: Path, rig: Rig) -> Iterator[Spoiling]:
    for device in rig.devices:
        for every in ("1 us", "1 ms", "10 min", "1 h"):
            data = _data(path)
            data["devices"][device]["every"] = every
            yield Spoiling(f"{device} every {every}", data)
    for stale in ("1 ms", "10 min", "1 h"):
        for name, data, holder, key in _each_limit(path):
            holder[key]["stale"] = stale
            yield Spoiling(f"{name} stale {stale}", data)


def _devices(path: Path, rig: Rig) -> Iterator[Spoiling]:
    for device in rig.devices:
        data = _data(path)
        del data["devices"][device]
        yield Spoiling(f"remove {device}", data)
    for device, spec in rig.devices.items():
        if FAMILIES[spec.model].channel is None:
            continue
        for number in spec.channels:
            data = _data(path)
            del data["devices"][device]["channels"][number]
            yield Spoiling(f"remove {device} channel {number}", data)


def _volumes(path: Path, rig: Rig) -> Iterator[Spoiling]:
    for name in rig.vessels:
        for key in ("floor", "ceiling"):
            data = _data(path)
            if key in data["vessels"][name]:
                del data["vessels"][name][key]
                yield Spoiling(f"{name} without {key}", data)
        data = _data(path)
        vessel = data["vessels"][name]
        if "ceiling" in vessel:
            vessel["ceiling"] = vessel["capacity"]
            yield Spoiling(f"{name} ceiling at its brim", data)
    data = _data(path)
    for line in data["lines"].values():
        line.pop("filter", None)
    yield Spoiling("no filter", data)
    data = _data(path)
    data["lines"] = {name: line for name, line in data["lines"].items() if not line.get("passive")}
    yield Spoiling("no overflow line", data)
