"""Judge whether a watched process is alive, stopped, hung or only starved. Pure: no input, output or clock.

A killed process shows at once, a stopped one within two looks. A process whose loop hangs sends no beats. On an overloaded
machine a healthy process is late too. The time in which it waited for a processor or for a slow disk is therefore not
counted. That time is measured (:mod:`controller.guard.processes`) and bounded: on a machine where the controller cannot run
for ten seconds there is no control either.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import StrEnum

SILENCE_S = 0.6
"""Maximum time (s) without a beat of a controller that could run; the rescue takes about a second more."""
TICK_S = 1.0
"""Time between two ticks of control (s)."""
STARTING_SILENCE_S = 30.0
"""Maximum time (s) without a beat before the first tick, while devices are connected and runs recovered."""
MAX_STARVED_S = 10.0
"""Maximum starvation (s) that is allowed for."""
STOPPED_LOOKS = 2
"""Number of consecutive looks that must find a process stopped."""
MIN_LAG_S = 0.05
"""Minimum lag (s) of the watcher itself that counts as starvation."""


class ProcessFault(StrEnum):
    """Names what is wrong with a watched process."""

    DEAD = "dead"
    STOPPED = "stopped"
    SILENT = "silent"
    NOT_TICKING = "not ticking"


@dataclass(frozen=True, slots=True)
class Look:
    """The state of a process at one moment.

    Args:
        at_s: time of the look, on the watcher's monotonic clock.
        state: its state as the kernel names it (R, S, D, T, …); "" if unknown; "X" if it has ended.
        starved_s: time since the previous look in which it waited for a processor or for a disk.
        lag_s: how much later than planned the watcher itself looked.
    """

    at_s: float
    state: str
    starved_s: float = 0.0
    lag_s: float = 0.0


class Liveness:
    """Liveness of one process, from its beats (`beat`) and its observed state (`look`)."""

    def __init__(self, now_s: float, *, silence_s: float = SILENCE_S, ticks: bool = True) -> None:
        """Start at `now_s`. With `ticks` the process also has to make progress between its beats."""
        self._silence_s = silence_s
        self._ticks = ticks
        self._looked_s = now_s
        self._beat_s = now_s
        self._ticked_s = now_s
        self._tick = 0
        self._stopped = 0
        self._starved: deque[tuple[float, float]] = deque()
        """Time and amount of starvation of the process or the watcher (s)."""

    def beat(self, at_s: float, tick: int = 0) -> None:
        """Process a beat with the number of completed ticks."""
        self._beat_s = at_s
        if tick != self._tick:
            self._tick, self._ticked_s = tick, at_s

    @property
    def running(self) -> bool:
        """Whether control has begun."""
        return self._tick > 0 or not self._ticks

    @property
    def starved_s(self) -> float:
        """Starvation that is remembered at present (s)."""
        return sum(seconds for _, seconds in self._starved)

    def judge(self, look: Look) -> ProcessFault | None:
        """Process an observed state. Return what is wrong, or None."""
        self._remember(look)
        if look.state in ("X", "Z"):
            return ProcessFault.DEAD
        self._stopped = self._stopped + 1 if look.state == "T" else 0
        if self._stopped >= STOPPED_LOOKS:
            return ProcessFault.STOPPED
        limit_s = self._silence_s if self.running else max(self._silence_s, STARTING_SILENCE_S)
        if self._unexcused_s(look.at_s, self._beat_s) > limit_s:
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
        since_s = min(self._beat_s, self._ticked_s)
        while self._starved and self._starved[0][0] <= since_s:
            self._starved.popleft()

    def _unexcused_s(self, now_s: float, since_s: float) -> float:
        """Return the time (s) since `since_s`, less the starvation in it."""
        starved_s = sum(seconds for at_s, seconds in self._starved if at_s > since_s)
        return now_s - since_s - min(starved_s, MAX_STARVED_S)
