"""The array's clock as seen from a client: frames now, from messages that arrive late by an unknown time."""

from __future__ import annotations

import time
from collections import deque

NOTES = 32
STALL_S = 0.25
"""The estimate runs on for this long without news; an engine that has stopped does not tick."""


def local_s() -> float:
    """Return this machine's monotonic time (s)."""
    return time.monotonic()  # noqa: TID251  (a client has no other clock)


class ArrayClock:
    """Estimates the next frame. The least delayed of the last messages sets it; it is late by the delay of that one."""

    def __init__(self, rate_hz: float) -> None:
        self._rate = rate_hz
        self._offsets: deque[float] = deque(maxlen=NOTES)
        self._last = 0
        self._shown = 0

    def note(self, next_frame: int, at_s: float) -> None:
        """Take in the clock of a message.

        Args:
            next_frame: The array's clock in the message.
            at_s: When the message came, by :func:`local_s` (s).
        """
        self._offsets.append(next_frame - self._rate * at_s)
        self._last = max(self._last, next_frame)

    def at(self, at_s: float) -> int:
        """Return the next frame at a local time.

        Args:
            at_s: The time, by :func:`local_s` (s).

        Returns:
            The frame; at most 0.25 s after the latest one that a message has named, and never before one that was returned.
        """
        if not self._offsets:
            return self._last
        estimate = round(max(self._offsets) + self._rate * at_s)
        self._shown = max(self._shown, min(estimate, self._last + round(STALL_S * self._rate)))
        return self._shown
