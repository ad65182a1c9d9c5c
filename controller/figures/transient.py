"""kLa from a transient: after a step of the gas mixture, dissolved oxygen approaches its new level exponentially.

The dynamic method: with constant uptake, dC/dt = kLa·(C* - C) - q has the solution C = a + b·exp(-kLa·t), whatever C* and q
are. One step and the oxygen probe alone thus give kLa. A probe whose own response is not much faster makes it look smaller
(Garcia-Ochoa & Gomez 2009, Biotechnol Adv 27:153, section 4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MIN_RATE_H, MAX_RATE_H = 0.2, 120.0
"""Range of the fitted rates (1/h)."""
MIN_READINGS = 20
MIN_EXPLAINED = 0.98
"""Minimum share of the readings' variance that the exponential must explain."""
MIN_TIME_CONSTANTS = 2.0
"""Minimum length of the window in time constants; in a shorter one the final level is a guess."""
_COARSE, _FINE = 60, 40
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


@dataclass(frozen=True, slots=True)
class Approach:
    """An exponential approach: rate (1/h), its standard error (1/h), and the final level."""

    rate_h: float
    sd_h: float
    level: float


def approach(times_s: Sequence[float], readings: Sequence[float]) -> Approach | None:
    """Fit an exponential to (seconds since the step, reading). Return None if there is no clear approach."""
    n = len(readings)
    if n < MIN_READINGS:
        return None
    hours, values = np.asarray(times_s) / 3600.0, np.asarray(readings, dtype=np.float64)
    whole = float(((values - values.mean()) ** 2).sum())
    if whole <= 0:
        return None
    logs = [math.log(MIN_RATE_H) + i * math.log(MAX_RATE_H / MIN_RATE_H) / _COARSE for i in range(_COARSE + 1)]
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
    if 1.0 - rest / whole < MIN_EXPLAINED or rate * float(hours[-1] - hours[0]) < MIN_TIME_CONSTANTS:
        return None
    step = 0.02 * rate
    curve = (_rest(rate + step, hours, values)[0] - 2 * rest + _rest(rate - step, hours, values)[0]) / step**2
    sd = math.sqrt(2.0 * rest / (n - 3) / curve) if curve > 0 else math.inf
    return Approach(rate, sd, level)


def _rest(rate: float, hours: Floats, values: Floats) -> tuple[float, float]:
    """Return the residual sum of squares of a + b·exp(-rate·t) with the best a and b, and that a."""
    fall = np.exp(-rate * hours)
    mean_f, mean_v = float(fall.mean()), float(values.mean())
    off_f, off_v = fall - mean_f, values - mean_v
    square = float(off_f @ off_f)
    b = float(off_f @ off_v) / square if square > 0 else 0.0
    left = off_v - b * off_f
    return float(left @ left), mean_v - b * mean_f
