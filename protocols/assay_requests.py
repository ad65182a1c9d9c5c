"""Value of information: which assay of the loop would save more fresh medium than it is worth. Pure.

The fresh medium of the next days follows from the mass balance (docs/recycling.md): each product of the tissue has to be kept
below its limit by as much as its uncertainty demands, and the product that demands most decides. An assay makes that distance
smaller. The difference is the expected saving.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist
from typing import Any

from protocols.assay import ANALYTES
from protocols.grading import RuleSet
from protocols.interval import Interval
from protocols.mixing import AMMONIA_PER_LACTATE, MediumState

ASSAY_WANTED = "assay_wanted"
"""Kind of the note, and of the alarm, by which an assay is requested."""
MEDIUM, TISSUE = "medium", "tissue"
"""Purposes of a request: to exchange less medium for safety, or to tell whether tissue is lost."""
DAYS_AHEAD = 7.0
"""For how long an assay informs (days): rates and sensors drift [P]."""
ASSAYED = ("lactate", "ammonia")
MIN_SHARE = 0.2
"""Smallest share of a limit that uncertainty leaves usable; less than this is not controlled by fresh medium at all."""
PER_ML = 1000.0


@dataclass(frozen=True, slots=True)
class AssayRequest:
    """A request: analytes of one sample of the loop, and the fresh medium that they are expected to save (µL)."""

    analytes: tuple[str, ...]
    saving_ul: float
    demand_ul: float
    """Fresh medium of the next days without the assay."""

    @property
    def text(self) -> str:
        """One sentence for people."""
        return (
            f"assay {' and '.join(self.analytes)} of the loop: the present uncertainty costs about"
            f" {self.saving_ul / PER_ML:.0f} of {self.demand_ul / PER_ML:.0f} mL of fresh medium in the next"
            f" {DAYS_AHEAD:g} days"
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain data for the journal."""
        return {
            "analytes": list(self.analytes),
            "where": "loop",
            "purpose": MEDIUM,
            "saving_ul": round(self.saving_ul, 1),
            "demand_ul": round(self.demand_ul, 1),
            "text": self.text,
        }


def demand_ul(
    loop: MediumState, rules: RuleSet, lactate_umol_d: float, exceed: float, sds: Mapping[str, float]
) -> float:
    """Return the fresh medium (µL) that keeps lactate and ammonia within grade B for :data:`DAYS_AHEAD`.

    Args:
        loop: The circulating medium.
        rules: Rules of the rig.
        lactate_umol_d: Lactate that the tissue makes.
        exceed: Permitted probability (0..1) of being beyond a limit.
        sds: Standard deviation of each analyte (mM).
    """
    sigmas = NormalDist().inv_cdf(1.0 - exceed)
    lactate = loop.lactate_mm.value
    ratio = loop.ammonia_mm.value / lactate if lactate > 1.0 else AMMONIA_PER_LACTATE
    made = {"lactate": lactate_umol_d * DAYS_AHEAD, "ammonia": ratio * lactate_umol_d * DAYS_AHEAD}
    demands = [0.0]
    for name in ASSAYED:
        rule = rules.rule(ANALYTES[name].species)
        if rule is None or rule.sense != "high":
            continue
        limit = rule.edges[1]
        usable = max(limit - sigmas * sds[name], MIN_SHARE * limit)
        room_umol = (usable - _interval(loop, name).value) * loop.ul / PER_ML
        demands.append(max(made[name] - room_umol, 0.0) / usable * PER_ML)
    return max(demands)


def best_request(
    loop: MediumState, rules: RuleSet, lactate_umol_d: float, *, exceed: float, cost_ul: float
) -> AssayRequest | None:
    """Return the assay that saves most after its cost (µL of fresh medium for each analyte); None if none is worth it."""
    now = {name: _interval(loop, name).sd for name in ASSAYED}
    before = demand_ul(loop, rules, lactate_umol_d, exceed, now)
    best: AssayRequest | None = None
    for analytes in _choices():
        after = {name: _informed(now[name], _interval(loop, name).value, name) for name in analytes}
        saving = before - demand_ul(loop, rules, lactate_umol_d, exceed, {**now, **after})
        net = saving - cost_ul * len(analytes)
        if net > 0.0 and (best is None or net > best.saving_ul - cost_ul * len(best.analytes)):
            best = AssayRequest(analytes, saving, before)
    return best


def _choices() -> Sequence[tuple[str, ...]]:
    return [each for count in range(1, len(ASSAYED) + 1) for each in combinations(ASSAYED, count)]


def _interval(loop: MediumState, name: str) -> Interval:
    found: Interval = getattr(loop, ANALYTES[name].species)
    return found


def _informed(sd: float, value: float, name: str) -> float:
    """Return the standard deviation after an assay with its usual one."""
    of_assay = ANALYTES[name].deviation(value)
    return float((sd**-2 + of_assay**-2) ** -0.5) if sd > 0.0 else 0.0
