"""Flow sensors as witnesses of a dose: a pump counts its turns, whether medium or air passes it.

A sensor in one of the lines of a dose tells whether medium flowed, and in which direction, while the pump ran. Without medium
(an empty bottle, a tube that has slipped off) the volume of the dose is in doubt.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from controller.core.state import Reading
from controller.rig.description import Rig
from controller.rig.families import AIR_IN_LINE, LIQUID_FLOW
from controller.rig.flow_sensors import in_lines
from controller.transfers.routes import Route
from controller.transfers.underway import DoseUnderway
from drivers.commands import Quality

MIN_READINGS = 2
"""Minimum number of readings during a dose; fewer prove nothing."""
MIN_SEEN = 0.5
"""Share of the dose's flow that the sensor must have seen at least once."""
ONSET_S = 1.0
"""Time (s) from the start of the pump to the first reading that counts."""


def flow_sensors(rig: Rig, route: Route) -> tuple[str, ...]:
    """Return the flow sensors that prove the doses of a route."""
    lines = in_lines(rig, LIQUID_FLOW)
    return tuple(point for point, line in lines.items() if line in _lines(route))


def proved_from_ul(rig: Rig, route: Route) -> float:
    """Return the smallest dose that a flow sensor surely proves (µL); `inf` without one. A sensor needs time to read."""
    every_s = (rig.devices[point.partition(".")[0]].every_s for point in flow_sensors(rig, route))
    return min((ONSET_S + MIN_READINGS * each for each in every_s), default=inf) * route.flow_ul_min / 60.0


def _lines(route: Route) -> tuple[str, ...]:
    """Return the lines of a route in which a sensor proves its doses; the balance judges a weighed line of an organ."""
    if route.path is not None:
        return route.path.lines
    return () if route.weighed else (route.line,)


class FlowWitness:
    """The flow sensors in the lines of doses."""

    def __init__(self, rig: Rig) -> None:
        self._points: dict[str, list[tuple[str, bool]]] = {}
        """By line: the points of its sensors, and whether they tell of air."""
        for kind in (LIQUID_FLOW, AIR_IN_LINE):
            for point, line in in_lines(rig, kind).items():
                self._points.setdefault(line, []).append((point, kind == AIR_IN_LINE))

    def update(self, dose: DoseUnderway, readings: Mapping[str, Reading]) -> None:
        """Take in what the sensors of a dose have read since it began."""
        for point, of_air in (each for line in _lines(dose.route) for each in self._points.get(line, ())):
            reading = readings.get(point)
            if reading is None or reading.quality is not Quality.GOOD:
                continue
            if not dose.begun_s + ONSET_S <= reading.at_s <= dose.begun_s + dose.nominal_s:
                continue
            if of_air and reading.value >= 0.5:
                dose.air = point
            elif not of_air:
                dose.seen_ul_min[point, reading.at_s] = reading.value

    def doubt(self, dose: DoseUnderway) -> tuple[str, ...]:
        """Return why a dose that its pump has ended may not have moved its volume; empty if nothing speaks against it."""
        if dose.air:
            return (f"{dose.air}: air passed the line. Likely cause: an empty bottle, or a tube above the medium",)
        for sensor in dict.fromkeys(point for point, _ in dose.seen_ul_min):
            seen = [flow for (point, _), flow in dose.seen_ul_min.items() if point == sensor]
            if len(seen) >= MIN_READINGS and max(seen) < MIN_SEEN * dose.dose.flow_ul_min:
                what = f"{sensor} has seen {max(seen):.0f} of {dose.dose.flow_ul_min:.0f} µL/min"
                backwards = "a motor that turns backwards, or a sensor mounted against the flow"
                cause = "an empty bottle, a blocked port, or a tube that has slipped off"
                return (
                    f"{what}. Likely cause: {backwards if min(seen) < -MIN_SEEN * dose.dose.flow_ul_min else cause}",
                )
        return ()
