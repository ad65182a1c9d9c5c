"""The one clock (design §4.2): monotonic time is the event loop's, UTC comes from here and nowhere else."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta


class Clock:
    """UTC beside the running loop's monotonic time.

    `follow_system=True` (real time) reads the operating system's UTC at each call, so that records follow NTP.
    `follow_system=False` (virtual time) counts from `epoch` with the loop's own time: the same run gives the same
    timestamps. Control never uses UTC for intervals, so a clock step cannot change a dose (E7).
    """

    def __init__(self, *, follow_system: bool, epoch: datetime | None = None) -> None:
        if not follow_system and epoch is None:
            raise ValueError("A clock that does not follow the system needs an epoch; give Clock(epoch=...)")
        self._follow_system = follow_system
        self._epoch = epoch
        self._loop = asyncio.get_running_loop()
        self._start_s = self._loop.time()

    def now_s(self) -> float:
        """Monotonic seconds: the event loop's time."""
        return self._loop.time()

    def utc(self) -> datetime:
        """Aware UTC date and time."""
        if self._follow_system:
            return datetime.fromtimestamp(time.time(), UTC)
        assert self._epoch is not None  # noqa: S101  (established in __init__)
        return self._epoch + timedelta(seconds=self._loop.time() - self._start_s)

    def utc_text(self) -> str:
        """UTC as ISO 8601 with milliseconds and a Z, the form of every record."""
        return self.utc().isoformat(timespec="milliseconds")[:-6] + "Z"
