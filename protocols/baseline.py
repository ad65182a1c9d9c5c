"""An organoid's own baseline: its usual recent signal, robust against outliers and against slow deterioration.

One value per hour, the median of that hour. The norm is the median of the last :data:`WINDOW_H` accepted hours, its
spread 1.4826·MAD (both tolerate nearly half of the hours being bad). Three rules keep a slow death from becoming
the norm:

* an hour with a disturbance (an alarm, a fault, a shut gate) is not accepted;
* nor is an hour below half of the norm: a fall by half is an alarm of its own (electrodes.md §5), not a new norm;
* the norm may fall by at most :data:`FALL_PER_D` per day. Activity declines with age over weeks (FinalSpark:
"activity declines with age"); a faster fall than 2 % a day shows as a ratio below 1 that keeps falling. The rate is
proposed [P]. The norm may rise freely: tissue grows.

Pure. Hours are whole hours since 1970 in UTC, so that a baseline is the same after a restart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import median

WINDOW_H = 7 * 24
WARM_UP_H = 6
"""Minimum number of hours of a norm (bursts in the first hours on an array are usual: FinalSpark) [P]."""
FALL_PER_D = 0.02
ODD_SHARE = 0.5
"""An hour below this share of the norm is not accepted."""
MAD_TO_SD = 1.4826
SMALLEST = 1e-9
"""A signal below this (in its unit) is not there: it gives no norm."""
MIN_SPREAD = 0.22
"""Minimum spread of the logarithm: a constant signal must not make a change of 1 % remarkable. 0.22 is 25 % [P]."""

MAX_SPREAD = 100.0
"""Maximum of it: a signal that scatters more has no usual level."""


@dataclass(frozen=True, slots=True)
class Norm:
    """The usual level: `value` in the signal's unit, `spread` of its natural logarithm, from `hours` hours."""

    value: float
    spread: float
    hours: int

    def ratio(self, value: float) -> float:
        """Return `value` relative to the norm."""
        return value / self.value

    def z(self, value: float) -> float:
        """Return the distance of the logarithm of `value` from the norm, in spreads; −inf for 0."""
        share = value / self.value
        return math.log(share) / self.spread if share > 0.0 else -math.inf


@dataclass(frozen=True, slots=True)
class Baseline:
    """One signal's hours, (hour, value), oldest first, and the lowest allowed norm (`anchor`, as of its hour)."""

    hours: tuple[tuple[int, float], ...] = ()
    anchor: tuple[int, float] | None = None

    def norm(self, hour: int) -> Norm | None:
        """Return the norm as of `hour`; None during warm-up, or for a signal that has always been 0."""
        if len(self.hours) < WARM_UP_H:
            return None
        values = [value for _, value in self.hours]
        middle = median(values)
        allowed = self._allowed(hour)
        value = max(middle, allowed)
        if value < SMALLEST:
            return None
        off = median(abs(each - middle) for each in values)
        spread = min(max(MAD_TO_SD * off / middle, MIN_SPREAD), MAX_SPREAD) if middle >= SMALLEST else MIN_SPREAD
        return Norm(value, spread, len(values))

    def taken(self, hour: int, value: float, why_not: str = "") -> tuple[Baseline, str]:
        """Return the baseline with one more hour, and why the hour was left out (empty if it was not)."""
        norm = self.norm(hour)
        if why_not:
            return self, why_not
        if norm is not None and value < ODD_SHARE * norm.value:
            return self, f"under {ODD_SHARE:.0%} of the norm"
        hours = (*self.hours, (hour, value))[-WINDOW_H:]
        grown = replace(self, hours=hours)
        after = grown.norm(hour)
        return (grown if after is None else replace(grown, anchor=(hour, after.value))), ""

    def _allowed(self, hour: int) -> float:
        if self.anchor is None:
            return 0.0
        since, value = self.anchor
        return float(value * (1.0 - FALL_PER_D) ** (max(hour - since, 0) / 24.0))
