"""Whether a pump still delivers what it should: against its own last doses, its first ones, and its calibration (F4). Pure.

Each weighed dose tells delivered over asked. Three questions are put to it, each at k standard deviations of its answer:

* does it fit what the pump did just before? Two doses in a row that do not, to the same side, or one that is far off:
  something has happened (tubing torn or slipped, a kink, air, an empty bottle);
* has it crept away from what it was when this tubing and calibration were new, by more than well tubing ages?
* is it further from its calibration than the calibration claims to be exact?

Pressure behind the pump explains part of it: a roller that works against more pressure moves less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from controller.ledger.reconcile import K, Residual

WANDER_REL_SD = 0.005
"""What a pump's gain may change from one dose to the next: wear, warmth, how the tubing lies."""
AGEING_REL_SD = 0.04
"""What well tubing loses in its life: 5 to 15 % in the first days, then slowly (biology.md §2); three of these are 12 %."""
BASELINE_DOSES = 5
"""So many weighed doses tell what a pump does with this tubing."""
DOSES_ASTRAY = 2
"""So many in a row, to the same side, are no chance."""
FAR = 0.25
"""A dose that is off by so much need not be seen twice."""
LEARNED_REL_SD = 0.02
"""How well a new gain is known right after something has happened."""
STALL_KPA = 200.0
"""Where rollers no longer shut the tubing; small tubing is rated 172 to 482 kPa (biology.md §2). Known within a half."""


@dataclass(frozen=True, slots=True)
class Drift:
    """A pump that is not as it should be: its gain now (delivered over asked, less one), and what it was held against."""

    pump: str
    gain: float
    sd: float
    against: Literal["before", "baseline", "calibration"]
    reference: float
    nominal_ul: float
    measured_ul: float

    @property
    def change(self) -> float:
        """How much more (+) or less (-) it gives than by the reference, relative."""
        return self.gain - self.reference

    @property
    def text(self) -> str:
        """By how much, which pump, likely cause, next action."""
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
        new = "fit new tubing, enter it (`choroid tubing`) and calibrate the pump"
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
    """What is remembered of one pump since its calibration or tubing last changed."""

    pump: str
    calibration: str = ""
    """Which calibration and tubing its numbers belong to."""
    rel_sd: float = 0.0
    """What that calibration claims (relative standard deviation)."""
    astray: int = 0
    """Doses in a row that did not fit, with the sign of their side."""
    doses: int = 0
    baseline: float | None = None
    baseline_variance: float = 0.0
    baseline_kpa: float | None = None
    kpa: float | None = None
    told: set[str] = field(default_factory=set)
    """Against what its drift has been told and not gone away since."""

    def under_pressure(self, kpa: float | None) -> tuple[float, float]:
        """What more or less pressure than at the dose before does to the gain: shift and variance."""
        before, self.kpa = self.kpa, kpa if kpa is not None else self.kpa
        return _by_pressure(before, kpa)

    def misfit(self, residual: Residual, measured_rel: float, gain: float) -> bool:
        """A dose that does not fit what came before; whether that makes it a finding."""
        side = 1 if residual.value > 0 else -1
        self.astray = self.astray + side if self.astray * side > 0 else side
        if abs(self.astray) < DOSES_ASTRAY and abs(measured_rel - gain) < FAR:
            return False
        self.astray = 0
        self.told |= {"baseline", "calibration"}  # one finding is enough
        return True

    def fits(self, gain: float, variance: float) -> tuple[Literal["baseline", "calibration"], float] | None:
        """A dose that fits; what it has crept away from by now, if it is told for the first time."""
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
        """Whether it is told now: once, until it has come back well within."""
        if abs(off) <= K * sd:
            if abs(off) < K * sd / 2:
                self.told.discard(what)
            return False
        first = what not in self.told
        self.told.add(what)
        return first


def _by_pressure(before_kpa: float | None, now_kpa: float | None) -> tuple[float, float]:
    if before_kpa is None or now_kpa is None:
        return 0.0, 0.0
    shift = -(now_kpa - before_kpa) / STALL_KPA
    return shift, (shift / 2) ** 2
