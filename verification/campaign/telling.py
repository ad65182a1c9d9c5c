"""Judge of alarms: every fault is announced as its kind requires, in time, and without storms (L1, L3)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from controller.alarms.states import AlarmState
from sim.faults.injector import Injector
from sim.faults.kinds import KINDS
from sim.faults.schedule import Fault
from verification.campaign.findings import Findings
from verification.campaign.host import CampaignHost
from verification.campaign.troubles import Troubles

STORM_ROWS, STORM_WITHIN_S = 10, 3600.0
"""Repetitions of one alarm within an hour that count as a storm (ISA-18.2 chatter, despite suppression: L3)."""
FLOOD_ROWS, FLOOD_WITHIN_S = 30, 600.0
"""Number of alarms within ten minutes that is too many to read; ISA-18.2 calls ten a flood, for healthy plants."""
FLOOD_OF_A_FAULT = 2
"""Number of alarms for each fault that began within the ten minutes, from which on many faults are a flood."""


class Telling:
    """Times of active alarms, sampled every `look_s`."""

    def __init__(self, findings: Findings, look_s: float, troubles: Troubles) -> None:
        self.raised_in_all = 0
        self.last_s: dict[str, float] = {}
        """Kind of alarm → when it was last raised."""
        self._findings = findings
        self._look_s = look_s
        self._troubles = troubles
        self._raised: dict[str, deque[float]] = {}
        self._all_raised: deque[float] = deque()
        self._ended: list[tuple[float, float, str]] = []
        self._active: dict[tuple[str, str], float] = {}
        self._down: list[tuple[float, float]] = []

    @property
    def active(self) -> set[tuple[str, str]]:
        """Kind and source of each active alarm."""
        return set(self._active)

    def on_raised(self, identifier: str) -> None:
        """Process a raised alarm."""
        now_s = asyncio.get_running_loop().time()
        self.last_s[identifier.partition(":")[0]] = now_s
        self.raised_in_all += 1
        times = self._raised.setdefault(identifier, deque())
        for kept, within_s in ((times, STORM_WITHIN_S), (self._all_raised, FLOOD_WITHIN_S)):
            kept.append(now_s)
            while now_s - kept[0] > within_s:
                kept.popleft()
        if len(times) > STORM_ROWS:
            self._findings.tell(
                "no alarm storm", identifier, f"{identifier} was raised {len(times)} times within an hour (L3)"
            )
        begun = self._troubles.begun(now_s - FLOOD_WITHIN_S, now_s)
        if len(self._all_raised) > max(FLOOD_ROWS, FLOOD_OF_A_FAULT * begun):
            self._findings.tell("no alarm storm", "all", f"{len(self._all_raised)} alarms within ten minutes (L3)")

    def sample(self, host: CampaignHost, now_s: float) -> None:
        """Sample the active alarms; without a controller there are none."""
        life = host.life
        active: set[tuple[str, str]] = set()
        if life is not None and not life.dead and life.controller is not None:
            active = {
                (alarm.kind, alarm.source)
                for alarm in life.controller.alarms.active()
                if alarm.state is not AlarmState.RETURN_TO_NORMAL_UNACKNOWLEDGED
            }
        for key in [key for key in self._active if key not in active]:
            self._ended.append((self._active.pop(key), now_s, key[0]))
        for key in active:
            self._active.setdefault(key, now_s - self._look_s)

    def note_absence(self, since_s: float, until_s: float) -> None:
        """Record that no controller was at work from `since_s` until `until_s`."""
        self._down.append((since_s, until_s))

    def time_to_tell(self, begin_s: float, within_s: float) -> float:
        """Return when a controller has been at work for `within_s` (s) since `begin_s`."""
        return time_to_tell(begin_s, within_s, self._down)

    def absent_at(self, at_s: float) -> bool:
        """Return whether no controller was at work at a time, or within one sample before it."""
        return self._down_within(at_s - 2 * self._look_s, at_s) > 0.0

    def _must_be_announced(self, fault: Fault, begin_s: float) -> bool:
        """Return whether a controller had enough time to announce a fault of a kind that raises an alarm."""
        kind = KINDS[fault.kind]
        if not kind.alarms:
            return False
        if not fault.for_s:
            return True
        # Nothing is announced while no controller is at work; the next one has the usual time, if the fault still lasts.
        seen_s = fault.for_s - self._down_within(begin_s, begin_s + fault.for_s)
        return fault.for_s >= kind.told_within_s and seen_s >= kind.told_within_s + self._look_s

    def judge(self, injector: Injector, *, unseen: Callable[[Fault], bool]) -> None:
        """Check that every fault was announced in time; one that is `unseen` cannot be."""
        now_s = asyncio.get_running_loop().time()
        alarms = [*self._ended, *((since_s, now_s, kind) for (kind, _), since_s in self._active.items())]
        for applied in injector.applied:
            fault = applied.fault
            kind = KINDS[fault.kind]
            within_s = kind.told_within_s
            begin_s = applied.begun_s
            if unseen(fault) or not self._must_be_announced(fault, begin_s):
                continue
            end_s = self.time_to_tell(begin_s, within_s + self._look_s)
            if any(
                word in kind.alarms and since_s <= end_s and until_s >= begin_s for since_s, until_s, word in alarms
            ):
                continue
            self._findings.tell(
                "every alarm that should be",
                f"{fault.kind} {fault.target}",
                f"{fault.kind} of {fault.target} at {begin_s:.0f} s for {fault.for_s:.0f} s:"
                f" none of {', '.join(kind.alarms)} within {within_s:.0f} s",
            )

    def _down_within(self, begin_s: float, end_s: float) -> float:
        """Return the time without a controller at work between two times (s)."""
        return sum(max(0.0, min(b, end_s) - max(a, begin_s)) for a, b in self._down)


def time_to_tell(begin_s: float, within_s: float, down: Sequence[tuple[float, float]]) -> float:
    """Return when a controller has been at work for `within_s` since `begin_s`; `down` are the times (s) without
    one.
    """
    end_s = begin_s + within_s
    for since_s, until_s in down:
        if since_s > end_s:
            break
        end_s += max(until_s - max(since_s, begin_s), 0.0)
    return end_s
