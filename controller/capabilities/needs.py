"""What functions need of a rig. Each need returns what is missing, or None."""

from __future__ import annotations

from controller.capabilities.terms import Need
from controller.rig.description import Rig
from controller.rig.dosing import dosing_paths
from controller.rig.families import CONDUCTIVITY, LIQUID_FLOW, OXYGEN, PointKind, points_of
from controller.rig.graph import fed_by_hearts, lines_into_chambers
from controller.rig.probes import loop_oxygen, loop_ph, shows_chamber, thermometer
from controller.rig.problems import named
from controller.rig.surroundings import culture_vessel
from controller.rig.temperature_limits import temperature_limits


def organ(name: str, what: str) -> Need:
    """Need an organ."""
    return lambda rig: None if getattr(rig.organs, name) is not None else f"organs.{name} ({what})"


def heart(rig: Rig) -> str | None:
    """Need a heart."""
    return None if rig.organs.hearts else "organs.heart (a pump on a line into a chamber)"


def loop(rig: Rig) -> str | None:
    """Need a vessel from which hearts draw and to which medium returns."""
    return None if rig.loop is not None else "a vessel of kind “loop” that a heart draws from"


def perfusion(rig: Rig) -> str | None:
    """Need a heart for each chamber with tissue."""
    fed = fed_by_hearts(rig)
    away = [chamber for chamber in rig.tissue if chamber not in fed]
    return f"a heart that perfuses {named(away)}" if away else None


def dosing(rig: Rig) -> str | None:
    """Need a pump of no organ that leads into each chamber with tissue, by itself or through selectors."""
    dosed = {path.target for path in dosing_paths(rig)}
    away = [chamber for chamber in rig.tissue if chamber not in dosed]
    return f"a pump of no organ on a line, or a port of a selector, into {named(away)}" if away else None


def emptying(rig: Rig) -> str | None:
    """Need a pump of no organ that draws from each chamber with tissue, by itself or through selectors."""
    drawn = {path.source for path in dosing_paths(rig)}
    away = [chamber for chamber in rig.tissue if chamber not in drawn]
    return f"a pump of no organ on a line, or a port of a selector, out of {named(away)}" if away else None


def temperature_probe(rig: Rig) -> str | None:
    """Need a thermometer that sees each chamber with tissue: in it, or in the same zone."""
    unseen = [chamber for chamber in rig.tissue if thermometer(rig, chamber) is None]
    return f"a temperature probe with “at: {named(unseen)}”" if unseen else None


def ph_probe(rig: Rig) -> str | None:
    """Need a pH probe in the loop, or in the chamber of a rig without one."""
    return None if loop_ph(rig) is not None else f"a pH probe with “at: {culture_vessel(rig)}”"


def oxygen_probe(rig: Rig) -> str | None:
    """Need an oxygen probe in the loop, or in the chamber of a rig without one."""
    return None if loop_oxygen(rig) is not None else f"an oxygen probe with “at: {culture_vessel(rig)}”"


def temperature_limit(rig: Rig) -> str | None:
    """Need limits of temperature at a thermometer that shows each chamber with tissue."""
    points = [limit.point for _, limit in temperature_limits(rig)]
    if not points:
        return "limits under safety.temperature"
    chambers = list(rig.tissue) if len(rig.tissue) > 1 or rig.safety.temperature is None else []
    unseen = [chamber for chamber in chambers if not any(shows_chamber(rig, point, chamber) for point in points)]
    return f"limits of temperature in the zone of {named(unseen)} (safety.temperatures)" if unseen else None


def heart_flow_sensors(rig: Rig) -> str | None:
    """Need a liquid-flow sensor on each heart's line; where that branches, on each branch."""
    lines = [line for name in rig.organs.hearts for line in measured_lines(rig, name)]
    missing = [line for line in lines if not _stands_at(rig, LIQUID_FLOW, line)]
    if not lines:
        return heart(rig)
    return f"a liquid-flow sensor with “at: {named(missing)}”" if missing else None


def measured_lines(rig: Rig, name: str) -> list[str]:
    """Return the lines whose flows show what each chamber of a heart receives: those that end in a vessel."""
    return [line for line in lines_into_chambers(rig, name) if rig.lines[line].to in rig.vessels]


def outlet_oxygen_probe(rig: Rig) -> str | None:
    """Need a second oxygen probe, in a perfused chamber with tissue."""
    chambers = [chamber for chamber in fed_by_hearts(rig) if chamber in rig.tissue] or list(rig.tissue)
    unseen = [chamber for chamber in chambers if set(_stands_at(rig, OXYGEN, chamber)) <= {loop_oxygen(rig)}]
    return f"a second oxygen probe with “at: {named(unseen)}”" if unseen else None


def conductivity_probe(rig: Rig) -> str | None:
    """Need a conductivity probe under the spent medium; without a kidney, in loop or chamber."""
    kidney = rig.organs.kidney
    vessel = culture_vessel(rig) if kidney is None else kidney.vessel
    return None if _stands_at(rig, CONDUCTIVITY, vessel) else f"a conductivity probe with “at: {vessel}”"


def dialyser(rig: Rig) -> str | None:
    """Need a line of dialysate through a dialyser."""
    kidney = rig.organs.kidney
    there = kidney is not None and kidney.dialyse is not None
    return None if there else "organs.kidney.dialyse (a line through a dialyser)"


def electrodes(rig: Rig) -> str | None:
    """Need an electrode array."""
    return None if rig.nerves is not None else "nerves (an electrode array)"


def _stands_at(rig: Rig, kind: PointKind, place: str) -> list[str]:
    """Return the points of a kind whose device stands at a place."""
    return [
        point
        for point, found in points_of(rig).items()
        if found == kind and rig.devices[point.partition(".")[0]].at == place
    ]
