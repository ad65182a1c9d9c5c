"""How readings become one score: parts from 0 to 1, weights, gates, coverage, an interval.

The form is biology.md §4's: score = G · Π sᵢ^wᵢ with Σwᵢ = 1. A trapezoid maps each reading to s; its interval becomes an
interval of s. A part whose reading fails counts :data:`FLOOR`, never 0: with a plain product one missing assay would make
every score 0 and every interval 0 to 1, which says nothing. A part that is missing counts as if it failed in the score
and in the low end, and as if it were perfect in the high end. So for any inputs, taking one away

* never raises the score (a missing part counts no more than a failed one),
* never narrows the interval (FLOOR to 1 holds whatever the reading could have said),
* never raises the coverage.

`of_known` is the same product over what is known alone. It is shown next to the score and is not the score: it rises when a
bad reading goes missing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from protocols.interval import Interval

FLOOR = 0.1
"""What a failed or missing part counts [P]."""


@dataclass(frozen=True, slots=True)
class Corners:
    """A trapezoid: 0 up to `zero_low`, 1 from `one_low` to `one_high`, 0 from `zero_high` (in the reading's unit)."""

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

    def range(self, interval: Interval) -> tuple[float, float, float]:
        """Return the lowest, best-guess and highest score over an interval. The scores at its ends suffice: a trapezoid
        has one plateau.
        """
        low, value, high = self.score(interval.low), self.score(interval.value), self.score(interval.high)
        spans_plateau = interval.low <= self.one_high and interval.high >= self.one_low
        return min(low, high, value), value, 1.0 if spans_plateau else max(low, high, value)


@dataclass(frozen=True, slots=True)
class ScorePart:
    """One part of a score.

    `score` (with missing things at their worst) lies between `low` and `high`, all FLOOR..1; `known` is what is known
    by itself; `coverage` (0..1) is how much of the part is known; `value` is the reading, for people.
    """

    name: str
    weight: float
    score: float
    low: float
    high: float
    known: float
    coverage: float
    value: float | str | None
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "value": self.value,
            "score": round(self.score, 6),
            "low": round(self.low, 6),
            "high": round(self.high, 6),
            "known": round(self.known, 6),
            "weight": self.weight,
            "coverage": round(self.coverage, 6),
            "note": self.note,
        }


def part(name: str, weight: float, corners: Corners, reading: Interval | None, note: str = "") -> ScorePart:
    """Return a part from a reading; None, or a reading that is no finite number, is missing."""
    if reading is None or not reading.finite:
        return missing(name, weight, note)
    low, score, high = (max(FLOOR, s) for s in corners.range(reading))
    return ScorePart(name, weight, score, low, high, score, 1.0, round(reading.value, 6), note)


def missing(name: str, weight: float, note: str = "") -> ScorePart:
    """Return a part of which nothing is known."""
    return ScorePart(name, weight, FLOOR, FLOOR, 1.0, 1.0, 0.0, None, note)


@dataclass(frozen=True, slots=True)
class Veto:
    """A veto: shut makes the score 0. `is_open` None means not known, which shuts the score and not its high end."""

    name: str
    is_open: bool | None
    surely: bool
    """Open at both ends of the interval of what it looks at."""
    possibly: bool
    """Open at one end of it at least."""
    text: str

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"open": self.is_open, "text": self.text}


def gate(name: str, reading: Interval | None, low: float, high: float, unit: str) -> Veto:
    """Open while the reading lies between `low` and `high`, ends included."""
    within = f"{low:g} to {high:g} {unit}" if math.isfinite(low) else f"up to {high:g} {unit}"
    if reading is None or not math.isfinite(reading.value):
        return Veto(name, None, surely=False, possibly=True, text=f"not known; must be {within}")
    is_open = low <= reading.value <= high
    surely = low <= reading.low and reading.high <= high
    possibly = reading.low <= high and reading.high >= low
    return Veto(name, is_open, surely=surely, possibly=possibly, text=f"{reading.value:.4g} {unit}; must be {within}")


@dataclass(frozen=True, slots=True)
class Score:
    """A score (0..1) with everything it is made of. `coverage` is the weight of what is known."""

    score: float
    low: float
    high: float
    coverage: float
    of_known: float | None
    parts: Mapping[str, ScorePart]
    gates: Mapping[str, Veto]
    limiting: str
    version: str
    label: str

    @property
    def missing(self) -> tuple[str, ...]:
        """The parts of which nothing is known."""
        return tuple(name for name, each in self.parts.items() if each.coverage == 0.0)

    def to_json(self) -> dict[str, Any]:
        """Plain data for the journal, the API and the page."""
        return {
            "score": self.score,
            "low": self.low,
            "high": self.high,
            "coverage": self.coverage,
            "of_known": self.of_known,
            "parts": {name: each.to_json() for name, each in self.parts.items()},
            "gates": {name: each.to_json() for name, each in self.gates.items()},
            "missing": list(self.missing),
            "limiting": self.limiting,
            "version": self.version,
            "label": self.label,
        }


def combined(parts: tuple[ScorePart, ...], gates: tuple[Veto, ...] = (), *, version: str, label: str) -> Score:
    """G · Π sᵢ^wᵢ of `parts`, whose weights sum to 1."""
    score = low = high = 1.0
    coverage = known = 0.0
    for each in parts:
        score *= each.score**each.weight
        low *= each.low**each.weight
        high *= each.high**each.weight
        coverage += each.weight * each.coverage
        known += each.weight * each.coverage * math.log(each.known)
    for veto in gates:
        score = score if veto.is_open else 0.0
        low = low if veto.surely else 0.0
        high = high if veto.possibly else 0.0
    return Score(
        score=round(score, 6),
        low=round(min(low, score), 6),
        high=round(max(high, score), 6),
        coverage=round(coverage, 6),
        of_known=round(math.exp(known / coverage), 6) if coverage > 0.0 else None,
        parts={each.name: each for each in parts},
        gates={veto.name: veto for veto in gates},
        limiting=_limiting(parts, gates),
        version=version,
        label=label,
    )


def unknown(reason: str, *, version: str, label: str) -> Score:
    """Return a score of which nothing is known because it cannot be computed."""
    veto = Veto("computation", None, surely=False, possibly=True, text=f"not known: {reason}")
    return combined((), (veto,), version=version, label=label)


def _limiting(parts: tuple[ScorePart, ...], gates: tuple[Veto, ...]) -> str:
    """Return the shut gate, else the part that costs most."""
    for veto in gates:
        if not veto.is_open:
            return veto.name
    worst = min(parts, key=lambda each: each.weight * math.log(each.score))
    return worst.name if worst.score < 1.0 else "none"
