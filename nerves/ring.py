"""The last seconds of frames and spikes, indexed by the array's own clock, for one writer and any number of
readers.

The real-time thread writes and never waits. A reader holds a position and nothing else, so one that is slow
costs no memory: what has been overwritten before it came is reported to it as a gap, and to no one else
(N6). Frames that the hardware lost are gaps for everyone (N5).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal

import numpy as np

from nerves.cards.contract import Frames
from nerves.detections import Spikes

MAX_GAPS = 1024


@dataclass(frozen=True, slots=True)
class Gap:
    """Frames from `first_frame` up to (not including) `end_frame` that the reader will not get, and who
    lost them.
    """

    first_frame: int
    end_frame: int
    cause: Literal["array", "reader"]


@dataclass(frozen=True, slots=True)
class FrameSpan:
    """Consecutive frames from `first_frame` on; a copy that the reader may keep."""

    first_frame: int
    samples: Frames


class FrameRing:
    """Frame-indexed ring buffer with gap records.

    Frame `f` lies in row `f % capacity`. `append` must be called with ascending frames by one thread;
    `read` may be called from any other thread.
    """

    def __init__(self, capacity_frames: int, electrodes: int) -> None:
        if capacity_frames < 1:
            raise ValueError(f"a ring of {capacity_frames} frames holds nothing; give at least one")
        self._rows = np.zeros((capacity_frames, electrodes), np.int16)
        self._capacity = capacity_frames
        self._start: int | None = None
        self._head = 0
        self._claimed = 0
        self._gaps: deque[Gap] = deque(maxlen=MAX_GAPS)

    @property
    def head(self) -> int:
        """The frame that will come next."""
        return self._head

    @property
    def oldest(self) -> int:
        """The oldest frame that can still be read."""
        return max(self._start or 0, self._claimed - self._capacity)

    def append(self, first_frame: int, samples: Frames) -> Gap | None:
        """Add a block; a jump over frames that never came is recorded as a gap and returned.

        Raises ValueError for frames that were written before: they may never be replaced or reordered (N5).
        """
        count = len(samples)
        if self._start is None:
            self._start = self._head = self._claimed = first_frame
        if first_frame < self._head:
            raise ValueError(
                f"frame ring: a block from frame {first_frame} came when frame {self._head} was next;"
                " likely cause: the array's counter was reset; next: restart the engine"
            )
        gap = None
        if first_frame > self._head:
            gap = Gap(self._head, first_frame, "array")
            self._gaps.append(gap)
        # Readers look at `claimed` after copying: rows being overwritten now are never taken for good ones.
        self._claimed = first_frame + count
        kept = samples[-self._capacity :]
        begin = (first_frame + count - len(kept)) % self._capacity
        until = begin + len(kept)
        if until <= self._capacity:
            self._rows[begin:until] = kept
        else:
            split = self._capacity - begin
            self._rows[begin:] = kept[:split]
            self._rows[: until - self._capacity] = kept[split:]
        self._head = first_frame + count
        return gap

    def read(self, position: int, max_frames: int) -> tuple[list[Gap], FrameSpan | None, int]:
        """Return the frames from `position` on: the gaps before them, at most `max_frames` frames, and the next position.

        No frames yet: `([], None, position)`. A stretch never runs across a gap.
        """
        gaps: list[Gap] = []
        while True:
            head = self._head
            oldest = self.oldest
            if position < oldest:
                gaps.append(Gap(position, oldest, "reader"))
                position = oldest
            end = min(head, position + max_frames)
            for lost in tuple(self._gaps):
                if lost.first_frame <= position < lost.end_frame:
                    gaps.append(Gap(position, lost.end_frame, "array"))
                    position = lost.end_frame
                    end = min(head, position + max_frames)
                elif position < lost.first_frame < end:
                    end = lost.first_frame
            if end <= position:
                return gaps, None, position
            rows = np.take(self._rows, range(position, end), axis=0, mode="wrap")
            if position >= self.oldest:
                return gaps, FrameSpan(position, rows), end
            # The writer overtook us while we copied; what we hold may be torn. Say so, and start again
            # further on.


class SpikeRing:
    """The latest spikes, numbered in order; a reader that comes too late learns how many it lost."""

    def __init__(self, capacity: int) -> None:
        self._frames = np.zeros(capacity, np.int64)
        self._electrodes = np.zeros(capacity, np.int32)
        self._uv = np.zeros(capacity, np.float32)
        self._capacity = capacity
        self._count = 0
        self._claimed = 0

    @property
    def count(self) -> int:
        """The number of the next spike."""
        return self._count

    def append(self, spikes: Spikes) -> None:
        """Add spikes in the order of their frames."""
        found = len(spikes)
        if not found:
            return
        self._claimed = self._count + found
        rows = np.arange(self._count, self._count + found) % self._capacity
        self._frames[rows] = spikes.frames
        self._electrodes[rows] = spikes.electrodes
        self._uv[rows] = spikes.uv
        self._count += found

    def find(self, frame: int) -> tuple[int, int]:
        """Return the number of the first kept spike at or after `frame`, and the frame from which on spikes are kept."""
        while True:
            oldest, end = max(0, self._claimed - self._capacity), self._count
            frames = self._frames[np.arange(oldest, end) % self._capacity]
            if oldest >= self._claimed - self._capacity:
                kept_from = int(frames[0]) + 1 if oldest and len(frames) else 0
                return oldest + int(np.searchsorted(frames, frame)), kept_from

    def read(self, number: int, most: int) -> tuple[int, Spikes, int]:
        """Return how many spikes from `number` on this reader has lost, the next ones (at most `most`), and the next
        number.
        """
        lost = 0
        while True:
            oldest = max(0, self._claimed - self._capacity)
            if number < oldest:
                lost += oldest - number
                number = oldest
            end = min(self._count, number + most)
            rows = np.arange(number, end) % self._capacity
            spikes = Spikes(self._frames[rows], self._electrodes[rows], self._uv[rows])
            if number >= self._claimed - self._capacity:
                return lost, spikes, end
