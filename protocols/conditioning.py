"""Volumes of a batch's treatment: pure arithmetic, neutral in volume for the loop.

The replaced share, and whether the batch is dialysed or conditioned, is decided in :mod:`protocols.economy` within
what the grade permits. Glucose and base are dosed here for the whole circuit, since the batch returns to the loop:
so a small batch carries what a large one would, and less medium passes the pumps. The batch itself is never made
more alkaline than grade A, nor sweeter than 1.5 times fresh medium. Fresh medium also replaces evaporated water.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from protocols.mixing import STANDARD_PCO2, MediumState
from protocols.soft_sensor import bicarbonate_mm
from protocols.targets import Targets

VERSION = "conditioning-3"

TRIFLE_UL = 200.0
"""Minimum useful transfer (µL)."""
DREGS_UL = 300.0
"""Volume left above the spent vessel's floor when it is emptied (µL): three standard deviations and a margin."""
PH_CEILING = 7.45
"""Base never takes a batch beyond grade A's upper pH."""
SWEETEST = 1.5
"""Maximum glucose of a batch relative to fresh medium: it is diluted again in the loop."""


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """Volumes (µL) in the order of their transfers."""

    dialysate_ul: float
    discard_ul: float
    fresh_ul: float
    glucose_ul: float
    base_ul: float
    give_back_ul: float
    fresh_share: float
    """Share of the batch that is replaced."""

    def to_json(self) -> dict[str, Any]:
        """Return plain data for the journal."""
        return asdict(self)


def plan_batch(
    share: float,
    batch: MediumState,
    ph: float | None,
    *,
    conditioned: bool,
    emptied: bool,
    spent_ul: float,
    loop: MediumState,
    targets: Targets,
    min_dose_ul: float,
    dialysate_ul: float = 0.0,
) -> BatchPlan:
    """Return the treatment of the batch of `spent_ul` (residue included) that restores the loop's working volume.

    Args:
        share: Share (0..1) replaced by fresh medium.
        batch: The batch; with dialysis, its state after it.
        ph: pH of the batch; None if unknown.
        conditioned: Whether glucose and base are dosed.
        emptied: Whether everything that can be pumped out is discarded.
        spent_ul: Volume in the spent vessel (µL).
        loop: What remains in the loop.
        targets: Set-points and volumes of the rig.
        min_dose_ul: Largest of the dosing pumps' minimum doses (µL).
        dialysate_ul: Volume of dialysate used (µL).
    """
    wanted_ul = max(targets.loop_ul - loop.ul, 0.0)
    goal_ul = targets.spent_ul + wanted_ul  # what the spent vessel must hold before it is returned
    min_left_ul = targets.spent_floor_ul + DREGS_UL
    if emptied:
        discard_ul = max(spent_ul - min_left_ul, 0.0)
    else:
        discard_ul = min(share * max(spent_ul - targets.spent_ul, 0.0), max(spent_ul - min_left_ul, 0.0))
    if discard_ul < TRIFLE_UL:
        discard_ul = 0.0
    left_ul = spent_ul - discard_ul
    glucose_ul = base_ul = 0.0
    if conditioned and not emptied:
        glucose_ul, base_ul = _doses(left_ul, batch, ph, loop, targets, min_dose_ul)
        # Doses need room: discard as much of the batch, and not of its fresh share, which provides what stocks
        # lack.
        fresh_ul = max(goal_ul - left_ul, 0.0)
        roomier_ul = min(max(goal_ul - fresh_ul - glucose_ul - base_ul, min_left_ul), left_ul)
        if (
            spent_ul - roomier_ul >= TRIFLE_UL
        ):  # otherwise the vessel stays that much fuller, until a transfer is worthwhile
            left_ul, discard_ul = roomier_ul, spent_ul - roomier_ul
    fresh_ul = max(goal_ul - left_ul - glucose_ul - base_ul, 0.0)
    if 0.0 < fresh_ul < min_dose_ul:
        if discard_ul > 0.0 and share > 0.0:  # discard slightly more, so that the minimum dose fits
            discard_ul += min(min_dose_ul - fresh_ul, max(left_ul - min_left_ul, 0.0))
            fresh_ul = min_dose_ul
        else:
            fresh_ul = 0.0  # replaced when the deficit has grown to the minimum dose
    held_ul = spent_ul - discard_ul + fresh_ul + glucose_ul + base_ul
    give_back_ul = min(max(held_ul - targets.spent_ul, 0.0), wanted_ul)
    return BatchPlan(dialysate_ul, discard_ul, fresh_ul, glucose_ul, base_ul, give_back_ul, share)


def _doses(
    volume_ul: float, batch: MediumState, ph: float | None, loop: MediumState, targets: Targets, min_dose_ul: float
) -> tuple[float, float]:
    """Return glucose and base stock (µL) for `volume_ul` of the batch and for the loop; a dose below the minimum is
    0.
    """
    glucose_ul = _glucose_dose_ul(volume_ul, batch, loop, targets)
    base_ul = _base_dose_ul(volume_ul, batch, ph, loop, targets)
    return (
        glucose_ul if glucose_ul >= min_dose_ul else 0.0,
        base_ul if base_ul >= min_dose_ul else 0.0,
    )


def _dose_ul(volume_ul: float, now: float, goal: float, stock: float) -> float:
    """Return the stock (µL) that brings `volume_ul` from `now` to `goal`."""
    return volume_ul * (goal - now) / (stock - goal) if goal > now and stock > goal else 0.0


def _glucose_dose_ul(volume_ul: float, batch: MediumState, loop: MediumState, targets: Targets) -> float:
    """Return the stock (µL) that brings batch and loop to the set-point, from the upper bound, so that it never
    overshoots.
    """
    goal, stock = targets.glucose_mm, targets.glucose_stock_mm
    wanted_ul = _dose_ul(volume_ul, batch.glucose_mm.high, goal, stock)
    wanted_ul += _dose_ul(loop.ul, loop.glucose_mm.high, goal, stock)
    return min(wanted_ul, _dose_ul(volume_ul, batch.glucose_mm.high, SWEETEST * goal, stock))


def _base_dose_ul(volume_ul: float, batch: MediumState, ph: float | None, loop: MediumState, targets: Targets) -> float:
    """Return the bicarbonate (µL) that brings both to the set-point pH, now and at 5 % CO2, within grade A's pH."""
    if ph is None:
        return 0.0
    now, stock = batch.bicarbonate_mm.value, targets.base_stock_mm
    standard = bicarbonate_mm(targets.ph, STANDARD_PCO2)
    wanted_ul = _dose_ul(volume_ul, now, max(standard, now * _tenfold(targets.ph - ph)), stock)
    wanted_ul += _dose_ul(loop.ul, loop.bicarbonate_mm.value, standard, stock)
    return min(wanted_ul, _dose_ul(volume_ul, now, now * _tenfold(PH_CEILING - ph), stock))


def _tenfold(exponent: float) -> float:
    return math.exp(math.log(10.0) * exponent)
