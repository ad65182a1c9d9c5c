"""Intervals of the tick loop."""

from __future__ import annotations


class Timer:
    """Come due every `period_s` of loop time; the first time is at once."""

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s
        self._next_s = 0.0

    def due(self, now_s: float) -> bool:
        """Return whether the period has passed, and begin the next one if so."""
        if now_s < self._next_s:
            return False
        self._next_s = now_s + self._period_s
        return True
