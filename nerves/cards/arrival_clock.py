"""The clock of a card whose frames come over a network, from the blocks that came with the least delay."""

from __future__ import annotations

import time
from collections.abc import Callable

MAX_DRIFT = 1e-4
"""The largest difference of two crystals."""


def steady_s() -> float:
    """Return the machine's steady clock (s)."""
    return time.monotonic()  # noqa: TID251  (the card's own threads have no loop)


class ArrivalClock:
    """Estimates a far clock that counts frames. It never runs backwards; a slower far clock is followed."""

    def __init__(self, sample_rate_hz: float, steady: Callable[[], float] = steady_s) -> None:
        self._rate = sample_rate_hz
        self._steady = steady
        self._zero_s = steady()
        self._zero_at_s = self._zero_s
        self._latest = 0
        self._restarted = True

    def now_frame(self) -> int:
        """Return the frame that is sampled now."""
        self._latest = max(self._latest, int((self._steady() - self._zero_s) * self._rate))
        return self._latest

    def time_s(self, frame: int) -> float:
        """Return when a frame was sampled, by the steady clock (s).

        Args:
            frame: Number of the frame.

        Returns:
            The time (s); it changes a little when later blocks come with less delay.
        """
        return self._zero_s + frame / self._rate

    def arrived(self, end: int) -> None:
        """Note that frames have come.

        Args:
            end: Number of the frame after the last one that has come.
        """
        now_s = self._steady()
        slower_s = self._zero_s + MAX_DRIFT * (now_s - self._zero_at_s)
        came_s = now_s - end / self._rate
        self._zero_s = came_s if self._restarted else min(slower_s, came_s)
        self._zero_at_s, self._restarted = now_s, False

    def restart(self) -> None:
        """Forget the delay: the far end counts from another instant with the next block."""
        self._restarted = True
