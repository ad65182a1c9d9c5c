"""Flow sensors in the lines of hearts and in their branches."""

from __future__ import annotations

from controller.rig.description import Rig
from controller.rig.families import LIQUID_FLOW, PointKind, points_of
from controller.rig.graph import lines_of_heart, shares_behind

MEAN_OVER_S = 20.0
"""Time constant of the mean in which a flow is judged (s): a roller pump pulsates."""


def expected_flows(rig: Rig) -> dict[str, tuple[str, float]]:
    """Return each flow sensor in the line of a heart or behind it, with the pump and the share of its flow that passes."""
    shares: dict[str, tuple[str, float]] = {}
    for heart in rig.organs.hearts:
        for own in lines_of_heart(rig, heart):
            pump = rig.lines[own].pump
            for line, share in shares_behind(rig, own).items():
                if pump is not None and line not in shares:
                    shares[line] = pump, share
    return {point: shares[line] for point, line in in_lines(rig, LIQUID_FLOW).items() if line in shares}


def line_flow_sensors(rig: Rig) -> dict[str, str]:
    """Return the flow sensors that are compared with the pump of a heart, by the line in which they stand."""
    lines = in_lines(rig, LIQUID_FLOW)
    return {lines[point]: point for point in expected_flows(rig)}


def in_lines(rig: Rig, kind: PointKind) -> dict[str, str]:
    """Return the points of a kind whose device stands in a line, with the line."""
    places = {point: rig.devices[point.partition(".")[0]].at for point, its in points_of(rig).items() if its == kind}
    return {point: place for point, place in places.items() if place is not None and place in rig.lines}
