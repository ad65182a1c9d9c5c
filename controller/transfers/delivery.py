"""Decide what a transfer needs next: a dose, its end, or a hold. Pure (A10).

The delivered volume equals the requested one within the stated uncertainty, or the run holds with an alarm. The stated
uncertainty is the pump's (calibration and scatter of its doses) plus that of the measurement. A volume below the pump's
minimum cannot be given: it is left out only if the transfer is complete without it. A remainder slightly below the minimum
is rounded up to it if the excess stays within the uncertainty.

The error of the calibration is common to all doses of a pump. What only the pump has measured of an interrupted transfer, and
the remainder, add up to what an uninterrupted dose would have been: neither a deficit nor an excess is excused by it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from controller.ledger.witnesses import DENSITY_REL_SD, DENSITY_UL_PER_G, K
from controller.steps.recovery import StepProblem, Trouble
from controller.steps.steps import StepRecord
from controller.transfers.routes import Route, Trust
from controller.transfers.weighing import MASS_SD_G

MIN_REMAINDER = 0.01
"""Share of the request below which a remainder is not given if the transfer is complete without it."""
MAX_COARSENESS = 2.0
"""Maximum uncertainty of a transfer, in uncertainties of one weighed dose. A transfer known more coarsely is in doubt."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The stated uncertainty of a transfer (µL, k = 3): of its pump, the scatter of the doses in that, of the weighing of a
    dose, and the maximum for the delivered volume.
    """

    pump_ul: float
    scatter_ul: float
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
    """Less than requested was delivered, and the remainder cannot be given."""


@dataclass(frozen=True, slots=True)
class Excess:
    """More than requested was delivered."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """The delivered volume is known too coarsely to go on."""


Decision = Give | Complete | Short | Excess | Doubt


def tolerance(route: Route, trust: Trust, requested_ul: float) -> Tolerance:
    """Return the stated uncertainty of a transfer of `requested_ul` along `route`."""
    portions = max(1, route.portions(requested_ul))
    scatter_ul = K * trust.dose_sd_ul * math.sqrt(portions)
    pump_ul = math.hypot(K * trust.rel_sd * requested_ul, scatter_ul)
    weighing_ul = 0.0
    if route.weighed:
        balance_ul = MASS_SD_G * DENSITY_UL_PER_G * math.sqrt(2.0)
        weighing_ul = K * math.hypot(balance_ul, DENSITY_REL_SD * requested_ul)
    return Tolerance(pump_ul, scatter_ul, weighing_ul, max(pump_ul, MAX_COARSENESS * weighing_ul * math.sqrt(portions)))


def decide(step: StepRecord, route: Route, trust: Trust, requested_ul: float) -> Decision:
    """Decide what the transfer `step` of `requested_ul` needs next.

    Args:
        step: what was given so far. A doubt that a person has accepted counts as given (`StepRecord.accept`).
        route: the line, with the minimum volume of its pump.
        trust: the trust in the pump's calibration.
        requested_ul: the volume of the whole transfer (µL).
    """
    limits = tolerance(route, trust, requested_ul)
    if step.doubt:
        return Doubt()
    if not step.parts:
        return _rounded(requested_ul, route, trust, max(limits.pump_ul, limits.weighing_ul)) or Short()
    missing_ul = requested_ul - step.best_ul
    unused_ul = requested_ul - step.charged_ul
    min_ul = route.min_ul * trust.gain
    worth_it = not step.finished and unused_ul >= max(min_ul, MIN_REMAINDER * requested_ul)
    if step.accepted:
        return Give(unused_ul) if worth_it else Complete()
    if step.error_ul > limits.max_error_ul:
        return Doubt()
    if worth_it:
        # The upper bound counts as given, unless that alone would leave the transfer short.
        return Give(unused_ul if step.charged_ul - step.best_ul <= limits.pump_ul else missing_ul)
    return _concluded(step, requested_ul, route, trust, limits)


def _concluded(step: StepRecord, requested_ul: float, route: Route, trust: Trust, limits: Tolerance) -> Decision:
    """Decide on a transfer with no remainder that is worth a dose."""
    missing_ul = requested_ul - step.best_ul
    if abs(missing_ul) <= limits.pump_ul + step.error_ul and not _cut_short(step, requested_ul, trust, limits):
        return Complete()
    if missing_ul < 0.0:
        return Excess()
    spare_ul = limits.scatter_ul if step.pumped_ul else limits.pump_ul
    return (
        Short() if step.finished else _rounded(missing_ul, route, trust, max(spare_ul, limits.weighing_ul)) or Short()
    )


def _cut_short(step: StepRecord, requested_ul: float, trust: Trust, limits: Tolerance) -> bool:
    """Return whether the pump's own measurement shows a deficit that its calibration does not excuse."""
    scale_ul = K * trust.rel_sd * max(0.0, requested_ul - step.pumped_ul)
    spare_ul = max(math.hypot(scale_ul, limits.scatter_ul), MIN_REMAINDER * requested_ul)
    return step.pumped_ul > 0.0 and requested_ul - step.charged_ul > spare_ul


def _rounded(volume_ul: float, route: Route, trust: Trust, spare_ul: float) -> Give | None:
    """Return a dose of `volume_ul`, rounded up to the minimum by at most `spare_ul`, or None if that is not enough."""
    min_ul = route.min_ul * trust.gain
    if volume_ul >= min_ul:
        return Give(volume_ul)
    return Give(min_ul) if min_ul - volume_ul <= spare_ul else None


def problem_of(decision: Decision, step: StepRecord, route: Route, requested_ul: float) -> StepProblem:
    """Return the problem that holds a transfer, with what a person needs to decide."""
    if isinstance(decision, Doubt):
        return in_doubt(step, route, requested_ul)
    trouble = Trouble.EXCESS if isinstance(decision, Excess) else Trouble.SHORTFALL
    return StepProblem(
        trouble, route.pump, (_delivered(step, requested_ul), f"its minimum is {route.min_ul / 1000:g} mL")
    )


def in_doubt(step: StepRecord, route: Route, requested_ul: float) -> StepProblem:
    """Return the problem of a transfer whose delivered volume is not known well enough."""
    return StepProblem(Trouble.UNKNOWN, route.pump, (_delivered(step, requested_ul), *step.doubt))


def _delivered(step: StepRecord, requested_ul: float) -> str:
    """Describe requested and delivered volume. No two doses of a run have the same text."""
    _, low, high = step.moved_ul
    return (
        f"step {step.n}, dose {step.acts}: {requested_ul / 1000:.3f} mL requested,"
        f" {low / 1000:.3f} to {high / 1000:.3f} mL delivered"
    )
