"""Load of the controller's process: lag of its loop, tasks, descriptors, memory (R1, R4)."""

from __future__ import annotations

import asyncio
import math
import os
from collections import deque
from dataclasses import dataclass
from pathlib import Path

TICKS = 600
"""Number of ticks over which the lag is judged: ten minutes."""
MIN_TICKS = 100
"""Minimum number of ticks for a 99 % percentile."""
LAG_BUDGET_S = 0.25
"""Maximum p99 of the loop's lag: a quarter of a tick."""
_SELF = Path("/proc/self")


@dataclass(frozen=True, slots=True)
class LoadFigures:
    """Present load of the process. `descriptors` and `rss_mb` are None where the system does not report them."""

    lag_p99_ms: float
    lag_max_ms: float
    tasks: int
    descriptors: int | None
    rss_mb: float | None


class ProcessLoad:
    """Lag of the control loop over its last ticks, and the load of its process."""

    def __init__(self) -> None:
        self._late_s: deque[float] = deque(maxlen=TICKS)
        self._beyond = 0
        """Number of these ticks with a lag beyond the budget."""

    def ticked(self, late_s: float, speed: float = 1.0) -> None:
        """Record the lag of a tick (s of the loop's time, which may run `speed` times as fast as real time)."""
        window = self._late_s
        if len(window) == TICKS and window[0] > LAG_BUDGET_S:
            self._beyond -= 1
        lag_s = max(late_s, 0.0) / speed
        self._beyond += lag_s > LAG_BUDGET_S
        window.append(lag_s)

    @property
    def p99_s(self) -> float:
        """The lag that 99 % of the last ticks did not exceed (s); 0 while there are too few."""
        if len(self._late_s) < MIN_TICKS:
            return 0.0
        ordered = sorted(self._late_s)
        return ordered[math.ceil(0.99 * len(ordered)) - 1]

    @property
    def problem(self) -> str | None:
        """Why the loop lags beyond its budget, for people; None if it does not."""
        if not self._beyond:
            return None  # called at each tick: sorting ten minutes of ticks would cost more than the tick's interlocks
        lag_s = self.p99_s
        if lag_s <= LAG_BUDGET_S:
            return None
        return f"the control loop lags: p99 {1000 * lag_s:.0f} ms over {len(self._late_s)} ticks"

    def figures(self) -> LoadFigures:
        """Measure the process."""
        return LoadFigures(
            lag_p99_ms=round(1000.0 * self.p99_s, 3),
            lag_max_ms=round(1000.0 * max(self._late_s, default=0.0), 3),
            tasks=len(asyncio.all_tasks()),
            descriptors=descriptors(_SELF),
            rss_mb=rss_mb(_SELF),
        )


def descriptors(process: Path) -> int | None:
    """Return the number of open descriptors of `/proc/PID`, or None where the system does not report it."""
    try:
        return len(os.listdir(process / "fd"))
    except OSError:
        return None


def rss_mb(process: Path) -> float | None:
    """Return the resident memory of `/proc/PID` (MB), or None where the system does not report it."""
    try:
        pages = int((process / "statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 2)
