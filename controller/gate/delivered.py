"""Delivered against commanded amounts of continuous outputs, over windows of time.

A pump that is stopped again and again and restarted each time follows its command at every readback, and still moves next to
nothing. Its cause may be a second controller, the protection of its motor, or a supply that breaks down under load. So what
each output has given is summed, and compared with what it was commanded to give. The difference is counted in seconds of the
commanded output, so that one rule suits pumps, gases and switches:

- Between two statuses an output counts as giving the smaller of both, because nothing is known of the time between them.
- What it gives beyond its command makes up for nothing.
- A pump's own count is used as well where its steps are fine enough: some pumps do not report their rate.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from controller.gate.readback import LEVEL_GRAIN
from drivers.commands import FLOW_TOLERANCE, Command, Level, LevelStatus, PumpStatus, Run, Status, Switch, SwitchStatus

WINDOWS_S: tuple[tuple[float, float], ...] = ((60.0, 12.0), (600.0, 30.0))
"""Windows (s), each with the maximum time of the commanded output that may be missing within it (s)."""
GAP_S = 60.0
"""Longest pause between two statuses (s); after a longer one, such as a lost link, the comparison begins again from zero."""
LEVEL_SHORT = 0.1
"""Share by which a measured gas flow may stay below its set-point: accuracy of controllers, and settling."""
COUNT_STEPS = 2.0
COUNT_SHARE = 0.05
"""A count is used if this many of its steps are at most this share of the commanded volume of the shortest window."""


@dataclass(frozen=True, slots=True)
class _Interval:
    """The time between two statuses. `commanded` and `counted_ul` are amounts of it (µL for a pump)."""

    end_s: float
    lost_s: float
    commanded: float
    counted_ul: float


@dataclass(slots=True)
class _Track:
    at_s: float
    commanded: float
    status: Status
    intervals: deque[_Interval] = field(default_factory=deque)


class Delivered:
    """Compares what continuous outputs give with their commands. `shortfalls` is the present result, by output."""

    def __init__(self) -> None:
        self._tracks: dict[str, _Track] = {}
        self.shortfalls: dict[str, str] = {}

    def note(self, name: str, given: Command | None, status: Status, at_s: float) -> None:
        """Take in a status of an output that was given the command `given`, requested at `at_s` (loop s)."""
        commanded = _rate(given)
        track = self._tracks.get(name)
        if track is None or at_s - track.at_s > GAP_S:
            self._tracks[name] = _Track(at_s, commanded, status)
            self.shortfalls.pop(name, None)
            return
        if at_s <= track.at_s:
            return
        wanted = min(track.commanded, commanded, key=abs) if track.commanded * commanded > 0.0 else 0.0
        if wanted or track.intervals:
            track.intervals.append(_interval(track, wanted, status, at_s))
            while track.intervals[0].end_s <= at_s - WINDOWS_S[-1][0]:
                track.intervals.popleft()
            if (problem := _shortfall(track.intervals, status, at_s)) is None or not commanded:
                self.shortfalls.pop(name, None)
            else:
                self.shortfalls[name] = problem
        track.at_s, track.commanded, track.status = at_s, commanded, status


def _interval(track: _Track, wanted: float, status: Status, at_s: float) -> _Interval:
    for_s = at_s - track.at_s
    share = 0.0 if not wanted else min(_share(track.status, wanted), _share(status, wanted), 1.0)
    counted_ul = 0.0
    if isinstance(status, PumpStatus) and isinstance(track.status, PumpStatus):
        counted_ul = max(0.0, status.delivered_ul - track.status.delivered_ul)
    return _Interval(at_s, (1.0 - share) * for_s if wanted else 0.0, abs(wanted) * for_s / 60.0, counted_ul)


def _rate(command: Command | None) -> float:
    """Return the lasting output that a command asks for (µL/min, mL/min, 1 for a switch); 0 for one that ends."""
    match command:
        case Run(flow_ul_min=flow):
            return flow
        case Level(value=value):
            return value
        case Switch(on=True, for_s=None):
            return 1.0
    return 0.0


def _share(status: Status, wanted: float) -> float:
    """Return which share of `wanted` an output gives; 1 if it lies within the accuracy, negative if it runs backwards."""
    match status:
        case PumpStatus(running=running, flow_ul_min=flow):
            share = flow / wanted if running else 0.0
            return 1.0 if share >= 1.0 - FLOW_TOLERANCE else share
        case LevelStatus(measured=measured):
            return 1.0 if measured >= wanted * (1.0 - LEVEL_SHORT) - LEVEL_GRAIN else max(0.0, measured / wanted)
        case SwitchStatus(on=on):
            return 1.0 if on else 0.0


def _shortfall(intervals: deque[_Interval], status: Status, at_s: float) -> str | None:
    """Return what is missing within one of the windows, for people, or None."""
    for window_s, max_lost_s in WINDOWS_S:
        lost_s = sum(each.lost_s for each in intervals if each.end_s > at_s - window_s)
        if lost_s > max_lost_s:
            return f"within {window_s:g} s it gave {lost_s:.0f} s of its commanded output less"
    return _uncounted(intervals, status, at_s)


def _uncounted(intervals: deque[_Interval], status: Status, at_s: float) -> str | None:
    """Return what a pump's own count lacks within the shortest window, or None."""
    if not isinstance(status, PumpStatus) or status.host_counted:
        return None
    window_s, max_lost_s = WINDOWS_S[0]
    inside = [each for each in intervals if each.end_s > at_s - window_s]
    commanded_ul = sum(each.commanded for each in inside)
    blur_ul = COUNT_STEPS * status.resolution_ul
    if blur_ul > COUNT_SHARE * commanded_ul:
        return None
    counted_ul = sum(each.counted_ul for each in inside)
    if commanded_ul - counted_ul - blur_ul <= commanded_ul * FLOW_TOLERANCE + _lost_ul(
        commanded_ul, max_lost_s, window_s
    ):
        return None
    return (
        f"within {window_s:g} s it was commanded {commanded_ul:.0f} µL, and its own count rose by {counted_ul:.0f} µL"
    )


def _lost_ul(commanded_ul: float, max_lost_s: float, window_s: float) -> float:
    return commanded_ul * max_lost_s / window_s
