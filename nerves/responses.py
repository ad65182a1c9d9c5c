"""The latest pulses and the stretches without detection, and from them the response of one electrode.

The real-time thread adds; any other thread may ask. Only what is known whole is counted: pulses for which all spikes and all
stretches of their window are still kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from nerves.detections import ALL, UNOBSERVED, Spikes, StimulatedFrame
from nerves.psth import Psth, histogram
from nerves.ring import SpikeRing

MAX_PULSES, MAX_STRETCHES, MAX_SPIKES = 4096, 4096, 1 << 20


class LatestResponses:
    """Keeps pulses and stretches for minutes, and counts the spikes of the ring around the pulses."""

    def __init__(
        self, spikes: SpikeRing, sample_rate_hz: float, latency_frames: int, hidden_now: Callable[[], NDArray[np.void]]
    ) -> None:
        """`hidden_now` returns the stretches that have not ended."""
        self._spikes, self._rate, self._latency, self._hidden_now = spikes, sample_rate_hz, latency_frames, hidden_now
        self._pulses: deque[tuple[int, tuple[int, ...]]] = deque(maxlen=MAX_PULSES)
        self._stretches: deque[tuple[int, NDArray[np.void]]] = deque(maxlen=MAX_STRETCHES)

    def add(self, pulses: Sequence[StimulatedFrame], unobserved: NDArray[np.void], next_frame: int) -> None:
        """Take in what a block brought."""
        self._pulses.extend((each.frame, tuple(electrode for electrode, _ in each.pulses)) for each in pulses)
        if len(unobserved):
            self._stretches.append((next_frame, unobserved))

    def add_gap(self, first_frame: int, end_frame: int) -> None:
        """Take in that frames were lost."""
        row = np.array([(first_frame - self._latency, end_frame, ALL, 0)], UNOBSERVED)
        self._stretches.append((end_frame, row))

    def of(
        self,
        electrode: int,
        stimulated: Collection[int],
        seconds: float,
        next_frame: int,
        window_ms: tuple[float, float],
        bin_ms: float,
    ) -> tuple[Psth, int]:
        """Count the spikes of one electrode around pulses.

        Args:
            electrode: Whose spikes are counted.
            stimulated: Only pulses of these electrodes; none means all.
            seconds: How far back.
            next_frame: The frame that comes next.
            window_ms: Begin and end of the window from the begin of a pulse on.
            bin_ms: Width of a latency bin.

        Returns:
            The histogram, with one electrode, and the frame from which on pulses are counted.

        Raises:
            ValueError: Window and bin do not fit.
        """
        stretches, pulses = tuple(self._stretches), tuple(self._pulses)
        before, after = (round(ms * 1e-3 * self._rate) for ms in window_ms)
        known = stretches[0][0] if len(stretches) == MAX_STRETCHES else 0
        number, kept_from = self._spikes.find(max(next_frame - round(seconds * self._rate), known, 0))
        since = max(next_frame - round(seconds * self._rate), known, kept_from) - min(before, 0)
        if len(pulses) == MAX_PULSES:  # earlier ones are not kept
            since = max(since, pulses[0][0])
        lost, spikes, _ = self._spikes.read(number, MAX_SPIKES)
        if lost:  # while this thread waited
            since = max(since, int(spikes.frames[0]) + 1 - min(before, 0))
        chosen = np.array(
            [
                frame
                for frame, electrodes in pulses
                if since <= frame <= next_frame - self._latency - after
                and (not stimulated or not set(electrodes).isdisjoint(stimulated))
            ],
            np.int64,
        )
        hidden = np.concatenate([np.empty(0, UNOBSERVED), *(rows for _, rows in stretches), self._hidden_now()])
        hidden = hidden[(hidden["electrode"] == electrode) | (hidden["electrode"] == ALL)]
        hidden["electrode"] = 0
        mine = spikes.electrodes == electrode
        train = Spikes(spikes.frames[mine], np.zeros(int(mine.sum()), np.int32), spikes.uv[mine])
        return histogram(chosen, train, hidden, 1, self._rate, window_ms, bin_ms), since
