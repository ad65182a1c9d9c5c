"""Validation of selectors: V18, the carry-over of a plug in the common line, against its closed form."""

from __future__ import annotations

from math import exp, factorial

import numpy as np

from sim.plant import hydraulics, shapes
from sim.plant.columns import Content
from sim.plant.fleet import Fleet
from sim.plant.verdicts import Measured, Validation, verdict

FLOW_UL_MIN = 500.0
SECONDS = 30.0
EXACT = 1e-9
NEAR_UL = 1.0
"""The tubes at the ports, which the closed form leaves out, hold less than this together."""


def _dosed(fleet: Fleet, medium: int, well: int, seconds: float) -> float:
    """Dose a medium into a well (numbers of positions); return what has passed the common line (µL)."""
    fleet.turn(0, "choice.valve", medium)
    fleet.turn(0, "supply.valve", well)
    line = fleet.lines[0, fleet.line_names.index("dose")]
    before_ul = float(line["arrived_ul"])
    line["command_ul_min"] = FLOW_UL_MIN
    fleet.advance(1.0, round(seconds))
    line["command_ul_min"] = 0.0
    return float(line["arrived_ul"]) - before_ul


def left_share(volumes: float) -> float:
    """Return the share of a plug that four mixed cells still hold after a flush with so many volumes of the line."""
    x = hydraulics.CELLS * volumes
    return (
        exp(-x) * sum((hydraulics.CELLS - i) * x**i / factorial(i) for i in range(hydraulics.CELLS)) / hydraulics.CELLS
    )


def _glucose(fleet: Fleet, vessel: str) -> float:
    return float(fleet.vessels[0, fleet.vessel_names.index(vessel), Content.GLUCOSE])


def v18() -> Validation:
    """Compare what a dose into the next well brings of the medium before it with four mixed cells in a row."""
    fleet = Fleet(shapes.selected(4, inhabited=1), [1])
    before = fleet.contents()[0]
    line_ul = float(fleet.lines["cell_ul"][0, fleet.line_names.index("dose")]) * hydraulics.CELLS
    per_ul = float(fleet.composition("fresh")[Content.GLUCOSE])
    _dosed(fleet, 1, 2, 4 * 60.0)  # the common line is full of the medium with glucose
    untouched = [_glucose(fleet, name) for name in ("w3", "w4")]
    second = _glucose(fleet, "w2")
    pushed_ul = _dosed(fleet, 2, 3, SECONDS)
    carried_ul = (_glucose(fleet, "w3") - untouched[0]) / per_ul
    exact_ul = line_ul * (1.0 - left_share(pushed_ul / line_ul))
    rinsed_ul = _dosed(fleet, 2, 5, 2 * SECONDS)
    start = _glucose(fleet, "w4")
    last_ul = _dosed(fleet, 2, 4, SECONDS)
    left_ul = (_glucose(fleet, "w4") - start) / per_ul
    after = (pushed_ul + rinsed_ul) / line_ul
    exact_left_ul = line_ul * (left_share(after) - left_share(after + last_ul / line_ul))
    closed = Fleet(shapes.selected(4, inhabited=1), [1])
    moved_ul = _dosed(closed, 1, 6, SECONDS)
    closed.lines["command_ul_min"][0, 0] = FLOW_UL_MIN
    closed.advance(0.0, 1)
    stall_kpa = float(closed.lines["pressure_kpa"][0, closed.line_names.index("dose")])
    off = np.abs(fleet.contents()[0] - before - fleet.tally[0].sum(axis=0))
    worst = float((off / np.maximum(np.abs(before) + np.abs(fleet.tally[0]).sum(axis=0), 1e-12)).max())
    parts = [
        _near(f"carry-over into the next well, {pushed_ul / line_ul:.2f} volumes of the line, uL", exact_ul, carried_ul),
        _near(f"carry-over after a rinse, {after:.2f} volumes, uL", exact_left_ul, left_ul),
        Measured("change of a well that is not connected, nmol", "0", _glucose(fleet, "w2") - second,
             _glucose(fleet, "w2") == second),
        Measured("flow into a closed port, uL", "0", moved_ul, moved_ul == 0.0),
        Measured("pressure before a closed port, kPa", f"{hydraulics.P_STALL_KPA:g}", stall_kpa,
             abs(stall_kpa - hydraulics.P_STALL_KPA) < 1e-6),
        Measured("mass balance, worst species, relative", "below 1e-9", worst, worst < EXACT),
    ]  # fmt: skip
    return Validation(
        "V18", "carry-over through a selector: what passed last comes out first",
        f"{exact_ul:.1f} uL; {exact_left_ul:.2f} uL",
        f"{carried_ul:.1f} uL; {left_ul:.2f} uL", f"{NEAR_UL:g} uL; 1e-9", verdict(parts), "consistency",
        "four mixed cells in a row (Erlang)",
        "The same cells on both sides; what can fail is the path that the valve opens. A straight tube in laminar flow and"
        " without diffusion keeps 1/(4·volumes) of what was in it: 8 % after three, where four cells keep 0.2 %. Diffusion"
        " across a bore of 0.8 mm takes some minutes, so that a rinse within seconds is worse than this plant shows.",
        tuple(parts),
    )  # fmt: skip


def _near(what: str, exact_ul: float, found_ul: float) -> Measured:
    return Measured(what, f"{exact_ul:.3f}", found_ul, abs(found_ul - exact_ul) <= NEAR_UL)
