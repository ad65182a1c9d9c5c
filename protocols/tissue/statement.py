"""The estimate in words: what is abnormal, where viability lies, since when, what is not measured, what to measure next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from protocols.tissue.estimate import LEVEL, VERSION, Range, ViabilityEstimate
from protocols.tissue.information import Gain, best_measurement
from protocols.tissue.look import TissueLook
from protocols.tissue.particles import harms_per_h
from protocols.tissue.priors import Axis

LABEL = "estimate of the tissue's condition for its care, not evidence of feeling"
MEASURED = {
    "temperature": "temperature_c",
    "oxygen": "oxygen_pct",
    "pH": "ph",
    "medium": "lactate_mm",
    "oxygen uptake": "oxygen_uptake",
    "electrical activity": "firing_hz",
    "LDH": "ldh",
    "volume": "volume",
}
"""What can be known of a tissue, with its field of a look."""
EXPOSURE_OF = {
    "heat": "temperature_c",
    "cold": "temperature_c",
    "lack of oxygen": "oxygen_pct",
    "pH": "ph",
    "lack of glucose": "glucose_mm",
    "lactate": "lactate_mm",
    "ammonia": "ammonia_mm",
    "osmolality": "osmolality_mosm",
}
"""The field of a look that shows a harm."""
TOO_WIDE = 0.5
"""Width of an interval that says too little to be called stable."""
HARMFUL_PER_H = 0.002
"""Harm of one cause that is worth a word (1/h): a tenth of the viability in two days."""
DAY_H = 24
SETTLED_H = 6
TREND_STEP_H = 6
"""Hours between two points of the trend that is shown."""


@dataclass(frozen=True, slots=True)
class Statement:
    """What page, report and API say of the tissue."""

    estimate: ViabilityEstimate
    look: TissueLook
    """The present hour."""
    recent: frozenset[str]
    """Fields of a look that were measured within their time (an image counts for a week)."""

    @property
    def known(self) -> tuple[str, ...]:
        """What is measured."""
        return tuple(name for name, each in MEASURED.items() if each in self.recent)

    @property
    def unknown(self) -> tuple[str, ...]:
        """What is not measured."""
        return tuple(name for name in MEASURED if name not in self.known)

    def causes(self) -> dict[str, float]:
        """Return the harms that act now, with the expected loss an hour (1/h)."""
        shares = self.estimate.shares
        found = {name: float(shares @ harm) for name, harm in harms_per_h(self.estimate.particles, self.look).items()}
        acting = [(harm, name) for name, harm in found.items() if harm > HARMFUL_PER_H and self._shown(name)]
        return {name: harm for harm, name in sorted(acting, reverse=True)}

    def _shown(self, cause: str) -> bool:
        """Return whether a harm was measured; one that nothing measures counts after a loss only, never for want of data."""
        exposure = EXPOSURE_OF.get(cause)
        return self.estimate.harmed if exposure is None else getattr(self.look, exposure) is not None

    def to_json(self) -> dict[str, Any]:
        """Return plain data for the journal, the API and the page."""
        now, causes, best = self.estimate.past[-1], self.causes(), self.next()
        return {
            "version": VERSION,
            "label": LABEL,
            "value": round(now.value, 4),
            "low": round(now.low, 4),
            "high": round(now.high, 4),
            "level": LEVEL,
            "harmed": round(now.harmed, 4),
            "lost": round(self._lost(), 4),
            "stable_h": self.estimate.stable_h(),
            "past": [_ends(each) for each in self.estimate.past[-7 * DAY_H :][::-TREND_STEP_H][::-1]],
            "past_step_h": TREND_STEP_H,
            "causes": {name: round(harm, 5) for name, harm in causes.items()},
            "measured": list(self.known),
            "unmeasured": list(self.unknown),
            "next": None if best is None else best.to_json(),
            "status": self.status(causes),
            "sentences": self.sentences(causes, best),
        }

    def next(self) -> Gain | None:
        """Return the measurement that would narrow the interval most."""
        return best_measurement(self.estimate, self.look)

    def status(self, causes: dict[str, float]) -> str:
        """Return `harmful` while something harms the tissue, `loss` after a certain loss, else `normal`."""
        if causes:
            return "harmful"
        return "loss" if self.estimate.harmed else "normal"

    def sentences(self, causes: dict[str, float], best: Gain | None) -> list[str]:
        """Return what is abnormal, where viability lies and since when, what is not measured, what to measure next."""
        now = self.estimate.past[-1]
        counted = f"({len(self.known)} of {len(MEASURED)})"
        if set(causes) & EXPOSURE_OF.keys():
            first = f"Harmful now: {', '.join(causes)}."
        elif causes:
            first = f"The tissue is losing viability, {self._lost():.0%} so far. No cause is measured."
        elif self.estimate.harmed:
            first = f"The tissue has lost {self._lost():.0%} of its viability. Nothing harmful is measured now."
        else:
            first = f"Nothing abnormal in what is measured {counted}."
        sentences = [first, f"Viability {now.low:.2f}–{now.high:.2f}{self._since()}."]
        if self.unknown:
            sentences.append(f"Not measured: {', '.join(self.unknown)}.")
        if best is not None:
            sentences.append(f"Most informative next: {best.measurement.name} ({best.measurement.cost}).")
        return sentences

    def _since(self) -> str:
        hours = self.estimate.stable_h()
        if len(self.estimate.past) < SETTLED_H:
            return ", the first hours"
        if self.estimate.past[-1].width > TOO_WIDE and hours >= SETTLED_H:
            return ", too little is measured to say more"
        if hours < SETTLED_H:
            before = self.estimate.past[-1 - SETTLED_H].value if len(self.estimate.past) > SETTLED_H else 1.0
            return ", falling" if self.estimate.past[-1].value < before else ", rising"
        return f", stable for {hours // DAY_H} days" if hours >= 2 * DAY_H else f", stable for {hours} hours"

    def _lost(self) -> float:
        particles = self.estimate.particles
        return float(np.sum(self.estimate.shares * (particles[:, Axis.PEAK] - particles[:, Axis.VIABILITY])))


def _ends(each: Range) -> list[float]:
    return [round(each.low, 3), round(each.value, 3), round(each.high, 3)]
