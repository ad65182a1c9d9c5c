"""A clock that stands at the time it is set to."""

from __future__ import annotations

from datetime import datetime, timedelta

from controller.core.clock import Clock


class StandingClock(Clock):
    """Show `at_s` (s) as monotonic time, and `epoch` plus `at_s` as UTC. It needs no event loop."""

    def __init__(self, epoch: datetime, at_s: float = 0.0) -> None:
        self._at_epoch = epoch
        self._minute = -1
        self._minute_text = ""
        self.at_s = at_s

    def now_s(self) -> float:
        """Return the time that was set (s)."""
        return self.at_s

    def utc_us(self) -> int:
        """Return microseconds of UTC since 1970."""
        return round((self._at_epoch + timedelta(seconds=self.at_s)).timestamp() * 1e6)
