"""A first viability score: how well the tissue seems to be, from what a rig measures anyway.

It is a care-quality proxy, **not** evidence of feeling, and its weights are a proposal: none is published (biology.md §4).
Each reading is mapped to 0..1 by a trapezoid whose corners are the edges of the media grades; the score is their
weighted sum, and no more than the worst of the vital ones (oxygen, warmth) allows. What is missing counts as nothing: the
score is what can be vouched for, so missing data lower it and the confidence, and can never raise it. Pure and versioned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

from protocols.grading import Letter

VERSION = "viability-1"
LABEL = "care-quality proxy, not evidence of feeling"


@dataclass(frozen=True, slots=True)
class Vitals:
    """What is known; None is missing."""

    oxygen_pct: float | None = None
    """Dissolved oxygen, % of air saturation."""
    temperature_c: float | None = None
    ph: float | None = None
    ph_spread: float | None = None
    """Highest less lowest pH of the last day."""
    grade: Letter | None = None
    """The latest media grade."""
    firing_ratio: float | None = None
    """Firing rate over the tissue's own baseline."""
    lactate_ratio: float | None = None
    """Lactate making over what that much tissue is expected to make."""


@dataclass(frozen=True, slots=True)
class Corners:
    """A trapezoid: 0 up to `zero_low`, 1 from `one_low` to `one_high`, 0 from `zero_high`."""

    zero_low: float
    one_low: float
    one_high: float
    zero_high: float

    def score(self, value: float) -> float:
        """0..1; NaN scores 0."""
        if not self.zero_low < value < self.zero_high:
            return 1.0 if self.one_low <= value <= self.one_high else 0.0
        if value < self.one_low:
            return (value - self.zero_low) / (self.one_low - self.zero_low)
        if value > self.one_high:
            return (self.zero_high - value) / (self.zero_high - self.one_high)
        return 1.0


CORNERS = {
    "oxygen_pct": Corners(5.0, 60.0, 110.0, 200.0),
    "temperature_c": Corners(33.0, 36.0, 37.8, 39.0),
    "ph": Corners(6.9, 7.25, 7.45, 7.7),
    "ph_spread": Corners(-1.0, 0.0, 0.15, 0.6),
    "firing_ratio": Corners(0.0, 0.6, 1.6, 5.0),
    "lactate_ratio": Corners(0.0, 0.4, 1.8, 4.0),
}
GRADES = {Letter.A: 1.0, Letter.B: 0.8, Letter.C: 0.4, Letter.D: 0.0}
WEIGHTS = {
    "oxygen_pct": 0.20,
    "temperature_c": 0.15,
    "ph": 0.10,
    "ph_spread": 0.05,
    "grade": 0.15,
    "firing_ratio": 0.20,
    "lactate_ratio": 0.15,
}
VITAL = ("oxygen_pct", "temperature_c")


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the score: the reading, what it scores (0..1), its weight."""

    value: float | str | None
    score: float
    weight: float


@dataclass(frozen=True, slots=True)
class Viability:
    """The score (0..1) with everything it is made of; `confidence` is the weight of what is known (0..1)."""

    score: float
    parts: dict[str, Part]
    missing: tuple[str, ...]
    confidence: float
    limiting: str
    version: str = VERSION
    label: str = LABEL

    def to_json(self) -> dict[str, Any]:
        """Plain data for the journal, the API and the page."""
        parts = {
            name: {"value": part.value, "score": part.score, "weight": part.weight} for name, part in self.parts.items()
        }
        return {
            "score": self.score,
            "parts": parts,
            "missing": list(self.missing),
            "confidence": self.confidence,
            "limiting": self.limiting,
            "version": self.version,
            "label": self.label,
        }


def viability(vitals: Vitals) -> Viability:
    """Score what is known."""
    parts: dict[str, Part] = {}
    missing: list[str] = []
    for field in fields(Vitals):
        name, value = field.name, getattr(vitals, field.name)
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            missing.append(name)
            parts[name] = Part(None, 0.0, WEIGHTS[name])
        elif isinstance(value, Letter):
            parts[name] = Part(value.value, GRADES[value], WEIGHTS[name])
        else:
            parts[name] = Part(value, CORNERS[name].score(value), WEIGHTS[name])
    total = sum(part.weight * part.score for part in parts.values())
    ceiling = min(parts[name].score for name in VITAL)
    limiting = min(parts, key=lambda name: (parts[name].score - 1.0) * parts[name].weight)
    return Viability(
        score=round(min(total, ceiling), 6),
        parts=parts,
        missing=tuple(missing),
        confidence=round(sum(parts[name].weight for name in parts if name not in missing), 6),
        limiting=limiting if parts[limiting].score < 1.0 else "none",
    )
