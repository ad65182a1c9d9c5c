"""A board that samples an array in blocks at the rate of its crystal, for streams of other programs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Sampled(Protocol):
    """What a board needs of an array; :class:`sim.neurons.array.SimulatedArray` has it."""

    electrodes: int

    @property
    def next_frame(self) -> int:
        """The next frame."""
        ...

    def generate(self, frames: int) -> NDArray[np.int16]:
        """Return the next frames, shape (frames, electrodes)."""
        ...


class StreamingBoard:
    """Samples in a thread of its own until :meth:`close`, and calls `send(first_frame, samples)` with each block."""

    def __init__(
        self, array: Sampled, sample_rate_hz: float, block_frames: int, send: Callable[[int, NDArray[np.int16]], None]
    ) -> None:
        self._array, self._rate, self._block, self._send = array, sample_rate_hz, block_frames, send
        self._closed = False
        self._stalled = False
        self._start_s = time.monotonic()  # noqa: TID251  (the board's own crystal)
        self._thread = threading.Thread(target=self._run, name="board", daemon=True)
        self._thread.start()

    def stall(self, on: bool) -> None:
        """Send nothing while the board runs on, or go on."""
        self._stalled = on

    def close(self) -> None:
        """End the thread."""
        self._closed = True
        self._thread.join()

    def _run(self) -> None:
        begin = self._array.next_frame
        while not self._closed:
            first = self._array.next_frame
            due_s = self._start_s + (first + self._block - begin) / self._rate
            wait_s = due_s - time.monotonic()  # noqa: TID251
            if wait_s > 0:
                time.sleep(min(wait_s, 0.05))  # noqa: TID251  (a thread of its own)
                continue
            samples = self._array.generate(self._block)
            if not self._stalled:
                self._send(first, samples)
