"""The scores of one moment: the estimate of viability, care rating, welfare and happiness, with their inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from controller.vitals.score_faults import ScoreFaults
from nerves.summary import StimulationTreatment
from protocols.baseline import Norm
from protocols.care_rating import LABEL, Vitals, care_rating
from protocols.care_rating import VERSION as RATING_VERSION
from protocols.happiness import happiness
from protocols.scoring import Score, unknown
from protocols.tissue.statement import Statement
from protocols.welfare import VERSION as WELFARE_VERSION
from protocols.welfare import Treatment as Treated
from protocols.welfare import welfare

MAX_NAMED = 6
"""Maximum number of chambers that a text names."""


@dataclass(frozen=True, slots=True)
class Scores:
    """The inputs of one moment. The scores are computed only when they are read, which is rare."""

    vitals: Vitals
    treated: Treated
    treatment: StimulationTreatment | None
    norms: Mapping[str, Norm]
    chambers: tuple[str, ...] = ()
    """The chambers with tissue."""
    firing_z: Mapping[str, float] = field(default_factory=dict)
    """Distance of the firing figures from the culture's own baseline, in spreads."""
    tissue: Callable[[], Statement | None] = lambda: None
    """Returns the estimate of the tissue's viability when it is read; None while it is restored."""
    faults: ScoreFaults = field(default_factory=ScoreFaults)
    """What cannot be computed."""

    def to_json(self, alarms: tuple[str, ...] = ()) -> dict[str, Any]:
        """Return the estimate of viability, care rating, welfare, happiness, stimulation, baselines and all inputs.

        With several chambers a key `of` says that each score is one number for all of them. What cannot be computed is in
        `unknown`, with the reason. `alarms` are the failures of the care at this moment
        (:class:`controller.alarms.care.FailedCare`), which may be later than the inputs.
        """
        vitals = replace(self.vitals, alarms=alarms)
        viability = self.faults.kept("viability", lambda: self._viability(alarms), None)
        rating = self._score("care_rating", lambda: care_rating(vitals), RATING_VERSION)
        kept = self._score("welfare", lambda: welfare(self.treated), WELFARE_VERSION)
        unknown = dict(self.faults.reasons)
        return {
            "viability": viability,
            "care_rating": rating.to_json() | {"inputs": vitals.to_json()},
            **({} if len(self.chambers) < 2 else {"of": _of(self.chambers)}),
            **({} if not unknown else {"unknown": unknown}),
            "welfare": kept.to_json() | {"inputs": self.treated.to_json()},
            "happiness": happiness(rating, kept).to_json(),
            "stimulation": None if self.treatment is None else _stimulation(self.treatment),
            "baseline": {
                name: {"value": round(norm.value, 6), "spread": round(norm.spread, 4), "hours": norm.hours}
                for name, norm in self.norms.items()
            },
            "firing_z": {name: round(z, 2) for name, z in self.firing_z.items() if math.isfinite(z)},
        }

    def _viability(self, alarms: tuple[str, ...]) -> dict[str, Any] | None:
        tissue = self.tissue()
        return None if tissue is None else replace(tissue, alarms=alarms).to_json()

    def _score(self, name: str, compute: Callable[[], Score], version: str) -> Score:
        """Return a score; one of which nothing is known if it cannot be computed."""
        found = self.faults.kept(name, compute, None)
        return unknown(self.faults.reasons[name], version=version, label=LABEL) if found is None else found


def _of(chambers: tuple[str, ...]) -> str:
    named = ", ".join(chambers[:MAX_NAMED]) + (", …" if len(chambers) > MAX_NAMED else "")
    return f"one score for the tissue of {len(chambers)} chambers together ({named})"


def _stimulation(treatment: StimulationTreatment) -> dict[str, Any]:
    return {
        "load": round(treatment.load, 6),
        "rest_h": round(treatment.rest_h, 3),
        "response_lost": treatment.response_lost,
        "tier": treatment.tier,
        "level": treatment.level,
        "reason": treatment.reason,
    }
