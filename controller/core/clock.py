"""The only clock (decision 2): monotonic time is the event loop's; UTC comes only from here."""

from __future__ import annotations

import asyncio
import sys
import time
from datetime import UTC, datetime, timedelta

_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Clock:
    """UTC in addition to the running loop's monotonic time.

    `follow_system=True` (real time) reads the operating system's UTC at each call, so that records follow NTP.
    `follow_system=False` (virtual time) counts from `epoch` with the loop's own time: the same run gives the same
    timestamps. Control never uses UTC for intervals, so a clock step cannot change a dose (E7).
    """

    def __init__(self, *, follow_system: bool, epoch: datetime | None = None) -> None:
        if not follow_system and epoch is None:
            raise ValueError("A clock that does not follow the system needs an epoch; give Clock(epoch=...)")
        self._epoch_us = None if follow_system or epoch is None else (epoch - _BEGIN) // _MICROSECOND
        self._loop = asyncio.get_running_loop()
        self._start_s = self._loop.time()
        self._minute = -1
        self._minute_text = ""

    def now_s(self) -> float:
        """Return monotonic seconds: the event loop's time."""
        return self._loop.time()

    def passed_s(self) -> float:
        """Return seconds since some moment, a suspend of the computer included: what UTC should have advanced by.

        Linux stops the loop's clock during a suspend; other systems do not, or have no such clock.
        """
        if self._epoch_us is None and sys.platform == "linux":
            return time.clock_gettime(time.CLOCK_BOOTTIME)
        return self._loop.time()

    def utc_us(self) -> int:
        """Return microseconds of UTC since the beginning of 1970."""
        if self._epoch_us is None:
            return time.time_ns() // 1000
        return self._epoch_us + round((self._loop.time() - self._start_s) * 1e6)

    def utc(self) -> datetime:
        """Return aware UTC date and time."""
        return _BEGIN + timedelta(microseconds=self.utc_us())

    def utc_text(self) -> str:
        """Return UTC as ISO 8601 with milliseconds and a Z, the form of every record."""
        minute, within_us = divmod(self.utc_us(), 60_000_000)
        if minute != self._minute:  # called at each tick and record: everything but the seconds is cached for a minute
            self._minute = minute
            self._minute_text = (_BEGIN + timedelta(minutes=minute)).strftime("%Y-%m-%dT%H:%M:")
        return f"{self._minute_text}{within_us // 1_000_000:02d}.{within_us // 1000 % 1000:03d}Z"
