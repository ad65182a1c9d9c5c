"""Stretches in which no spike could be detected on an electrode, with their cause, in frames of troughs (N8).

The detector counts muted time; a histogram around pulses must know when it was. A stretch begins at the latest with the block
in which the channel was muted, and before it by what the detector had not reported yet; it ends where a trough would be found
again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nerves.detections import ALL, UNOBSERVED
from nerves.detector import SpikeDetector

NOTHING = np.empty(0, UNOBSERVED)


class MuteLog:
    """Follows one detector, block after block."""

    def __init__(self, detector: SpikeDetector, electrodes: int) -> None:
        self._detector = detector
        self._muted = np.zeros(electrodes, np.bool_)
        self._since = np.zeros(electrodes, np.int64)
        self._until = np.full(electrodes, -1, np.int64)
        self._cause = np.zeros(electrodes, np.uint8)

    def take(self, first_frame: int, next_frame: int) -> NDArray[np.void]:
        """Return the stretches that have ended, after the block of these frames was processed."""
        if not self._muted.any() and not self._detector.muted_since(first_frame):
            return NOTHING
        until, cause = self._detector.muted_until()
        changed = until > self._until
        self._since[changed & ~self._muted] = first_frame - self._detector.latency_frames
        self._muted |= changed
        self._until[changed], self._cause[changed] = until[changed], cause[changed]
        ended = self._muted & (self._until <= next_frame - self._detector.latency_frames)
        self._muted &= ~ended
        return self._rows(ended, self._until)

    def open(self, next_frame: int) -> NDArray[np.void]:
        """Return the stretches that have not ended, up to `next_frame`."""
        return self._rows(self._muted, np.full(len(self._since), next_frame))

    def _rows(self, which: NDArray[np.bool_], until: NDArray[np.int64]) -> NDArray[np.void]:
        """Return rows of the channels in `which`; one row if all have the same."""
        (electrodes,) = np.nonzero(which)
        if not len(electrodes):
            return NOTHING
        rows = np.zeros(len(electrodes), UNOBSERVED)
        rows["first_frame"], rows["end_frame"] = self._since[which], until[which]
        rows["electrode"], rows["cause"] = electrodes, self._cause[which]
        first = rows[0]
        same = (rows["first_frame"] == first["first_frame"]) & (rows["end_frame"] == first["end_frame"])
        if len(rows) == len(which) and len(rows) > 1 and (same & (rows["cause"] == first["cause"])).all():
            rows = rows[:1].copy()
            rows["electrode"] = ALL
        return rows
