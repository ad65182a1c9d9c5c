"""Synchrony of electrodes: spike-time tiling, and the share of spikes in network bursts.

The spike-time tiling coefficient (Cutts & Eglen 2014; electrodes.md §5) is independent of the rates: STTC = ½·((PA
− TB)/(1 − PA·TB) + (PB − TA)/(1 − PB·TA)), where PA is the share of A's spikes within ±dt of one of B's and TA the
share of time within ±dt of A's. A network burst is a stretch in which the whole array fires at several times its
own mean rate of the window. Pure; a window is a list of (seconds, electrode), oldest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Spike = tuple[float, int]

DT_S = 0.02
"""Usual values are 10 to 50 ms."""
MIN_SPIKES = 5
"""Minimum number of spikes of an electrode in a window for an estimate of synchrony."""
MAX_ELECTRODES = 16
"""Number of most active electrodes that are used: 120 pairs."""
BIN_S = 0.025
BURST_TIMES = 3.0
BURST_SPIKES = 5
"""A bin belongs to a burst when it holds three times the mean, and at least five spikes [P]."""


@dataclass(frozen=True, slots=True)
class SynchronyWindow:
    """One window: mean STTC over pairs (None with fewer than two active electrodes), spikes, and spikes in bursts."""

    sttc: float | None
    spikes: int
    in_bursts: int


def together(spikes: Sequence[Spike], length_s: float) -> SynchronyWindow:
    """Return the synchrony of one window of `length_s` (s) that ends with the last spike."""
    if not spikes:
        return SynchronyWindow(None, 0, 0)
    times = np.array([at for at, _ in spikes])
    electrodes = np.array([electrode for _, electrode in spikes])
    begin = times[-1] - length_s
    counts = np.bincount(np.maximum((times - begin) / BIN_S, 0.0).astype(int))
    mean = len(times) / max(length_s / BIN_S, 1.0)
    bursts = counts[counts >= max(BURST_TIMES * mean, BURST_SPIKES)]
    numbers, found = np.unique(electrodes, return_counts=True)
    order = np.lexsort((numbers, -found))
    lively = [number for number in numbers[order][:MAX_ELECTRODES] if found[numbers == number][0] >= MIN_SPIKES]
    trains = [times[electrodes == number] for number in lively]
    pairs = [sttc(a, b, begin, begin + length_s, DT_S) for place, a in enumerate(trains) for b in trains[place + 1 :]]
    return SynchronyWindow(float(np.mean(pairs)) if pairs else None, len(times), int(bursts.sum()))


def sttc(a: Array, b: Array, begin_s: float, end_s: float, dt_s: float) -> float:
    """Return the spike-time tiling coefficient of two sorted trains between `begin_s` and `end_s`; −1 to 1."""
    share_a, share_b = _near(a, b, dt_s), _near(b, a, dt_s)
    time_a, time_b = _tiled(a, begin_s, end_s, dt_s), _tiled(b, begin_s, end_s, dt_s)
    return 0.5 * (_term(share_a, time_b) + _term(share_b, time_a))


def _term(share: float, tiled: float) -> float:
    return 1.0 if share * tiled >= 1.0 else (share - tiled) / (1.0 - share * tiled)


def _near(a: Array, b: Array, dt_s: float) -> float:
    """Return the share of `a`'s spikes with one of `b`'s within ±dt."""
    first = np.searchsorted(b, a - dt_s, side="left")
    last = np.searchsorted(b, a + dt_s, side="right")
    return float(np.mean(last > first))


def _tiled(train: Array, begin_s: float, end_s: float, dt_s: float) -> float:
    """Return the share of the time within ±dt of a spike."""
    low, high = np.maximum(train - dt_s, begin_s), np.minimum(train + dt_s, end_s)
    covered = float(np.sum(high - low)) - float(np.sum(np.maximum(high[:-1] - low[1:], 0.0)))
    return min(max(covered / (end_s - begin_s), 0.0), 1.0)
