"""kLa from a transient: after a step of the gas mixture, dissolved oxygen approaches its new level exponentially.

The dynamic method: with an uptake that stays as it is, dC/dt = kLa·(C* - C) - q has the solution C = a + b·exp(-kLa·t),
whatever C* and q are. So one step, and nothing but the oxygen probe, tells kLa; a probe whose own response is not much
faster than that makes it look smaller (Garcia-Ochoa & Gomez 2009, Biotechnol Adv 27:153, section 4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SLOWEST_H, FASTEST_H = 0.2, 120.0
"""Range of rates that are looked for (1/h)."""
LEAST_READINGS = 20
LEAST_SHARE = 0.98
"""Of the readings' variance that the exponential must explain."""
LEAST_TIMES = 2.0
"""The window must hold so many time constants, or the end of the approach is a guess."""
_COARSE, _FINE = 60, 40
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


@dataclass(frozen=True, slots=True)
class Approach:
    """An exponential approach: rate (1/h), its standard error, and the level it goes to."""

    rate_h: float
    sd_h: float
    level: float


def approach(times_s: Sequence[float], readings: Sequence[float]) -> Approach | None:
    """The best exponential through (seconds since the step, reading); None where there is no such thing to be seen."""
    n = len(readings)
    if n < LEAST_READINGS:
        return None
    hours, values = np.asarray(times_s) / 3600.0, np.asarray(readings, dtype=np.float64)
    whole = float(((values - values.mean()) ** 2).sum())
    if whole <= 0:
        return None
    logs = [math.log(SLOWEST_H) + i * math.log(FASTEST_H / SLOWEST_H) / _COARSE for i in range(_COARSE + 1)]
    best = min(range(len(logs)), key=lambda i: _rest(math.exp(logs[i]), hours, values)[0])
    if best in (0, _COARSE):
        return None
    low, high = logs[best - 1], logs[best + 1]
    for _ in range(_FINE):
        a, b = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        if _rest(math.exp(a), hours, values)[0] < _rest(math.exp(b), hours, values)[0]:
            high = b
        else:
            low = a
    rate = math.exp((low + high) / 2)
    rest, level = _rest(rate, hours, values)
    if 1.0 - rest / whole < LEAST_SHARE or rate * float(hours[-1] - hours[0]) < LEAST_TIMES:
        return None
    step = 0.02 * rate
    curve = (_rest(rate + step, hours, values)[0] - 2 * rest + _rest(rate - step, hours, values)[0]) / step**2
    sd = math.sqrt(2.0 * rest / (n - 3) / curve) if curve > 0 else math.inf
    return Approach(rate, sd, level)


def _rest(rate: float, hours: Floats, values: Floats) -> tuple[float, float]:
    """Sum of squares that a + b·exp(-rate·t) leaves with the best a and b, and that a."""
    fall = np.exp(-rate * hours)
    mean_f, mean_v = float(fall.mean()), float(values.mean())
    off_f, off_v = fall - mean_f, values - mean_v
    square = float(off_f @ off_f)
    b = float(off_f @ off_v) / square if square > 0 else 0.0
    left = off_v - b * off_f
    return float(left @ left), mean_v - b * mean_f
