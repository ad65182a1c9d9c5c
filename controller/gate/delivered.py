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
from collections.abc import Sequence
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


class _Window:
    """The intervals of the last `length_s`, and their sums. `max_lost_s` is the maximum of `lost_s`."""

    def __init__(self, length_s: float, max_lost_s: float) -> None:
        self.length_s = length_s
        self.max_lost_s = max_lost_s
        self.lost_s = self.commanded = self.counted_ul = 0.0
        self._intervals: deque[_Interval] = deque()

    def __bool__(self) -> bool:
        return bool(self._intervals)

    def add(self, new: _Interval) -> None:
        """Take in the newest interval; drop those that have ended before the window."""
        intervals = self._intervals
        intervals.append(new)
        self._count(new, 1.0)
        begun_s = new.end_s - self.length_s
        while intervals[0].end_s <= begun_s:
            self._count(intervals.popleft(), -1.0)

    def _count(self, interval: _Interval, sign: float) -> None:
        self.lost_s += sign * interval.lost_s
        self.commanded += sign * interval.commanded
        self.counted_ul += sign * interval.counted_ul


@dataclass(slots=True)
class _Track:
    at_s: float
    commanded: float
    status: Status
    windows: tuple[_Window, ...] = field(default_factory=lambda: tuple(_Window(*each) for each in WINDOWS_S))


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
        if wanted or track.windows[-1]:
            interval = _interval(track, wanted, status, at_s)
            for window in track.windows:
                window.add(interval)
            if not commanded or (problem := _shortfall(track.windows, status)) is None:
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


def _shortfall(windows: Sequence[_Window], status: Status) -> str | None:
    """Return what is missing within one of the windows, for people, or None."""
    for window in windows:
        if window.lost_s > window.max_lost_s:
            return f"within {window.length_s:g} s it gave {window.lost_s:.0f} s of its commanded output less"
    return _uncounted(windows[0], status)


def _uncounted(window: _Window, status: Status) -> str | None:
    """Return what a pump's own count lacks within the shortest window, or None."""
    if not isinstance(status, PumpStatus) or status.host_counted:
        return None
    commanded_ul, counted_ul = window.commanded, window.counted_ul
    blur_ul = COUNT_STEPS * status.resolution_ul
    if blur_ul > COUNT_SHARE * commanded_ul:
        return None
    max_lost_ul = commanded_ul * window.max_lost_s / window.length_s
    if commanded_ul - counted_ul - blur_ul <= commanded_ul * FLOW_TOLERANCE + max_lost_ul:
        return None
    return (
        f"within {window.length_s:g} s it was commanded {commanded_ul:.0f} µL, and its own count rose by"
        f" {counted_ul:.0f} µL"
    )
