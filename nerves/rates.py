"""Firing rates over the last seconds, corrected for the time in which no spike could be observed (N8)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nerves.detections import Spikes

WINDOW_S = 20
ACTIVE_HZ = 5 / 60
"""An electrode is active from five spikes a minute on (a common convention)."""

MIN_OBSERVED = 0.25
"""Share of the window in which spikes could be detected on an electrode, below which its rate is not known."""


class FiringRates:
    """Counts spikes and observed time by second of the array's clock. Not thread-safe."""

    def __init__(self, electrodes: int, sample_rate_hz: float) -> None:
        self._rate = sample_rate_hz
        self._second: int | None = None
        self._spikes = np.zeros((WINDOW_S, electrodes), np.int64)
        self._observed = np.zeros((WINDOW_S, electrodes), np.int64)
        self._frames = np.zeros(WINDOW_S, np.int64)
        self.total = np.zeros(electrodes, np.int64)
        """Spikes since the start, by electrode."""

    def add(self, first_frame: int, frames: int, spikes: Spikes, unobserved: NDArray[np.int64] | None) -> None:
        """Count one block: its spikes, its frames, and in how many of them nothing could be detected on each electrode."""
        second = int(first_frame / self._rate)
        if second != self._second:
            passed = WINDOW_S if self._second is None else min(second - self._second, WINDOW_S)
            for k in range(passed):
                self._spikes[(second - k) % WINDOW_S] = 0
                self._observed[(second - k) % WINDOW_S] = 0
                self._frames[(second - k) % WINDOW_S] = 0
            self._second = second
        row = second % WINDOW_S
        self._frames[row] += frames
        self._observed[row] += frames
        if unobserved is not None:
            self._observed[row] -= unobserved
        if len(spikes):
            counts = np.bincount(spikes.electrodes, minlength=self._spikes.shape[1])
            self._spikes[row] += counts
            self.total += counts

    def observed(self) -> NDArray[np.bool_]:
        """Return which electrodes were observed for long enough that their rates say something; in the first second, all."""
        if self._frames.sum() < self._rate:
            return np.ones(self._observed.shape[1], np.bool_)
        enough: NDArray[np.bool_] = self._observed.sum(axis=0) >= max(MIN_OBSERVED * self._frames.sum(), 1)
        return enough

    def rates_hz(self) -> NDArray[np.float64]:
        """Return spikes per second of observed time, by electrode; 0 for an electrode that was never observed."""
        observed_s = self._observed.sum(axis=0) / self._rate
        spikes = self._spikes.sum(axis=0)
        rates: NDArray[np.float64] = np.divide(spikes, observed_s, out=np.zeros(len(spikes)), where=observed_s > 0)
        return rates
