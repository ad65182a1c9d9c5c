"""Decide what a transfer needs next: give, end, or hold. Pure (A10).

The rule: what was delivered equals what was requested within the stated uncertainty, or the run holds with an alarm. The
stated uncertainty is the pump's (calibration and scatter of its doses) plus that of what was measured. A volume below the
pump's minimum cannot be given. It is left out only if the transfer is complete without it; a remainder that is nearly the
minimum is rounded up to it if the excess stays within the uncertainty.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from controller.ledger.witnesses import DENSITY_REL_SD, DENSITY_UL_PER_G, K
from controller.steps.recovery import StepProblem, Trouble
from controller.steps.steps import StepRecord
from controller.transfers.routes import Route, Trust
from controller.transfers.weighing import MASS_SD_G

TRIFLE = 0.01
"""A remainder below this share of the request is not worth a dose of its own if the transfer is complete without it."""
COARSE = 2.0
"""A transfer may be known by so many times the uncertainty of one weighed dose; a coarser one is in doubt."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The stated uncertainty of a transfer (µL, k = 3): of its pump, of one weighing of a dose, and how coarsely the
    delivered volume may be known at most.
    """

    pump_ul: float
    weighing_ul: float
    max_error_ul: float


@dataclass(frozen=True, slots=True)
class Give:
    """Give `volume_ul` (true µL) now."""

    volume_ul: float


@dataclass(frozen=True, slots=True)
class Complete:
    """The transfer is complete."""


@dataclass(frozen=True, slots=True)
class Short:
    """Less than requested was delivered, and the rest cannot be given."""


@dataclass(frozen=True, slots=True)
class Excess:
    """More than requested was delivered."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """What was delivered is known too coarsely to go on."""


Decision = Give | Complete | Short | Excess | Doubt


def tolerance(route: Route, trust: Trust, requested_ul: float) -> Tolerance:
    """Return the stated uncertainty of a transfer of `requested_ul` along `route`."""
    portions = max(1, route.portions(requested_ul))
    pump_ul = K * math.hypot(trust.rel_sd * requested_ul, trust.dose_sd_ul * math.sqrt(portions))
    weighing_ul = 0.0
    if route.weighed:
        balance_ul = MASS_SD_G * DENSITY_UL_PER_G * math.sqrt(2.0)
        weighing_ul = K * math.hypot(balance_ul, DENSITY_REL_SD * requested_ul)
    return Tolerance(pump_ul, weighing_ul, max(pump_ul, COARSE * weighing_ul * math.sqrt(portions)))


def decide(step: StepRecord, route: Route, trust: Trust, requested_ul: float) -> Decision:
    """Decide what the transfer `step` of `requested_ul` needs next.

    Args:
        step: What was given so far. A doubt that a person has accepted counts as given (`StepRecord.accept`).
        route: Its line, with the minimum volume of its pump.
        trust: What the pump's calibration is worth.
        requested_ul: The whole transfer (µL).
    """
    limits = tolerance(route, trust, requested_ul)
    if step.doubt:
        return Doubt()
    if not step.parts:
        return _rounded(requested_ul, route, trust, limits) or Short()
    missing_ul = requested_ul - step.best_ul
    unused_ul = requested_ul - step.charged_ul
    min_ul = route.least_ul * trust.gain
    worth_it = unused_ul >= max(min_ul, TRIFLE * requested_ul)
    if step.accepted:
        return Give(unused_ul) if worth_it and not step.finished else Complete()
    if step.error_ul > limits.max_error_ul:
        return Doubt()
    if not step.finished and worth_it:
        # The upper bound counts as given, unless that alone would leave the transfer short.
        return Give(unused_ul if step.charged_ul - step.best_ul <= limits.pump_ul else missing_ul)
    if abs(missing_ul) <= limits.pump_ul + step.error_ul:
        return Complete()
    if missing_ul < 0.0:
        return Excess()
    return Short() if step.finished else _rounded(missing_ul, route, trust, limits) or Short()


def _rounded(volume_ul: float, route: Route, trust: Trust, limits: Tolerance) -> Give | None:
    """Give `volume_ul`, or the minimum where that is more by no more than the uncertainty; None where neither is possible."""
    min_ul = route.least_ul * trust.gain
    if volume_ul >= min_ul:
        return Give(volume_ul)
    return Give(min_ul) if min_ul - volume_ul <= max(limits.pump_ul, limits.weighing_ul) else None


def problem_of(decision: Decision, step: StepRecord, route: Route, requested_ul: float) -> StepProblem:
    """Return what a transfer is held for, with what a person needs to decide."""
    if isinstance(decision, Doubt):
        return in_doubt(step, route, requested_ul)
    trouble = Trouble.EXCESS if isinstance(decision, Excess) else Trouble.SHORTFALL
    return StepProblem(
        trouble, route.pump, (_delivered(step, requested_ul), f"its minimum is {route.least_ul / 1000:g} mL")
    )


def in_doubt(step: StepRecord, route: Route, requested_ul: float) -> StepProblem:
    """Return the problem of a transfer of which it is not known well enough what it delivered."""
    return StepProblem(Trouble.UNKNOWN, route.pump, (_delivered(step, requested_ul), *step.doubt))


def _delivered(step: StepRecord, requested_ul: float) -> str:
    """Name requested and delivered volume, for people; no two doses of a run have the same text."""
    _, low, high = step.moved_ul
    return (
        f"step {step.n}, dose {step.acts}: {requested_ul / 1000:.3f} mL requested,"
        f" {low / 1000:.3f} to {high / 1000:.3f} mL delivered"
    )
