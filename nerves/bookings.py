"""Count every accepted pulse over sliding windows of the sample clock.

Budgets are counted in bins, and a window is taken two bins wider than its name says. So no true window,
wherever it begins, and even if each pulse comes as late as its tolerance allows, can hold more than the
limit; the cost is that a few per cent of a budget may be withheld. What was promised counts, delivered or
not. Everything is counted by the frames of delivery, so the order in which pulses are asked for has no effect.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

STRETCH_S = 600.0
"""Length of the stretches in which the day is counted: a stretch with a single pulse counts as stimulated."""


class SlidingBudget:
    """Amounts in bins of `bin_frames`; asks what the fullest window of `bins` bins would hold with more
    added.
    """

    def __init__(self, bin_frames: int, bins: int) -> None:
        self._bin_frames = bin_frames
        self._bins = bins + 2
        self._amounts: dict[int, float] = {}
        self._total = 0.0

    def bin_of(self, frame: int) -> int:
        """Return the bin in which a frame lies."""
        return frame // self._bin_frames

    def fullest(self, added: Mapping[int, float], limit: float) -> float:
        """Return the largest window sum with `added` (bin → amount); exact only when it matters, that is near the limit."""
        if not added:
            return 0.0
        more = sum(added.values())
        if self._total + more <= limit:
            return self._total + more
        begin = min(added) - self._bins + 1
        end = max(added) + self._bins
        # Only bins that hold something are looked at, however far apart they are: a fullest window ends with one.
        within: deque[tuple[int, float]] = deque()
        window = worst = 0.0
        for b in sorted(b for b in self._amounts.keys() | added.keys() if begin <= b < end):
            amount = self._amounts.get(b, 0.0) + added.get(b, 0.0)
            within.append((b, amount))
            window += amount
            while within[0][0] <= b - self._bins:
                window -= within.popleft()[1]
            worst = max(worst, window)
        return worst

    def add(self, added: Mapping[int, float]) -> None:
        """Book the amounts."""
        for b, amount in added.items():
            self._amounts[b] = self._amounts.get(b, 0.0) + amount
            self._total += amount

    @property
    def total(self) -> float:
        """Everything booked that has not been forgotten: the window's sum, and up to two bins more."""
        return self._total

    def holds(self, b: int) -> bool:
        """Return whether anything is booked in this bin."""
        return b in self._amounts

    def forget_before(self, frame: int) -> None:
        """Drop bins that no window from `frame` on can reach."""
        last = self.bin_of(frame) - self._bins
        old = [b for b in self._amounts if b < last]
        for b in old:
            del self._amounts[b]
        if old:
            self._total = sum(self._amounts.values())  # afresh, so that rounding never adds up


@dataclass(frozen=True, slots=True)
class Booking:
    """One promised pulse: it occupies its electrode from `first_frame` up to `end_frame`, tolerance
    included.
    """

    first_frame: int
    end_frame: int
    electrode: int
    charge_nc: float


class BudgetScope:
    """The budgets of one electrode, one requester or the organoid: charge a second and pulses a minute."""

    def __init__(self, sample_rate_hz: float) -> None:
        self.charge = SlidingBudget(max(1, round(sample_rate_hz / 20)), 20)
        self.pulses = SlidingBudget(max(1, round(sample_rate_hz)), 60)


class Bookings:
    """Everything promised in the last hour and the next seconds. Not thread-safe: the engine's thread owns
    it.
    """

    def __init__(self, sample_rate_hz: float, rest_s: float) -> None:
        """Begin without any.

        Args:
            sample_rate_hz: Frames per second of the array.
            rest_s: Time without a pulse that ends a session.
        """
        self._rate = sample_rate_hz
        self._rest_s = rest_s
        self.organoid = BudgetScope(sample_rate_hz)
        self._requesters: defaultdict[str, BudgetScope] = defaultdict(lambda: BudgetScope(sample_rate_hz))
        self._electrodes: defaultdict[int, BudgetScope] = defaultdict(lambda: BudgetScope(sample_rate_hz))
        self._by_electrode: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        self._in_time: list[tuple[int, int, int]] = []
        self._longest = 0
        self.seconds = SlidingBudget(max(1, round(sample_rate_hz)), 3600)
        """Seconds of the last hour in which anything was promised, each counted once."""
        self.hour = SlidingBudget(max(1, round(60 * sample_rate_hz)), 60)
        """Charge (nC) to the organoid in the last hour."""
        self.day = SlidingBudget(max(1, round(STRETCH_S * sample_rate_hz)), round(86_400 / STRETCH_S))
        """Stretches of the last day in which anything was promised, each counted once."""
        self._sessions: list[tuple[int, int]] = []
        """First and last second of each stretch without a rest, in order; each pair of neighbours has a rest between."""

    def of_requester(self, requester: str) -> BudgetScope:
        """Return the budgets of one requester."""
        return self._requesters[requester]

    def requesters(self) -> list[tuple[str, BudgetScope]]:
        """Return the budgets of every requester, by name."""
        return sorted(self._requesters.items())

    def of_electrode(self, electrode: int) -> BudgetScope:
        """Return the budgets of one electrode."""
        return self._electrodes[electrode]

    def distance(self, electrode: int, first_frame: int, last_start: int) -> int | None:
        """Return the frames between a pulse that may begin from `first_frame` to `last_start` and its nearest neighbour on
        the electrode, in the worst case of both; None when there is none, 0 or less when they may meet.
        """
        booked = self._by_electrode.get(electrode)
        if not booked:
            return None
        at = bisect_left(booked, (first_frame, -1))
        before = [first_frame - booked[k][1] for k in (at - 1,) if k >= 0]
        after = [booked[k][0] - last_start for k in (at,) if k < len(booked)]
        return min(before + after)

    def together(self, first_frame: int, end_frame: int) -> set[int]:
        """Return the electrodes with a pulse that may overlap these frames."""
        begin = bisect_left(self._in_time, (first_frame - self._longest, -1, -1))
        found = set()
        for start, end, electrode in self._in_time[begin:]:
            if start >= end_frame:
                break
            if end > first_frame:
                found.add(electrode)
        return found

    def add(self, requester: str, pulses: list[Booking], tolerance_frames: int) -> None:
        """Book the pulses of an accepted request."""
        mine = self.of_requester(requester)
        for pulse in pulses:
            electrode = self.of_electrode(pulse.electrode)
            for scope in (electrode, mine, self.organoid):
                scope.charge.add({scope.charge.bin_of(pulse.first_frame): pulse.charge_nc})
                scope.pulses.add({scope.pulses.bin_of(pulse.first_frame): 1.0})
            insort(self._by_electrode[pulse.electrode], (pulse.first_frame, pulse.first_frame + tolerance_frames))
            insort(self._in_time, (pulse.first_frame, pulse.end_frame, pulse.electrode))
            self._longest = max(self._longest, pulse.end_frame - pulse.first_frame)
            self.hour.add({self.hour.bin_of(pulse.first_frame): pulse.charge_nc})
            for frame in (pulse.first_frame, pulse.first_frame + tolerance_frames):
                self._mark(self.seconds.bin_of(frame))
                self._mark_day(self.day.bin_of(frame))

    def restore(
        self,
        pulses: list[tuple[int, str, int, float]],
        seconds: list[int],
        minutes: Mapping[int, float] | None = None,
        stretches: Sequence[int] = (),
        restarts: Sequence[int] = (),
    ) -> None:
        """Book what earlier sessions gave: pulses (frame, requester, electrode, nC) of the last minute, seconds with
        stimulation of the last hour, the charge (nC) of its earlier minutes, stretches of the last day, frames of restarts.

        What passed at a restart is unknown: up to a rest, which would end the stretch without one. So a stretch counts as
        longer by a rest for each restart in it.
        """
        for second in seconds:
            self._mark(second)
        for stretch in stretches:
            self._mark_day(stretch)
        self.hour.add(minutes or {})
        for frame, requester, electrode, charge_nc in pulses:
            self.add(requester, [Booking(frame, frame + 1, electrode, charge_nc)], 0)
        if self._sessions:
            first, last = self._sessions[-1]
            within = sum(self.seconds.bin_of(frame) > first for frame in restarts)
            self._sessions = [(first - within * ceil(self._rest_s), last)]

    def _mark(self, second: int) -> None:
        if not self.seconds.holds(second):
            self.seconds.add({second: 1.0})
            self._sessions = self._joined(self._sessions, second)

    def _mark_day(self, stretch: int) -> None:
        if not self.day.holds(stretch):
            self.day.add({stretch: 1.0})

    def session_with(self, seconds: Collection[int]) -> tuple[int, int]:
        """Return first and last second of the longest session that would hold any of `seconds`, if all were stimulated.

        A pulse may lie before others that are booked: it may lengthen a session at its beginning, or join two sessions.
        """
        sessions = self._sessions
        for second in seconds:
            sessions = self._joined(sessions, second)
        mine = [each for each in sessions if any(each[0] <= second <= each[1] for second in seconds)]
        return max(mine, key=lambda each: each[1] - each[0])

    def _joined(self, sessions: list[tuple[int, int]], second: int) -> list[tuple[int, int]]:
        """Return the sessions with one more second.

        Whole seconds must differ by one more than the rest, so that no two sessions are closer than it.
        """
        reach = self._rest_s + 1
        near = [each for each in sessions if each[0] - second < reach and second - each[1] < reach]
        one = min((second, *(first for first, _ in near))), max((second, *(last for _, last in near)))
        return sorted([*(each for each in sessions if each not in near), one])

    def forget_before(self, frame: int) -> None:
        """Drop what can no longer bound anything from `frame` on; called about once a second."""
        keep = frame - round(2 * self._rate)
        for booked in self._by_electrode.values():
            del booked[: bisect_left(booked, (keep, -1))]
        del self._in_time[: bisect_left(self._in_time, (keep, -1, -1))]
        for scope in (*self._requesters.values(), *self._electrodes.values(), self.organoid):
            scope.charge.forget_before(frame)
            scope.pulses.forget_before(frame)
        oldest = self.seconds.bin_of(frame) - self._rest_s - 1
        self._sessions = [each for each in self._sessions if each[1] > oldest]
        self.seconds.forget_before(frame)
        self.hour.forget_before(frame)
        self.day.forget_before(frame)
