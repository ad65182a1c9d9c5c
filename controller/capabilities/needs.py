"""What functions need of a rig. Each need returns what is missing, or None."""

from __future__ import annotations

from controller.capabilities.terms import Need
from controller.rig.description import Rig
from controller.rig.families import CONDUCTIVITY, LIQUID_FLOW, OXYGEN, PointKind, points_of
from controller.rig.probes import chamber_temperature, loop_oxygen, loop_ph


def organ(name: str, what: str) -> Need:
    """Need an organ."""
    return lambda rig: None if getattr(rig.organs, name) is not None else f"organs.{name} ({what})"


def temperature_probe(rig: Rig) -> str | None:
    """Need a thermometer in the chamber."""
    if chamber_temperature(rig) is not None:
        return None
    return f"a temperature probe with “at: {rig.chamber}”"


def ph_probe(rig: Rig) -> str | None:
    """Need a pH probe in the loop."""
    return None if loop_ph(rig) is not None else f"a pH probe with “at: {rig.loop}”"


def oxygen_probe(rig: Rig) -> str | None:
    """Need an oxygen probe in the loop."""
    return None if loop_oxygen(rig) is not None else f"an oxygen probe with “at: {rig.loop}”"


def temperature_limit(rig: Rig) -> str | None:
    """Need the limits of the chamber's temperature."""
    return None if rig.safety.temperature is not None else "limits under safety.temperature"


def heart_flow_sensor(rig: Rig) -> str | None:
    """Need a liquid-flow sensor on the heart's line."""
    line = rig.organs.heart.line
    return None if _stands_at(rig, LIQUID_FLOW, line) else f"a liquid-flow sensor with “at: {line}”"


def outlet_oxygen_probe(rig: Rig) -> str | None:
    """Need a second oxygen probe, in the chamber."""
    chamber = rig.chamber
    others = [point for point in _stands_at(rig, OXYGEN, chamber) if point != loop_oxygen(rig)]
    return None if others else f"a second oxygen probe with “at: {chamber}”"


def conductivity_probe(rig: Rig) -> str | None:
    """Need a conductivity probe under the spent medium."""
    vessel = rig.organs.kidney.vessel
    return None if _stands_at(rig, CONDUCTIVITY, vessel) else f"a conductivity probe with “at: {vessel}”"


def dialyser(rig: Rig) -> str | None:
    """Need a line of dialysate through a dialyser."""
    return None if rig.organs.kidney.dialyse is not None else "organs.kidney.dialyse (a line through a dialyser)"


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
