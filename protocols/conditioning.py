"""What to do with a graded batch, to the microlitre: pure arithmetic, neutral in volume for the loop.

A: give back as it is. B: dose glucose and base where that pays at the pumps' least dose, and thin by a share of fresh
medium that grows from nothing at the edge of A to a quarter at the edge of C; more would wash out what tissue secretes,
which is the reason why labs change only part of a medium. C: replace one half or more. D: replace all that can be pumped
out. Fresh medium also makes up for what evaporated.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from protocols.grading import Grade, Letter
from protocols.interval import Interval
from protocols.language import Targets
from protocols.soft_sensor import MediaValues, bicarbonate_mm, pco2_mmhg

VERSION = "conditioning-1"

HALF = 0.5
QUARTER = 0.25
TRIFLE_UL = 200.0
"""Not worth a transfer."""
DREGS_UL = 300.0
"""Left above the spent vessel's floor when it is emptied: three standard deviations and a margin."""
STANDARD_PCO2 = pco2_mmhg(5.0, 100.0)
"""With bicarbonate for the set-point pH at 5 % CO2, the pH regulator has room to both sides."""
PH_CEILING = 7.45
"""Base never takes a batch beyond grade A's upper pH."""
THINNED = ("lactate_mm", "ammonia_mm", "passes", "osmolality_change_pct", "insulin_share", "ldh_ratio")
"""Variables that fresh medium mends; glucose and pH have their own stocks."""


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """Volumes (µL) in the order in which they are moved."""

    discard_ul: float
    fresh_ul: float
    glucose_ul: float
    base_ul: float
    give_back_ul: float
    fresh_share: float
    """Share of the batch that is replaced."""

    def to_json(self) -> dict[str, Any]:
        """Plain data for the journal."""
        return asdict(self)


def fresh_share(grade: Grade) -> float:
    """Share of the batch (0..1) to replace by fresh medium."""
    if grade.letter is Letter.A:
        return 0.0
    if grade.letter is Letter.D:
        return 1.0
    worst = 0.0
    for finding in grade.findings:
        if finding.variable in THINNED and isinstance(finding.inputs, Interval):
            worst = max(worst, _badness(finding.variable, finding.inputs))
    if grade.letter is Letter.C:
        return min(max(HALF, HALF * worst), 1.0)
    return min(QUARTER * worst, QUARTER)


_EDGES = {
    "lactate_mm": (5.0, 10.0, 20.0),
    "ammonia_mm": (0.3, 0.8, 2.0),
    "passes": (3.0, 6.0, 10.0),
    "osmolality_change_pct": (3.0, 7.0, 12.0),
    "ldh_ratio": (1.5, 2.5, 5.0),
}


def _badness(variable: str, interval: Interval) -> float:
    """0 at the edge of A, 1 at the edge of B, 2 at the edge of C, by the pessimistic end."""
    if variable == "insulin_share":
        a, b, c, worst = -0.7, -0.4, -0.2, -interval.low
    else:
        a, b, c = _EDGES[variable]
        worst = interval.high
    if worst <= b:
        return max(0.0, (worst - a) / (b - a))
    return 1.0 + (worst - b) / (c - b)


def plan_batch(
    grade: Grade,
    batch: MediaValues,
    ph: float | None,
    *,
    spent_ul: float,
    loop_ul: float,
    targets: Targets,
    min_dose_ul: float,
) -> BatchPlan:
    """How to treat the batch of `spent_ul` (residue included) so that the loop comes back to its working volume.

    `min_dose_ul` is the least any of the dosing pumps gives; `ph` is that of the batch, None when it is not known.
    """
    share = fresh_share(grade)
    wanted_ul = max(targets.loop_ul - loop_ul, 0.0)
    goal_ul = targets.spent_ul + wanted_ul  # what the spent vessel has to hold before it is given back
    least_left_ul = targets.spent_floor_ul + DREGS_UL
    if grade.letter is Letter.D:
        discard_ul = max(spent_ul - least_left_ul, 0.0)
    else:
        discard_ul = min(share * max(spent_ul - targets.spent_ul, 0.0), max(spent_ul - least_left_ul, 0.0))
    if discard_ul < TRIFLE_UL:
        discard_ul = 0.0
    left_ul = spent_ul - discard_ul
    glucose_ul = base_ul = 0.0
    if grade.letter in (Letter.B, Letter.C):
        glucose_ul, base_ul = _doses(left_ul, batch, ph, targets, min_dose_ul)
        if left_ul + glucose_ul + base_ul > goal_ul:  # the doses need room: as much of the batch goes
            left_ul = max(goal_ul * left_ul / (left_ul + glucose_ul + base_ul), least_left_ul)
            left_ul = min(left_ul, spent_ul)
            discard_ul = spent_ul - left_ul
            glucose_ul, base_ul = _doses(left_ul, batch, ph, targets, min_dose_ul)
    fresh_ul = max(goal_ul - left_ul - glucose_ul - base_ul, 0.0)
    if 0.0 < fresh_ul < min_dose_ul:
        if discard_ul > 0.0:  # a little more out, and the least dose in
            discard_ul += min(min_dose_ul - fresh_ul, max(left_ul - least_left_ul, 0.0))
            fresh_ul = min_dose_ul
        else:
            fresh_ul = 0.0  # made up for when it has grown to the least dose
    held_ul = spent_ul - discard_ul + fresh_ul + glucose_ul + base_ul
    give_back_ul = min(max(held_ul - targets.spent_ul, 0.0), wanted_ul)
    return BatchPlan(discard_ul, fresh_ul, glucose_ul, base_ul, give_back_ul, share)


def _doses(
    volume_ul: float, batch: MediaValues, ph: float | None, targets: Targets, min_dose_ul: float
) -> tuple[float, float]:
    """Glucose and base stock for `volume_ul` of the batch; a dose below the least is none."""
    glucose_ul = _glucose_dose_ul(volume_ul, batch, targets)
    base_ul = _base_dose_ul(volume_ul, batch, ph, targets)
    return (
        glucose_ul if glucose_ul >= min_dose_ul else 0.0,
        base_ul if base_ul >= min_dose_ul else 0.0,
    )


def _glucose_dose_ul(volume_ul: float, batch: MediaValues, targets: Targets) -> float:
    """Stock that brings glucose to the set-point; reckoned from the upper bound, so that it never overshoots."""
    missing = targets.glucose_mm - batch.glucose_mm.high
    if missing <= 0 or targets.glucose_stock_mm <= targets.glucose_mm:
        return 0.0
    return volume_ul * missing / (targets.glucose_stock_mm - targets.glucose_mm)


def _base_dose_ul(volume_ul: float, batch: MediaValues, ph: float | None, targets: Targets) -> float:
    """Bicarbonate that brings the batch to the set-point pH, now and at 5 % CO2, but not beyond grade A's pH."""
    if ph is None:
        return 0.0
    now = batch.bicarbonate_mm.value
    goal = max(bicarbonate_mm(targets.ph, STANDARD_PCO2), now * _tenfold(targets.ph - ph))
    goal = min(goal, now * _tenfold(PH_CEILING - ph))
    if goal <= now or targets.base_stock_mm <= goal:
        return 0.0
    return volume_ul * (goal - now) / (targets.base_stock_mm - goal)


def _tenfold(exponent: float) -> float:
    return math.exp(math.log(10.0) * exponent)
