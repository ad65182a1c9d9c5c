"""Judge whether a watched process is alive, stopped, hung or only starved. Pure: no input, output or clock.

A process that is killed shows at once, and one that is stopped within two looks. A process whose loop does not turn sends
no beats. On an overloaded machine a healthy one is late as well, so the time in which it wanted a processor and got none, or
waited for a slow disk, is not held against it. That time is measured (:mod:`controller.guard.processes`), and bounded: a
machine on which the controller cannot go on for ten seconds has no control either.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import StrEnum

SILENCE_S = 0.6
"""A controller that could run and has sent no beat for this long (s) hangs; the rescue takes about a second more."""
TICK_S = 1.0
"""Time between two ticks of control."""
STARTING_SILENCE_S = 30.0
"""The same before the first tick, while it connects devices and recovers runs."""
MAX_STARVED_S = 10.0
"""At most so much starvation (s) is allowed for."""
STOPPED_LOOKS = 2
"""A process must be seen stopped this often in a row."""
MIN_LAG_S = 0.05
"""A watcher that wakes up so much too late (s) or less was not starved itself."""


class ProcessFault(StrEnum):
    """What is wrong with a watched process."""

    DEAD = "dead"
    STOPPED = "stopped"
    SILENT = "silent"
    NOT_TICKING = "not ticking"


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen of the process at one moment.

    Args:
        at_s: when, on the watcher's monotonic clock.
        state: its state as the kernel names it (R, S, D, T, …); "" when that cannot be seen; "X" when it is gone.
        starved_s: time since the previous look in which it waited for a processor or for a disk.
        lag_s: how much later than planned the watcher itself looked.
    """

    at_s: float
    state: str
    starved_s: float = 0.0
    lag_s: float = 0.0


class Liveness:
    """One watched process. Tell it what is `heard` and what is seen; `look` returns a verdict when something is wrong."""

    def __init__(self, now_s: float, *, silence_s: float = SILENCE_S, ticks: bool = True) -> None:
        """Begin to watch at `now_s`. With `ticks` the process also has to make progress between its beats."""
        self._silence_s = silence_s
        self._ticks = ticks
        self._looked_s = now_s
        self._heard_s = now_s
        self._ticked_s = now_s
        self._tick = 0
        self._stopped = 0
        self._starved: deque[tuple[float, float]] = deque()
        """When, and how much, the process or the watcher was starved."""

    def heard(self, at_s: float, tick: int = 0) -> None:
        """Take in a beat, with the number of ticks that are done."""
        self._heard_s = at_s
        if tick != self._tick:
            self._tick, self._ticked_s = tick, at_s

    @property
    def running(self) -> bool:
        """Whether control has begun."""
        return self._tick > 0 or not self._ticks

    @property
    def starved_s(self) -> float:
        """How much starvation is remembered at present (s)."""
        return sum(seconds for _, seconds in self._starved)

    def look(self, look: Look) -> ProcessFault | None:
        """Take in what is seen; returns what is wrong, or None."""
        self._remember(look)
        if look.state in ("X", "Z"):
            return ProcessFault.DEAD
        self._stopped = self._stopped + 1 if look.state == "T" else 0
        if self._stopped >= STOPPED_LOOKS:
            return ProcessFault.STOPPED
        limit_s = self._silence_s if self.running else max(self._silence_s, STARTING_SILENCE_S)
        if self._unexcused_s(look.at_s, self._heard_s) > limit_s:
            return ProcessFault.SILENT
        if self._ticks and self.running and self._unexcused_s(look.at_s, self._ticked_s) > limit_s + TICK_S:
            return ProcessFault.NOT_TICKING
        return None

    def _remember(self, look: Look) -> None:
        passed_s = max(0.0, look.at_s - self._looked_s)
        self._looked_s = look.at_s
        lag_s = look.lag_s if look.lag_s > MIN_LAG_S else 0.0
        starved_s = min(passed_s, max(look.starved_s, lag_s))
        if starved_s > 0.0:
            self._starved.append((look.at_s, starved_s))
        since_s = min(self._heard_s, self._ticked_s)
        while self._starved and self._starved[0][0] <= since_s:
            self._starved.popleft()

    def _unexcused_s(self, now_s: float, since_s: float) -> float:
        """How long (s) nothing came since `since_s`, less the starvation in that time."""
        starved_s = sum(seconds for at_s, seconds in self._starved if at_s > since_s)
        return now_s - since_s - min(starved_s, MAX_STARVED_S)


def starved_s(passed_s: float, state: str, ran_s: float, waited_s: float) -> float:
    """Return how long (s) a thread wanted to go on and could not, out of `passed_s`.

    The kernel adds a wait for a processor (`waited_s`) to its account only when it ends. A thread that is runnable (R) and
    neither ran nor has ended its wait is waiting still. One in uninterruptible sleep (D) waits for a disk or for memory.
    """
    if state in ("R", "D"):
        waited_s = max(waited_s, passed_s - ran_s)
    return min(max(waited_s, 0.0), passed_s)
