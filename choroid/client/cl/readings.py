"""What a program reads: spikes, stimulations, and the result of detection over a stretch of frames."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

BEFORE, AFTER = 25, 50
"""Samples of a spike before and from its timestamp on."""


@dataclass(frozen=True)
class Spike:
    """Holds a detected spike. `samples` are fetched when they are first read, which may wait for frames that have not come
    yet.
    """

    timestamp: int
    channel: int
    _fetch: Callable[[int, int], NDArray[np.float32]] = field(repr=False, compare=False)

    @cached_property
    def _window_uv(self) -> NDArray[np.float32]:
        return self._fetch(self.timestamp, self.channel)

    @property
    def samples(self) -> NDArray[np.float32]:
        """Return 75 samples around the spike (µV, without their mean): 25 before its timestamp and 50 from it on."""
        return self._window_uv - np.float32(self.channel_mean_sample)

    @property
    def channel_mean_sample(self) -> float:
        """Return the mean of the raw samples around the spike (µV)."""
        return float(self._window_uv.mean())


@dataclass(frozen=True, slots=True)
class Stim:
    """Holds a pulse as delivered: the frame at which the array began it, and where."""

    timestamp: int
    channel: int


@dataclass(frozen=True, slots=True)
class DetectionResult:
    """Holds the spikes and delivered pulses from `start_timestamp` up to `stop_timestamp`.

    In a loop these are the ones that became known since the last tick: the engine reports a spike 0.8 ms after its trough.
    """

    start_timestamp: int
    stop_timestamp: int
    spikes: list[Spike]
    stims: list[Stim]

    @property
    def timestamp(self) -> int:
        """Return the first frame; `start_timestamp` is the newer name."""
        return self.start_timestamp


@dataclass(frozen=True, slots=True)
class LoopTick:
    """Holds what one turn of a loop has read.

    Attributes:
        loop: The loop.
        iteration: Number of the turn, from 0 on.
        iteration_timestamp: The frame at which the body begins: the first one after those that were read.
        iteration_next_timestamp: The frame at which the next body begins.
        analysis: Spikes and pulses of the frames before the body.
    """

    loop: Any
    iteration: int
    iteration_timestamp: int
    iteration_next_timestamp: int
    analysis: DetectionResult
    _read: Callable[[int, int], NDArray[np.int16]] = field(repr=False, compare=False)

    @property
    def timestamp(self) -> int:
        """Return the first frame that was read; `analysis.start_timestamp` is the newer name."""
        return self.analysis.start_timestamp

    @property
    def frames(self) -> NDArray[np.int16]:
        """Return the raw frames of this turn, shape (frames, channels); waits up to 10 ms for the engine to send them."""
        return self._read(self.iteration_timestamp - self.timestamp, self.timestamp)
