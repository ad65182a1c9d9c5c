"""Every place of a rig file that names a point of a device, and what the point must be there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from controller.rig.description import Rig
from controller.rig.families import PRESSURE, PUMP, SWITCH, TEMPERATURE, TURN, PointKind
from controller.rig.problems import Place
from controller.rig.wiring import ACTUATORS, CONTACT, INTERLOCKS, names


@dataclass(frozen=True, slots=True)
class PointRole:
    """A point and the kinds that fit its role; `place` is where the rig file names it."""

    place: Place
    point: str
    kinds: tuple[PointKind, ...]


def point_roles(rig: Rig) -> Iterator[PointRole]:
    """Yield the role of each point that an organ, an interlock, a line, a selector or the emergency button names."""
    for wants in names(rig):
        point = wants.value(rig)
        if point is not None and isinstance(wants.kind, PointKind):
            yield PointRole(wants.place, point, tuple(kind for kind in (wants.kind, wants.or_else) if kind))
    yield from _interlocks(rig)
    for name, line in rig.lines.items():
        for key, point, kind in (("pump", line.pump, PUMP), ("valve", line.valve, SWITCH)):
            if point is not None:
                yield PointRole(("lines", name, key), point, (kind,))
    for name, selector in rig.selectors.items():
        yield PointRole(("selectors", name, "valve"), selector.valve, (TURN,))
    if (button := rig.safety.emergency_stop) is not None:
        yield PointRole(("safety", "emergency_stop", "input"), button.input, (CONTACT,))


def _interlocks(rig: Rig) -> Iterator[PointRole]:
    """Yield the points of further interlocks, and what every interlock turns off."""
    trips: dict[Place, tuple[str, ...]] = {
        ("safety", name): limit.trips for name in INTERLOCKS if (limit := getattr(rig.safety, name)) is not None
    }
    for group, kind in (("over_pressure", PRESSURE), ("temperatures", TEMPERATURE)):
        for name, limit in getattr(rig.safety, group).items():
            yield PointRole(("safety", group, name, "point"), limit.point, (kind,))
            trips["safety", group, name] = limit.trips
    for place, points in trips.items():
        for index, point in enumerate(points):
            yield PointRole((*place, "trips", index), point, ACTUATORS)
