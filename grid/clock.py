"""The grid's clock: UTC for certificates, rows of the log and the ends of leases. Intervals use the event loop's time."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

UtcSeconds = Callable[[], float]
"""A source of UTC in seconds since 1970; tests set their own."""


def utc_s() -> float:
    """Return UTC in seconds since 1970."""
    return time.time()


def as_datetime(seconds: float) -> datetime:
    """Return UTC seconds as an aware date and time."""
    return datetime.fromtimestamp(seconds, UTC)


def as_text(seconds: float) -> str:
    """Return UTC seconds as ISO 8601 text with seconds."""
    return as_datetime(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")


def perf_s() -> float:
    """Return a monotonic time in seconds, for measurements in threads without an event loop."""
    return time.perf_counter()


class SteadyUtc:
    """UTC that does not jump by itself when the machine's clock is set.

    A user of it moves what was noted by :attr:`off_s`, and then calls :meth:`follow`.
    """

    def __init__(self, utc: UtcSeconds, monotonic: Callable[[], float]) -> None:
        self._utc = utc
        self._monotonic = monotonic
        self._begins_s = utc() - monotonic()

    def __call__(self) -> float:
        """Return UTC in seconds since 1970."""
        return self._begins_s + self._monotonic()

    @property
    def off_s(self) -> float:
        """Return by how much the machine's clock was set, or the machine slept, since the last :meth:`follow`."""
        return self._utc() - self()

    def follow(self, by_s: float) -> None:
        """Take over a difference."""
        self._begins_s += by_s
