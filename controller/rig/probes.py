"""Probes of the loop and of the chamber: those that an organ names, else the first that stands there."""

from __future__ import annotations

from collections.abc import Collection

from controller.rig.description import ROOM_OXYGEN_PCT, Rig
from controller.rig.families import OXYGEN, PH, TEMPERATURE, PointKind, points_of
from controller.rig.graph import fed_by_hearts, lines_into_chambers
from controller.rig.surroundings import bicarbonate_mm, culture_vessel, ph_at, zone_of

AIR_SATURATION_PCT = 100.0


def loop_ph(rig: Rig) -> str | None:
    """Return the pH probe of the loop; None on a rig without one."""
    return _first(rig, PH, culture_places(rig)) if rig.organs.lung is None else rig.organs.lung.ph


def loop_oxygen(rig: Rig) -> str | None:
    """Return the oxygen probe of the loop; None on a rig without one."""
    return _first(rig, OXYGEN, culture_places(rig)) if rig.organs.lung is None else rig.organs.lung.oxygen


def culture_places(rig: Rig) -> set[str]:
    """Return where the circulating medium passes a probe: loop, perfused chambers, and the lines that lead into them."""
    lines = {line for heart in rig.organs.hearts for line in lines_into_chambers(rig, heart)}
    loop = () if rig.loop is None else (rig.loop,)
    return {*loop, *lines, *(fed_by_hearts(rig) or rig.tissue)}


def chamber_temperature(rig: Rig) -> str | None:
    """Return the thermometer of the first chamber; None if none sees it."""
    return thermometer(rig, next(iter(rig.tissue)))


def thermometer(rig: Rig, chamber: str) -> str | None:
    """Return the thermometer that sees a chamber: in it, else in the same zone; None if there is none.

    Those of skin and interlock come first. Without a zone, a thermometer sees other chambers only if the skin warms them.
    """
    organ, limit = rig.organs.skin, rig.safety.temperature
    named = [part for part in (organ and organ.temperature, limit and limit.point) if part]
    if named and len(rig.tissue) == 1:
        return named[0]
    named += [further.point for further in rig.safety.temperatures.values()]
    in_order = [*named, *(point for point, kind in points_of(rig).items() if kind == TEMPERATURE)]
    inside = [point for point in in_order if _place(rig, point) == chamber]
    return next(iter(inside or (point for point in in_order if shows_chamber(rig, point, chamber))), None)


def shows_chamber(rig: Rig, point: str, chamber: str) -> bool:
    """Return whether a thermometer shows the temperature of a chamber: in it, in the same zone, or in what the skin warms."""
    place, zone = _place(rig, point), rig.vessels[chamber].zone
    if place == chamber:
        return True
    shared = place in rig.vessels and rig.vessels[place].zone == zone
    return shared and (zone is not None or rig.organs.skin is not None)


def _place(rig: Rig, point: str) -> str | None:
    return rig.devices[point.partition(".")[0]].at


def ph_target(rig: Rig) -> float:
    """Return the target pH of loop or chamber: the lung's set-point, else that of fresh medium in the gas of its zone."""
    if rig.organs.lung is not None:
        return rig.organs.lung.ph_setpoint
    return ph_at(bicarbonate_mm(rig), zone_of(rig, culture_vessel(rig)).co2_pct)


def culture_ph(rig: Rig) -> dict[str, float]:
    """Return every pH probe in medium of the tissue, with the pH that it should show.

    The lung's probe comes first. Where no lung regulates, the gas around a vessel sets its pH.
    """
    lung, places, perfused = rig.organs.lung, {*culture_places(rig), *rig.tissue}, fed_by_hearts(rig)
    standing = [point for point, kind in points_of(rig).items() if kind == PH]
    points = [point for point in standing if rig.devices[point.partition(".")[0]].at in places]
    targets = dict.fromkeys((*(() if lung is None else (lung.ph,)), *points), ph_target(rig))
    for point in points:
        place = rig.devices[point.partition(".")[0]].at or ""
        static = place in rig.tissue and place not in perfused
        if static or (lung is None and place in rig.vessels):
            targets[point] = ph_at(bicarbonate_mm(rig, place), zone_of(rig, place).co2_pct)
    return targets


def oxygen_target_pct(rig: Rig) -> float:
    """Return the target oxygen of loop or chamber (% of air saturation): the lung's set-point, else its zone's."""
    if rig.organs.lung is not None:
        return rig.organs.lung.oxygen_setpoint_pct
    return AIR_SATURATION_PCT * zone_of(rig, culture_vessel(rig)).oxygen_pct / ROOM_OXYGEN_PCT


def temperature_target_c(rig: Rig) -> float:
    """Return the target temperature of the chambers (°C): the skin's set-point, else that of the first one's zone."""
    if rig.organs.skin is not None:
        return rig.organs.skin.setpoint_c
    return zone_of(rig, next(iter(rig.tissue))).temperature_c


def _first(rig: Rig, kind: PointKind, places: Collection[str]) -> str | None:
    """Return the first point of a kind whose device stands at one of `places`, in the order of the rig file."""
    for point, found in points_of(rig).items():
        if found == kind and rig.devices[point.partition(".")[0]].at in places:
            return point
    return None
