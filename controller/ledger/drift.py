"""Detection of pump drift: against the last doses, against the first ones, and against the calibration (F4). Pure.

Each weighed dose gives the ratio of delivered to nominal volume. Three tests apply, each at k standard deviations:

* Does it fit the doses just before? Two misfits in a row to the same side, or one large misfit, mean a sudden change
  (tubing torn or slipped, a kink, air, an empty bottle).
* Has it drifted from its value with new tubing and calibration by more than tubing ages normally?
* Is it further from the calibration than the calibration's stated uncertainty?

Pressure behind the pump explains a part: a roller moves less against more pressure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from controller.ledger.reconcile import K, Residual

WANDER_REL_SD = 0.005
"""Random change of a pump's gain from one dose to the next: wear, temperature, position of the tubing."""
AGEING_REL_SD = 0.04
"""Normal loss of tubing during its life: 5 to 15 % in the first days, then slowly (biology.md §2); three of these are
12 %."""
BASELINE_DOSES = 5
"""Number of weighed doses that define the baseline of a tubing."""
DOSES_ASTRAY = 2
"""Number of consecutive misfits to the same side that count as a change."""
FAR = 0.25
"""Relative misfit that counts as a change after one dose."""
LEARNED_REL_SD = 0.02
"""Uncertainty of a new gain right after a sudden change."""
STALL_KPA = 200.0
"""Pressure at which rollers no longer close the tubing, known within a half; small tubing is rated 172 to 482 kPa
(biology.md §2)."""


@dataclass(frozen=True, slots=True)
class Drift:
    """A pump that has drifted: its gain now (delivered over nominal, less one), and the reference of the comparison."""

    pump: str
    gain: float
    sd: float
    against: Literal["before", "baseline", "calibration"]
    reference: float
    nominal_ul: float
    measured_ul: float

    @property
    def change(self) -> float:
        """Relative change from the reference; + delivers more."""
        return self.gain - self.reference

    @property
    def text(self) -> str:
        """The alarm text: pump, amount, likely cause, next action."""
        more = "more" if self.change > 0 else "less"
        than = {
            "before": "it did in the doses before",
            "baseline": "it did when this tubing was new",
            "calibration": "its calibration says",
        }[self.against]
        cause, action = self._advice()
        return (
            f"{self.pump} delivers {abs(self.change):.1%} {more} than {than} (± {K * self.sd:.1%}; the last dose:"
            f" {self.nominal_ul / 1000:.2f} mL by its calibration, {self.measured_ul / 1000:.2f} mL by the balance)."
            f" Likely cause: {cause}. Next: {action}"
        )

    def _advice(self) -> tuple[str, str]:
        new = "fit new tubing, enter it (`choroid tubing replace`) and calibrate the pump"
        if self.change > FAR:
            return "wrong tubing (a wider bore than the rig file says), or a siphon", f"check the tubing; {new}"
        if self.change > 0:
            return "other tubing than was calibrated, or the back-pressure is gone", "calibrate the pump"
        if self.change < -2 * FAR:
            return (
                "occlusion: a kink, a clot, a shut clamp, or an empty bottle",
                "look along the line and at its bottle",
            )
        if self.change < -FAR:
            return (
                "an occlusion that lets some through, air in the line, or wrong tubing (narrower)",
                f"look at it; {new}",
            )
        if self.against == "before":
            return "the tubing is worn or slipped, or the line is partly occluded", f"look along the line; {new}"
        return "the tubing is worn", new


@dataclass(slots=True)
class PumpWatch:
    """Memory of one pump since its calibration or tubing last changed."""

    pump: str
    calibration: str = ""
    """Name of the calibration and tubing that the numbers belong to."""
    rel_sd: float = 0.0
    """Stated uncertainty of that calibration (relative standard deviation)."""
    astray: int = 0
    """Number of consecutive misfits, with the sign of their side."""
    doses: int = 0
    baseline: float | None = None
    baseline_variance: float = 0.0
    baseline_kpa: float | None = None
    kpa: float | None = None
    reported: set[str] = field(default_factory=set)
    """References whose drift has been reported and still stands."""

    def under_pressure(self, kpa: float | None) -> tuple[float, float]:
        """Return the change of the gain by the pressure since the dose before: shift and variance."""
        before, self.kpa = self.kpa, kpa if kpa is not None else self.kpa
        return _by_pressure(before, kpa)

    def misfit(self, residual: Residual, measured_rel: float, gain: float) -> bool:
        """Count a dose that does not fit the ones before. Return whether it makes a finding."""
        side = 1 if residual.value > 0 else -1
        self.astray = self.astray + side if self.astray * side > 0 else side
        if abs(self.astray) < DOSES_ASTRAY and abs(measured_rel - gain) < FAR:
            return False
        self.astray = 0
        self.reported |= {"baseline", "calibration"}  # one finding is enough
        return True

    def fits(self, gain: float, variance: float) -> tuple[Literal["baseline", "calibration"], float] | None:
        """Count a dose that fits. Return the reference it has drifted from and its value, if that is reported now."""
        self.astray = 0
        self.doses += 1
        if self.doses == BASELINE_DOSES:
            self.baseline, self.baseline_variance, self.baseline_kpa = gain, variance, self.kpa
        found: tuple[Literal["baseline", "calibration"], float] | None = None
        expected, doubt = _by_pressure(0.0, self.kpa)  # a pump is calibrated against none
        if self._beyond("calibration", gain - expected, math.sqrt(self.rel_sd**2 + variance + doubt)):
            found = ("calibration", expected)
        if self.baseline is not None:
            shift, doubt = _by_pressure(self.baseline_kpa, self.kpa)
            expected = self.baseline + shift
            sd = math.sqrt(AGEING_REL_SD**2 + variance + self.baseline_variance + doubt)
            if self._beyond("baseline", gain - expected, sd):
                found = ("baseline", expected)
        return found

    def _beyond(self, what: str, off: float, sd: float) -> bool:
        """Return whether a drift is to be reported now: once, until the gain has come back well within."""
        if abs(off) <= K * sd:
            if abs(off) < K * sd / 2:
                self.reported.discard(what)
            return False
        first = what not in self.reported
        self.reported.add(what)
        return first


def _by_pressure(before_kpa: float | None, now_kpa: float | None) -> tuple[float, float]:
    if before_kpa is None or now_kpa is None:
        return 0.0, 0.0
    shift = -(now_kpa - before_kpa) / STALL_KPA
    return shift, (shift / 2) ** 2
