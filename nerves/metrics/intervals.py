"""Variation of the intervals and counts of one spike train.

A train is a sorted array of frames (int64). A figure without enough spikes is NaN. Definitions and results are those of
elephant 1.2 (`elephant.statistics`): cv (Softky and Koch 1993), cv2 (Holt 1996), lv (Shinomoto 2003), lvr (Shinomoto 2009).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from nerves.metrics.compiled import compiled

Train = NDArray[np.int64]


@compiled
def cv(train: Train) -> float:
    """Return the coefficient of variation of the intervals: 0 regular, 1 Poisson, above 1 bursting. Needs two spikes."""
    intervals = len(train) - 1
    if intervals < 1:
        return math.nan
    mean: float = (train[-1] - train[0]) / intervals
    squares = 0.0
    for k in range(intervals):
        squares += (train[k + 1] - train[k] - mean) ** 2
    deviation: float = math.sqrt(squares / intervals)
    return deviation / mean


@compiled
def cv2(train: Train) -> float:
    """Return the mean variation of neighbouring intervals: 1 for Poisson; slow changes of the rate matter little.

    Needs three spikes; NaN if three of them are in the same frame, as all figures of neighbours here.
    """
    pairs = len(train) - 2
    if pairs < 1:
        return math.nan
    total = 0.0
    for k in range(pairs):
        first, second = train[k + 1] - train[k], train[k + 2] - train[k + 1]
        total += abs(second - first) / (first + second)
    return 2.0 * total / pairs


@compiled
def lv(train: Train) -> float:
    """Return the local variation: 1 for Poisson, 0 regular. Needs three spikes."""
    return lvr(train, 0.0)


@compiled
def lvr(train: Train, refractory: float) -> float:
    """Return the local variation, corrected for a refractory period (frames). Needs three spikes."""
    pairs = len(train) - 2
    if pairs < 1:
        return math.nan
    total = 0.0
    for k in range(pairs):
        first, second = train[k + 1] - train[k], train[k + 2] - train[k + 1]
        both = first + second
        total += (1.0 - 4.0 * first * second / both**2) * (1.0 + 4.0 * refractory / both)
    return 3.0 * total / pairs


@compiled
def fano(train: Train, begin: int, end: int, width: int) -> float:
    """Return the Fano factor of the counts in whole bins of `width` frames from `begin` on: 1 for Poisson.

    NaN without a spike in them. A rest before `end` that is shorter than a bin does not count.
    """
    bins = (end - begin) // width
    if bins < 1:
        return math.nan
    counts = np.zeros(bins, np.int64)
    for at in train:
        place = (at - begin) // width
        if 0 <= place < bins:
            counts[place] += 1
    return float(counts.var() / counts.mean())
