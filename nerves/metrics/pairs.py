"""Figures of two spike trains: spike time tiling coefficient and cross-correlation histogram.

Trains are sorted arrays of frames. Definitions and results are those of elephant 1.2 (`elephant.spike_train_correlation`).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from nerves.metrics.compiled import compiled
from nerves.metrics.intervals import Train


@compiled
def _near(train: Train, other: Train, within: float) -> float:
    """Return the share of the spikes of `train` that lie within ±`within` of one of `other`."""
    found, k = 0, 0
    for at in train:
        while k < len(other) and other[k] < at - within:
            k += 1
        if k < len(other) and other[k] <= at + within:
            found += 1
    return found / len(train)


@compiled
def tiled(train: Train, begin: int, end: int, within: float) -> float:
    """Return the share of the time from `begin` to `end` that lies within ±`within` of a spike of a train that has any."""
    covered: float = min(train[0] - begin, within) + min(end - train[-1], within)
    for k in range(len(train) - 1):
        covered += min(train[k + 1] - train[k], 2.0 * within)
    return covered / (end - begin)


@compiled
def _half(near: float, time: float) -> float:
    return 1.0 if near * time == 1.0 else (near - time) / (1.0 - near * time)


@compiled
def sttc(first: Train, second: Train, begin: int, end: int, within: float) -> float:
    """Return the spike time tiling coefficient (Cutts and Eglen 2014), −1 to 1; independent of the rates.

    ½·((PA − TB)/(1 − PA·TB) + (PB − TA)/(1 − PB·TA)): PA is the share of A's spikes within ±`within` frames of one of B's,
    TA the share of the time within ±`within` of A's. NaN if a train is empty.
    """
    if len(first) == 0 or len(second) == 0:
        return math.nan
    time_first, time_second = tiled(first, begin, end, within), tiled(second, begin, end, within)
    near_first, near_second = _near(first, second, within), _near(second, first, within)
    return 0.5 * _half(near_first, time_second) + 0.5 * _half(near_second, time_first)


@compiled
def mean_sttc(
    frames: Train, offsets: Train, chosen: NDArray[np.int64], begin: int, end: int, within: float
) -> tuple[float, float]:
    """Return the mean STTC over all pairs of the `chosen` trains, and its standard deviation over pairs; NaN without a pair.

    Train `k` is `frames[offsets[k]:offsets[k + 1]]`, and none of the chosen ones is empty.
    """
    pairs, total, squares = 0, 0.0, 0.0
    times = np.empty(len(chosen))
    for k in range(len(chosen)):
        times[k] = tiled(frames[offsets[chosen[k]] : offsets[chosen[k] + 1]], begin, end, within)
    for i in range(len(chosen)):
        first = frames[offsets[chosen[i]] : offsets[chosen[i] + 1]]
        for j in range(i + 1, len(chosen)):
            second = frames[offsets[chosen[j]] : offsets[chosen[j] + 1]]
            halves = _half(_near(first, second, within), times[j]) + _half(_near(second, first, within), times[i])
            total += 0.5 * halves
            squares += (0.5 * halves) ** 2
            pairs += 1
    if pairs == 0:
        return math.nan, math.nan
    mean = total / pairs
    return mean, math.sqrt(max(squares / pairs - mean**2, 0.0))


@compiled
def cross_correlogram(
    reference: Train, target: Train, begin: int, end: int, width: int, max_lag: int
) -> NDArray[np.int64]:
    """Return the cross-correlation histogram of two binned trains.

    Args:
        reference: The train whose spikes are at lag 0.
        target: The train that is counted around them; both lie between `begin` and `end`.
        begin: First frame of the first bin.
        end: End of the observation; spikes in a rest that is shorter than a bin do not count.
        width: Length of a bin (frames).
        max_lag: Longest lag (bins) to either side.

    Returns:
        Number of pairs of spikes by lag, from −`max_lag` to `max_lag`: a positive lag means that the target fires later.
    """
    counts = np.zeros(2 * max_lag + 1, np.int64)
    bins = (end - begin) // width
    first = 0
    for at in reference:
        place = (at - begin) // width
        if place < 0 or place >= bins:
            continue
        while first < len(target) and (target[first] - begin) // width < place - max_lag:
            first += 1
        k = first
        while k < len(target):
            other = (target[k] - begin) // width
            if other > place + max_lag or other >= bins:
                break
            if other >= 0:
                counts[other - place + max_lag] += 1
            k += 1
    return counts
