"""Welfare: how the organoid is treated (biology.md §4). A care-quality proxy, **not** evidence of feeling.

W = Π sᵢ^wᵢ: stability of temperature, pH and osmolality (0.35, split evenly), stimulation load (0.25), undisturbed
rest (0.20), activity within the organoid's own baseline band (0.20; seizure-like hypersynchrony counts as failed).
Weights and corners are a proposal [P]. The success of a task is no input: care never depends on it. Pure and
versioned; :mod:`protocols.scoring` defines how missing readings count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from protocols.interval import Interval
from protocols.scoring import FLOOR, Corners, Score, ScorePart, combined, part

VERSION = "welfare-1"
LABEL = "care-quality proxy, not evidence of feeling"

STEADINESS = 0.35
WEIGHTS = {
    "temperature_spread_c": STEADINESS / 3,
    "ph_spread": STEADINESS / 3,
    "osmolality_spread_pct": STEADINESS / 3,
    "stimulation_load": 0.25,
    "rest_h": 0.20,
    "own_band": 0.20,
}
CORNERS = {
    "temperature_spread_c": Corners(-1.0, 0.0, 0.8, 4.0),
    "ph_spread": Corners(-1.0, 0.0, 0.20, 0.6),
    "osmolality_spread_pct": Corners(-1.0, 0.0, 3.0, 12.0),
    "stimulation_load": Corners(-1.0, 0.0, 0.5, 1.5),
    "rest_h": Corners(0.0, 8.0, 24.0, 48.0),
    "own_band": Corners(-3.15, -1.5, 1.5, 3.15),
}
"""A spread is the highest less the lowest value of 24 h.

`temperature`: skin ±0.2 °C and the noise of a probe (biology.md §6). `ph`, `osmolality`: width of grade A (biology.md §3.2).
`stimulation_load`: the fullest stimulation budget, 1 at its limit. `rest_h`: hours of the last 24 without a pulse, 8 is the
minimum (biology.md §4). `own_band`: log of the firing rate in standard deviations of the own baseline.
"""


@dataclass(frozen=True, slots=True)
class Treatment:
    """Known inputs; None is missing. Units as in the names and :data:`CORNERS`."""

    temperature_spread_c: Interval | None = None
    ph_spread: Interval | None = None
    osmolality_spread_pct: Interval | None = None
    stimulation_load: Interval | None = None
    rest_h: Interval | None = None
    own_band: Interval | None = None
    seizure_like: bool = False
    """A recorded finding, not a reading."""

    def to_json(self) -> dict[str, Any]:
        """Return plain data that :meth:`from_json` reads."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value.to_json() if isinstance(value, Interval) else value for name, value in values.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return what :meth:`to_json` wrote."""
        read: dict[str, Any] = {n: Interval.from_json(v) if isinstance(v, Mapping) else v for n, v in data.items()}
        return cls(**read)


def welfare(
    treatment: Treatment,
    *,
    weights: Mapping[str, float] = WEIGHTS,
    corners: Mapping[str, Corners] = CORNERS,
) -> Score:
    """Return the score of what is known. `weights` (which must sum to 1) and `corners` are for sensitivity
    analysis.
    """
    parts = []
    for name, weight in weights.items():
        made = part(name, weight, corners[name], getattr(treatment, name))
        if name == "own_band" and treatment.seizure_like:
            made = ScorePart(name, weight, FLOOR, FLOOR, FLOOR, FLOOR, 1.0, "seizure-like", "most spikes are in bursts")
        parts.append(made)
    return combined(tuple(parts), version=VERSION, label=LABEL)
