"""Closed loops in the rhythm of the array's clock."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from choroid.client.cl.readings import LoopTick

if TYPE_CHECKING:
    from choroid.client.cl.culture import CultureSession

REMOTE_TOLERANCE_S = 0.02
"""Lateness that is always allowed: what an ordinary operating system and a connection add."""

RECOVERY_S = 5.0


class NeuronsLoop:
    """Yields ticks when they are iterated over. A body that is late by more than the tolerance ends the loop with
    TimeoutError.

    Attributes:
        frames_per_tick: Frames from one turn to the next.
        start_timestamp: The first frame of the first turn; before that -1.
    """

    frames_per_tick: int
    start_timestamp: int

    def __init__(
        self,
        neurons: CultureSession,
        ticks_per_second: float,
        stop_after_seconds: float | None,
        stop_after_ticks: int | None,
        ignore_jitter: bool,
        jitter_tolerance_frames: int,
    ) -> None:
        """Prepare the loop; see :meth:`CulturedNeurons.loop`."""
        rate = neurons.get_frames_per_second()
        if not 0 < ticks_per_second <= rate:
            raise ValueError(f"{ticks_per_second:g} ticks a second; give up to {rate}, one for each frame")
        if stop_after_seconds is not None:
            if stop_after_ticks is not None:
                raise ValueError("give stop_after_seconds or stop_after_ticks, not both")
            stop_after_ticks = math.ceil(stop_after_seconds * ticks_per_second)
        if stop_after_ticks is not None and stop_after_ticks <= 0:
            raise ValueError("a loop without a turn; give a length above 0")
        self.frames_per_tick = int(rate // ticks_per_second)
        self.start_timestamp = -1
        self._neurons = neurons
        self._left = stop_after_ticks
        self._ignore = ignore_jitter
        self._tolerance = jitter_tolerance_frames + round(REMOTE_TOLERANCE_S * rate)
        self._stopped = False
        self._iteration = 0
        self._next = 0
        self._pause = threading.Event()

    def __iter__(self) -> Iterator[LoopTick]:
        """Yield the ticks.

        Raises:
            TimeoutError: The body was late.
        """
        self._next = self.start_timestamp = self._neurons.timestamp()
        self._neurons.feed.take()
        while not self._stopped and (self._left is None or self._iteration < self._left):
            late = self._late()
            if late > self._tolerance and not self._ignore:
                raise TimeoutError(
                    f"turn {self._iteration} of the loop began {late} frames late; the tolerance is {self._tolerance}. Next:"
                    " do less in the body, fewer ticks a second, or ignore_jitter=True"
                )
            yield self._turn()

    @property
    def duration_ticks(self) -> int:
        """Return the number of turns that have begun."""
        return self._iteration

    @property
    def duration_frames(self) -> int:
        """Return the frames of the turns that have begun."""
        return self._iteration * self.frames_per_tick

    def approximate_duration_seconds(self) -> float:
        """Return the length of the turns that have begun (s)."""
        return self.duration_frames / self._neurons.get_frames_per_second()

    def run(self, loop_body_callback: Callable[[LoopTick], object]) -> None:
        """Call a function with each tick.

        Args:
            loop_body_callback: The function; what it returns is not used.

        Raises:
            TimeoutError: A turn began too late.
        """
        for tick in self:
            loop_body_callback(tick)

    def stop(self) -> None:
        """End the loop after the present turn."""
        self._stopped = True

    def recover_from_jitter(
        self, handle_recovery_tick: Callable[[LoopTick], object] | None = None, timeout_seconds: float = RECOVERY_S
    ) -> None:
        """Catch up after a long turn: pass each missed tick to a function, or drop it.

        Args:
            handle_recovery_tick: Called with each missed tick; None drops them.
            timeout_seconds: Longest time to catch up, by the array's clock (s).

        Raises:
            TimeoutError: The loop was still late after `timeout_seconds`.
        """
        rate = self._neurons.get_frames_per_second()
        until = self._neurons.timestamp() + round(timeout_seconds * rate)
        while self._late() > 0:
            if self._neurons.timestamp() > until:
                raise TimeoutError(f"the loop was still late after {timeout_seconds:g} s")
            tick = self._turn()
            if handle_recovery_tick is not None:
                handle_recovery_tick(tick)

    def _late(self) -> int:
        """Return by how many frames the end of the next turn has passed; negative while it lies ahead."""
        return self._neurons.timestamp() - (self._next + self.frames_per_tick)

    def _turn(self) -> LoopTick:
        first, end = self._next, self._next + self.frames_per_tick
        while (ahead := end - self._neurons.timestamp()) > 0:
            self._pause.wait(ahead / self._neurons.get_frames_per_second())
        self._next = end
        self._iteration += 1
        neurons = self._neurons
        analysis = neurons.detection(first, end, *neurons.feed.take())
        return LoopTick(self, self._iteration - 1, end, end + self.frames_per_tick, analysis, neurons.read_frames)
