"""Peri-stimulus time histograms: spikes around pulses by electrode and latency, and for how long each bin was observed.

A bin in which nothing could be detected has no rate. The rate of a bin rests on the trials, and the part of each, in which
spikes could be detected.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nerves.detections import ALL, Spikes

WINDOW_MS = (-50.0, 100.0)
BIN_MS = 1.0
Z95 = 1.959964
MAX_MS = 1e9
MAX_COUNTED = 50_000_000
"""Pulses times bins; they need about 2 GB."""


@dataclass(frozen=True, slots=True)
class Psth:
    """Spikes around pulses. Arrays of shape (electrodes, bins) but for `edges_ms`, the (bins + 1) edges of the latency bins.

    `trials` are the moments at which pulses began, `overlapping` those with another one in their window. `counts` are the
    spikes in observed time, `observed_s` is that time over all trials (s).
    """

    edges_ms: NDArray[np.float64]
    trials: int
    overlapping: int
    counts: NDArray[np.int64]
    observed_s: NDArray[np.float64]

    @property
    def rate_hz(self) -> NDArray[np.float64]:
        """Spikes a second of observed time; NaN where nothing was observed."""
        return _rate(self.counts, self.observed_s)

    @property
    def baseline_hz(self) -> NDArray[np.float64]:
        """Rate of each electrode in the bins before the pulse; NaN where none was observed."""
        return _rate(*self._before())

    @property
    def baseline_interval_hz(self) -> NDArray[np.float64]:
        """The 95 % interval of the baseline, shape (electrodes, 2): Poisson, by Byar's approximation of the exact one."""
        spikes, seconds = self._before()
        low, high = np.maximum(spikes, 1), spikes + 1.0
        low = low * (1.0 - 1.0 / (9.0 * low) - Z95 / (3.0 * np.sqrt(low))) ** 3
        high = high * (1.0 - 1.0 / (9.0 * high) + Z95 / (3.0 * np.sqrt(high))) ** 3
        return np.stack([_rate(np.where(spikes > 0, low, 0.0), seconds), _rate(high, seconds)], axis=1)

    def _before(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        bins = self.edges_ms[1:] <= 0.0
        return self.counts[:, bins].sum(axis=1), self.observed_s[:, bins].sum(axis=1)


def histogram(
    pulses: NDArray[np.int64],
    spikes: Spikes,
    unobserved: NDArray[np.void],
    electrodes: int,
    sample_rate_hz: float,
    window_ms: tuple[float, float] = WINDOW_MS,
    bin_ms: float = BIN_MS,
) -> Psth:
    """Count the spikes around pulses.

    Args:
        pulses: Frames at which pulses began; several of one frame are one trial.
        spikes: All spikes in the windows, in any order.
        unobserved: Stretches without detection, rows of `UNOBSERVED` in any order; they may overlap.
        electrodes: Number of electrodes.
        sample_rate_hz: Frames a second.
        window_ms: Begin and end of the window from the begin of the pulse on.
        bin_ms: Width of a bin; edges are rounded to frames.

    Returns:
        The histogram. Spikes in a stretch without detection are left out: it is not exact at its ends.

    Raises:
        ValueError: The window holds no whole bin, or a bin no frame, or there are too many of them.
    """
    begin, end = window_ms
    trials = np.unique(pulses)
    most = MAX_COUNTED // max(len(trials), 1)
    wanted = (end - begin) / bin_ms + 1e-9 if bin_ms > 0.0 and max(abs(begin), abs(end)) <= MAX_MS else 0.0
    if not wanted <= most:
        raise ValueError(
            f"a window of {begin:g} to {end:g} ms in bins of {bin_ms:g} ms cannot be counted: {wanted:.3g} bins, and with"
            f" {len(trials):,} pulses at most {most:,}; next: choose a shorter window or longer bins"
        )
    bins = int(wanted)
    edges: NDArray[np.int64] = np.zeros(2, np.int64)
    if bins > 0:
        edges = np.rint((begin + bin_ms * np.arange(bins + 1)) * 1e-3 * sample_rate_hz).astype(np.int64)
    if (np.diff(edges) < 1).any():
        raise ValueError(
            f"a window of {begin:g} to {end:g} ms in bins of {bin_ms:g} ms cannot be counted; likely cause: the end is before"
            f" the begin, or a bin is shorter than a frame ({1e3 / sample_rate_hz:g} ms); next: choose a longer window or bin"
        )
    at = trials[:, None] + edges
    counts = np.zeros((electrodes, bins), np.int64)
    observed = np.zeros((electrodes, bins))
    order = np.lexsort((spikes.frames, spikes.electrodes))
    frames, whose = spikes.frames[order], spikes.electrodes[order]
    for electrode in range(electrodes):
        mine = (unobserved["electrode"] == electrode) | (unobserved["electrode"] == ALL)
        first, last = _merged(unobserved[mine])
        train = frames[np.searchsorted(whose, electrode) : np.searchsorted(whose, electrode, "right")]
        inside = np.searchsorted(first, train, "right") - 1
        train = train[(inside < 0) | (train >= last[inside])] if len(first) else train
        counts[electrode] = np.diff(np.searchsorted(train, at), axis=1).sum(axis=0)
        observed[electrode] = (np.diff(edges) - np.diff(_hidden_before(at, first, last), axis=1)).sum(axis=0)
    between = np.diff(trials) < edges[-1] - edges[0]
    overlapping = int((np.append(between, False) | np.insert(between, 0, False)).sum()) if len(trials) else 0
    return Psth(
        (edges * 1e3 / sample_rate_hz).astype(np.float64), len(trials), overlapping, counts, observed / sample_rate_hz
    )


def _merged(rows: NDArray[np.void]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return begins and ends of the union of stretches, ascending."""
    rows = rows[np.argsort(rows["first_frame"], kind="stable")]
    first, reach = rows["first_frame"], np.maximum.accumulate(rows["end_frame"])
    new = np.append(True, first[1:] > reach[:-1])[: len(rows)]
    return first[new], reach[np.append(np.flatnonzero(new)[1:], len(rows))[: int(new.sum())] - 1]


def _hidden_before(frames: NDArray[np.int64], first: NDArray[np.int64], last: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many frames before each of `frames` lie in the stretches, which do not overlap."""
    if not len(first):
        return np.zeros(frames.shape, np.int64)
    before = np.append(0, np.cumsum(last - first))
    which = np.searchsorted(first, frames, "right")
    inside = np.clip(last[which - 1] - frames, 0, None)
    hidden: NDArray[np.int64] = before[which] - np.where(which > 0, inside, 0)
    return hidden


def _rate(spikes: NDArray[np.int64] | NDArray[np.float64], seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    rate: NDArray[np.float64] = np.divide(spikes, seconds, out=np.full(seconds.shape, np.nan), where=seconds > 0.0)
    return rate
