"""The spikes of the last minute, taken in as they come; for one thread."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from nerves.detections import Spikes
from nerves.metrics.figures import SpikeWindow, measure
from nerves.metrics.terms import ArrayMetrics, ElectrodeMetrics

WINDOW_S = 60.0
MIN_WINDOW_S = 20.0
"""A shorter window gives no figures."""
MAX_SPIKES = 4_000_000
"""Maximum number of spikes in the window, 65 Hz each at 1,024 electrodes; with more the window gets shorter."""


class RollingSpikes:
    """Keeps the spikes of a window and cuts it at losses: a figure never spans time that was not seen."""

    def __init__(self, electrodes: int, sample_rate_hz: float) -> None:
        self._electrodes = electrodes
        self._rate = sample_rate_hz
        self._chunks: deque[tuple[int, Spikes, int]] = deque()
        """End frame, spikes and pulses of each piece of the window, oldest first."""
        self._begin: int | None = None
        self._end = 0
        self._kept = 0

    @property
    def seconds(self) -> float:
        """Length of the window."""
        return 0.0 if self._begin is None else (self._end - self._begin) / self._rate

    def begin(self, frame: int) -> None:
        """Begin a new, empty window: spikes before `frame` were lost, or there were none."""
        self._chunks.clear()
        self._begin = self._end = frame
        self._kept = 0

    def add(self, spikes: Spikes, end: int, pulses: int = 0) -> None:
        """Add the spikes and the number of pulses of the frames from the end of the window up to `end`."""
        if self._begin is None:
            self.begin(int(spikes.frames[0]) if len(spikes) else end)
        self._chunks.append((end, spikes, pulses))
        self._end = end
        self._kept += len(spikes)
        while self._chunks and (
            self._chunks[0][0] <= self._end - round(WINDOW_S * self._rate) or self._kept > MAX_SPIKES
        ):
            self._begin, gone, _ = self._chunks.popleft()
            self._kept -= len(gone)

    @property
    def sufficient(self) -> bool:
        """Whether the window is long enough for figures."""
        return self.seconds >= MIN_WINDOW_S

    @property
    def end(self) -> int:
        """Frame up to which spikes are known."""
        return self._end

    def measure(self, observed: NDArray[np.bool_]) -> tuple[ArrayMetrics, ElectrodeMetrics] | None:
        """Return the figures of the window; None while it is too short."""
        if not self.sufficient:
            return None
        pulses = sum(each for _, _, each in self._chunks)
        return measure(self.window(), self._rate, observed, pulses)

    def window(self) -> SpikeWindow:
        """Return the spikes of the window by electrode."""
        chunks = [spikes for _, spikes, _ in self._chunks]
        frames, electrodes, uv = (
            np.concatenate([getattr(each, name) for each in chunks] or [np.empty(0, kind)])
            for name, kind in (("frames", np.int64), ("electrodes", np.int32), ("uv", np.float32))
        )
        inside = (frames >= (self._begin or 0)) & (frames < self._end)
        return SpikeWindow.of(
            self._begin or 0, self._end, frames[inside], electrodes[inside], uv[inside], self._electrodes
        )
