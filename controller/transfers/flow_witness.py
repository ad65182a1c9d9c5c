"""Flow sensors as witnesses of a dose: a pump counts its turns, whether medium or air passes it.

A sensor in one of the lines of a dose tells whether medium flowed while the pump ran. Without medium (an empty bottle, a tube
that has slipped off) the volume of the dose is in doubt.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.core.state import Reading
from controller.rig.description import Rig
from controller.rig.families import AIR_IN_LINE, LIQUID_FLOW, points_of
from controller.transfers.underway import DoseUnderway
from drivers.commands import Quality

MIN_READINGS = 2
"""Minimum number of readings during a dose; fewer prove nothing."""
MIN_SEEN = 0.5
"""Share of the dose's flow that the sensor must have seen at least once."""
ONSET_S = 1.0
"""Time (s) from the start of the pump to the first reading that counts."""


class FlowWitness:
    """The flow sensors in the lines through which single chambers are dosed."""

    def __init__(self, rig: Rig) -> None:
        self._points: dict[str, list[tuple[str, bool]]] = {}
        """By line: the points of its sensors, and whether they tell of air."""
        for point, kind in points_of(rig).items():
            device = rig.devices.get(point.partition(".")[0])
            if device is not None and device.at in rig.lines and kind in (LIQUID_FLOW, AIR_IN_LINE):
                self._points.setdefault(device.at, []).append((point, kind == AIR_IN_LINE))

    def look(self, dose: DoseUnderway, readings: Mapping[str, Reading]) -> None:
        """Take in what the sensors of a dose have read since it began."""
        lines = () if dose.route.path is None else dose.route.path.lines
        for point, of_air in (each for line in lines for each in self._points.get(line, ())):
            reading = readings.get(point)
            if reading is None or reading.quality is not Quality.GOOD:
                continue
            if not dose.begun_s + ONSET_S <= reading.at_s <= dose.begun_s + dose.nominal_s:
                continue
            if of_air and reading.value >= 0.5:
                dose.air = point
            elif not of_air:
                dose.seen_ul_min[point, reading.at_s] = abs(reading.value)

    def doubt(self, dose: DoseUnderway) -> tuple[str, ...]:
        """Return why a dose that its pump has ended may not have moved its volume; empty if nothing speaks against it."""
        if dose.air:
            return (f"{dose.air}: air passed the line. Likely cause: an empty bottle, or a tube above the medium",)
        for sensor in dict.fromkeys(point for point, _ in dose.seen_ul_min):
            seen = [flow for (point, _), flow in dose.seen_ul_min.items() if point == sensor]
            if len(seen) >= MIN_READINGS and max(seen) < MIN_SEEN * dose.dose.flow_ul_min:
                what = f"{sensor} has seen {max(seen):.0f} of {dose.dose.flow_ul_min:.0f} µL/min"
                return (f"{what}. Likely cause: an empty bottle, a blocked port, or a tube that has slipped off",)
        return ()
