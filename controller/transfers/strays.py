"""Liquid that nobody asked for: a transfer pump whose own count goes on while no dose of its line is open.

Dosing pumps with text commands have no checksum on their line. A flipped bit in a question can be a command: it makes
“how much?” (`D,?`) “give 7 mL” (`D,7`) of an Atlas EZO-PMP. So every count that is polled anyway is compared with the one
before: what went through unasked is booked, so that volumes stay true and no vessel overflows for it, and people are told;
a pump that is seen to run unasked is stopped. What a pump gave while no controller was there is not seen here, but by the
balance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from controller.core.state import ActuatorView
from controller.ledger.ledger import Alarm, Ledger
from controller.ledger.witnesses import K, went_back
from controller.transfers.routes import Route
from drivers.commands import PumpStatus

STRAY = "stray"
"""How a row `moved` of such liquid says that it ended, and who measured it: the pump's count."""
DOUBT = 1.0 / K
"""Standard deviation of what was moved, as a share of it: a count that jumped may also be a counter that failed."""

MOST_UL_MIN = 1e6
"""No pump of this kind moves a litre in a minute: a count that says so has failed."""
STOPPED_S = 2.0
"""So long may a pump that was seen to run go on until it is stopped."""


class OpenLines:
    """Lines with a dose under way, or with one whose outcome is not booked yet."""

    def __init__(self) -> None:
        self._open: set[str] = set()
        self._times: dict[str, int] = {}

    def begin(self, line: str) -> None:
        """A dose of `line` is about to be given, or was left open by a process before this one."""
        self._open.add(line)
        self._times[line] = self._times.get(line, 0) + 1

    def end(self, line: str) -> None:
        """Its outcome is booked."""
        self._open.discard(line)

    def __contains__(self, line: object) -> bool:
        return line in self._open

    def times(self, line: str) -> int:
        """How often a dose has begun: one may begin and end between two looks."""
        return self._times.get(line, 0)


class Strays:
    """Compares what transfer pumps have counted."""

    def __init__(
        self,
        routes: Mapping[str, Route],
        *,
        ledger: Ledger,
        alarm: Alarm,
        open_lines: OpenLines,
        gain: Callable[[Route], float],
    ) -> None:
        """`routes` by line; `gain` tells what a pump moves for each µL that it counts."""
        self._routes = tuple(routes.values())
        self._ledger = ledger
        self._alarm = alarm
        self._open = open_lines
        self._gain = gain
        self._seen: dict[str, tuple[ActuatorView | None, int]] = {}
        """By pump: what was looked at last, and how many doses had begun."""
        self._told_ul: dict[str, float] = {}
        self._sure: dict[str, tuple[float, float]] = {}
        """By pump: the count (µL) as told last; and as told twice in a row since its last dose, and when that was (s)."""

    def look(self, actuators: Mapping[str, ActuatorView]) -> list[Route]:
        """Book and tell what went through unasked; returns the routes whose pumps run unasked, to be stopped."""
        running = []
        for route in self._routes:
            pump = route.pump
            view, times = actuators.get(pump), self._open.times(route.line)
            before, before_times = self._seen.get(pump, (None, 0))
            if view is before and times == before_times:
                continue
            self._seen[pump] = (view, times)
            if times != before_times or route.line in self._open:
                self._told_ul.pop(pump, None)
                self._sure.pop(pump, None)
                continue
            if view is None or not isinstance(view.status, PumpStatus) or (before and view.status is before.status):
                continue
            if view.status.running:
                running.append(route)
                self._see_running(route, view.status, view.at_s - (view.at_s if before is None else before.at_s))
            self._count(route, view.status, view.at_s)
        return running

    def _count(self, route: Route, status: PumpStatus, at_s: float) -> None:
        """Compare counts of a pump that stands. One digit may be garbled: a count counts when it was told twice in a row."""
        pump, told_ul = route.pump, status.delivered_ul
        if told_ul != self._told_ul.get(pump):
            self._told_ul[pump] = told_ul
            return
        sure = self._sure.get(pump)
        if sure is not None:
            sure_ul, since_s = sure
            anew = went_back(sure_ul, told_ul)  # it lost power, and counts from nothing
            counted_ul = told_ul - (0.0 if anew else sure_ul)
            if counted_ul > MOST_UL_MIN * max(at_s - since_s, 1.0) / 60.0:
                self._tell(route, f"its count jumped by {counted_ul / 1000:.6g} mL, more than it can move; not booked")
            elif counted_ul > status.resolution_ul:
                self._book(route, counted_ul, DOUBT * counted_ul, f"its count went on by {counted_ul / 1000:.2f} mL")
            elif counted_ul > 0.0 and not anew:
                return  # steps too small for the counter add up until they are seen
        self._sure[pump] = (told_ul, at_s)

    def _see_running(self, route: Route, status: PumpStatus, since_s: float) -> None:
        """What its counter may not show: it has run for `since_s` at the most, and will until it is stopped."""
        most_ul = min(status.flow_ul_min * (since_s + STOPPED_S) / 60.0, status.resolution_ul)
        self._book(route, 0.0, max(most_ul, 0.0) / math.sqrt(3.0), "it was seen to run")

    def _book(self, route: Route, counted_ul: float, sd_ul: float, seen: str) -> None:
        gain = self._gain(route)
        ul, sd_ul = counted_ul * gain, sd_ul * gain
        detail = {"low": max(ul - K * sd_ul, 0.0), "high": ul + K * sd_ul, "counted": counted_ul, "end": STRAY}
        self._ledger.moved(route.line, ul, sd_ul, "pump", detail=detail)
        self._tell(route, seen)

    def _tell(self, route: Route, seen: str) -> None:
        self._alarm(
            "stray_flow",
            route.pump,
            f"{seen}, along {route.line}, and nobody had asked for it. Likely cause: a disturbed cable, or somebody at the"
            " pump. Next: look at what it pumps into; read the level",
        )
