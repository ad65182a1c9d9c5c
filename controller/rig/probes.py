"""Probes of the loop and of the chamber: those that an organ names, else the first that stands there."""

from __future__ import annotations

from collections.abc import Collection

from controller.rig.description import ROOM_OXYGEN_PCT, Rig
from controller.rig.families import OXYGEN, PH, TEMPERATURE, PointKind, points_of
from controller.rig.surroundings import bicarbonate_mm, ph_at, zone_of

AIR_SATURATION_PCT = 100.0


def loop_ph(rig: Rig) -> str | None:
    """Return the pH probe of the loop; None on a rig without one."""
    return _first(rig, PH, _loop_places(rig)) if rig.organs.lung is None else rig.organs.lung.ph


def loop_oxygen(rig: Rig) -> str | None:
    """Return the oxygen probe of the loop; None on a rig without one."""
    return _first(rig, OXYGEN, _loop_places(rig)) if rig.organs.lung is None else rig.organs.lung.oxygen


def chamber_temperature(rig: Rig) -> str | None:
    """Return the thermometer of the chamber; None on a rig without one."""
    if rig.organs.skin is not None:
        return rig.organs.skin.temperature
    if rig.safety.temperature is not None:
        return rig.safety.temperature.point
    return _first(rig, TEMPERATURE, {rig.chamber})


def ph_target(rig: Rig) -> float:
    """Return the target pH of the loop: the lung's set-point, else that of fresh medium in the gas of its zone."""
    if rig.organs.lung is not None:
        return rig.organs.lung.ph_setpoint
    return ph_at(bicarbonate_mm(rig), zone_of(rig, rig.loop).co2_pct)


def oxygen_target_pct(rig: Rig) -> float:
    """Return the target oxygen of the loop (% of air saturation): the lung's set-point, else that of its zone's gas."""
    if rig.organs.lung is not None:
        return rig.organs.lung.oxygen_setpoint_pct
    return AIR_SATURATION_PCT * zone_of(rig, rig.loop).oxygen_pct / ROOM_OXYGEN_PCT


def temperature_target_c(rig: Rig) -> float:
    """Return the target temperature of the chamber (°C): the skin's set-point, else the temperature of its zone."""
    return zone_of(rig, rig.chamber).temperature_c if rig.organs.skin is None else rig.organs.skin.setpoint_c


def _loop_places(rig: Rig) -> set[str]:
    """Return where the loop's medium passes a probe."""
    return {rig.loop, rig.chamber, rig.organs.heart.line}


def _first(rig: Rig, kind: PointKind, places: Collection[str]) -> str | None:
    """Return the first point of a kind whose device stands at one of `places`, in the order of the rig file."""
    for point, found in points_of(rig).items():
        if found == kind and rig.devices[point.partition(".")[0]].at in places:
            return point
    return None
