"""An organoid's own baseline: what has been usual for it of late, robustly, and not what an illness made usual.

One value an hour, the median of that hour; the norm is the median of the last :data:`WINDOW_H` hours that were taken in, its
spread 1.4826·MAD (both shrug off a bad hour in two). Three things keep a slow death from becoming the norm:

* an hour in which something was wrong (an alarm, a fault, a shut gate) is not taken in at all;
* nor is an hour under half of the norm: a fall by half is an alarm of its own (electrodes.md §5), not a new habit;
* the norm may follow downwards by :data:`FALL_PER_D` a day only. Activity declines with age (FinalSpark: "activity declines
  with age"), over weeks; what falls faster than 2 % a day shows as a ratio below 1 that keeps falling. The rate is proposed
  [P]. Upwards the norm follows freely: tissue grows.

Pure. Hours are whole hours since 1970 by UTC, so that a baseline means the same after a restart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import median

WINDOW_H = 7 * 24
WARM_UP_H = 6
"""Before so many hours there is no norm (bursts for the first hours on an array are usual: FinalSpark) [P]."""
FALL_PER_D = 0.02
ODD_SHARE = 0.5
"""An hour under this share of the norm is not taken in."""
MAD_TO_SD = 1.4826
LEAST_SPREAD = 0.22
"""Of the logarithm: a probe that never varies must not make a change of 1 % remarkable. 0.22 is 25 % [P]."""


@dataclass(frozen=True, slots=True)
class Norm:
    """What is usual: `value` in the signal's unit, `spread` of its natural logarithm, from `hours` hours."""

    value: float
    spread: float
    hours: int

    def ratio(self, value: float) -> float:
        """Return `value` in terms of the norm."""
        return value / self.value

    def z(self, value: float) -> float:
        """Return how many spreads the logarithm of `value` lies above the norm; −inf for 0."""
        return math.log(value / self.value) / self.spread if value > 0.0 else -math.inf


@dataclass(frozen=True, slots=True)
class Baseline:
    """One signal's hours, (hour, value) oldest first, and the lowest norm that is allowed (`anchor`, as of its
    hour).
    """

    hours: tuple[tuple[int, float], ...] = ()
    anchor: tuple[int, float] | None = None

    def norm(self, hour: int) -> Norm | None:
        """Return the norm as of `hour`; None while warming up, or for a signal that has always been 0."""
        if len(self.hours) < WARM_UP_H:
            return None
        values = [value for _, value in self.hours]
        middle = median(values)
        allowed = self._allowed(hour)
        value = max(middle, allowed)
        if value <= 0.0:
            return None
        off = median(abs(each - middle) for each in values)
        spread = max(MAD_TO_SD * off / middle, LEAST_SPREAD) if middle > 0.0 else LEAST_SPREAD
        return Norm(value, spread, len(values))

    def taken(self, hour: int, value: float, why_not: str = "") -> tuple[Baseline, str]:
        """With one more hour; returns why the hour was left out, empty when it was not."""
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
