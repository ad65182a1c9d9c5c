"""Stray flow: a transfer pump whose own counter advances while no dose of its line is open.

Dosing pumps with text commands have no checksum on their line. A flipped bit in a query can be a command: it turns “how
much?” (`D,?`) into “give 7 mL” (`D,7`) of an Atlas EZO-PMP. So every polled count is compared with the one before. Stray
flow is booked, so that volumes stay true and no vessel overflows, and raises an alarm; a pump that is seen to run without a
dose is stopped. What a pump gave while no controller ran is not seen here, but by the balance.
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
"""The `end` of a row `moved` for stray flow."""
DOUBT = 1.0 / K
"""Standard deviation of a stray volume, as a share of it: a count that jumped may also be a counter that failed."""

MAX_UL_MIN = 1e6
"""Maximum flow of any pump of this kind (1 L/min); a count that exceeds it is a counter that failed."""
STOPPED_S = 2.0
"""Time (s) within which a pump that was seen to run is stopped."""


class OpenLines:
    """Lines with a dose underway, or with a dose whose outcome is not booked yet."""

    def __init__(self) -> None:
        self._open: set[str] = set()
        self._times: dict[str, int] = {}
        self.begun = 0
        """Number of doses begun on all lines."""

    def begin(self, line: str) -> None:
        """Open `line`: a dose is about to be given, or was left open by the previous process."""
        self._open.add(line)
        self._times[line] = self._times.get(line, 0) + 1
        self.begun += 1

    def end(self, line: str) -> None:
        """Close `line`: the outcome is booked."""
        self._open.discard(line)

    def __contains__(self, line: object) -> bool:
        return line in self._open

    def __bool__(self) -> bool:
        return bool(self._open)

    def times(self, line: str) -> int:
        """Return how many doses have begun: one may begin and end between two polls."""
        return self._times.get(line, 0)


class Strays:
    """Compares the counts of the transfer pumps with the open doses."""

    def __init__(
        self,
        routes: Mapping[str, Route],
        *,
        ledger: Ledger,
        alarm: Alarm,
        open_lines: OpenLines,
        gain: Callable[[Route], float],
    ) -> None:
        """Watch `routes` (by line). `gain` returns the ratio of moved to counted volume of a route's pump."""
        self._routes = tuple(routes.values())
        self._ledger = ledger
        self._alarm = alarm
        self._open = open_lines
        self._gain = gain
        self._looked_at: tuple[Mapping[str, ActuatorView], int] | None = None
        """The views of the last look, and the number of doses begun by then."""
        self._seen: dict[str, tuple[ActuatorView | None, int]] = {}
        """By pump: the last view, and the number of doses begun by then."""
        self._last_ul: dict[str, float] = {}
        self._sure: dict[str, tuple[float, float]] = {}
        """By pump: the last count (µL); and the last count read twice in a row since its last dose, with its time (s)."""

    def update(self, actuators: Mapping[str, ActuatorView]) -> list[Route]:
        """Book and report stray flow. Return the routes whose pumps run without a dose, to be stopped."""
        last, begun = self._looked_at, self._open.begun
        if last is not None and actuators is last[0] and begun == last[1]:
            return []  # no view is new
        routes = [route for route in self._routes if self._look_at(route, actuators.get(route.pump))]
        self._looked_at = actuators, begun  # not before: what raised an error is looked at again
        return routes

    def _look_at(self, route: Route, view: ActuatorView | None) -> bool:
        """Compare one pump with its last view. Return whether it runs without a dose."""
        pump, times = route.pump, self._open.times(route.line)
        before, before_times = self._seen.get(pump, (None, 0))
        if view is before and times == before_times:
            return False
        self._seen[pump] = (view, times)
        if times != before_times or route.line in self._open:
            self._last_ul.pop(pump, None)
            self._sure.pop(pump, None)
            return False
        if view is None or (status := _new_status(view, before)) is None:
            return False
        if status.running:
            self._see_running(route, status, view.at_s - (view.at_s if before is None else before.at_s))
        self._count(route, status, view.at_s)
        return status.running

    def _count(self, route: Route, status: PumpStatus, at_s: float) -> None:
        """Compare the counts of a pump. A digit may be garbled, so a count is taken only if it was read twice in a row."""
        pump, count_ul = route.pump, status.delivered_ul
        if count_ul != self._last_ul.get(pump):
            self._last_ul[pump] = count_ul
            return
        sure = self._sure.get(pump)
        if sure is not None:
            sure_ul, since_s = sure
            restarted = went_back(sure_ul, count_ul)  # it lost power and counts from zero
            counted_ul = count_ul - (0.0 if restarted else sure_ul)
            if counted_ul > MAX_UL_MIN * max(at_s - since_s, 1.0) / 60.0:
                self._report(
                    route, f"its count jumped by {counted_ul / 1000:.6g} mL, more than it can move; not booked"
                )
            elif counted_ul > status.resolution_ul:
                self._book(route, counted_ul, DOUBT * counted_ul, f"its count went on by {counted_ul / 1000:.2f} mL")
            elif counted_ul > 0.0 and not restarted:
                return  # steps too small for the counter add up until they show
        self._sure[pump] = (count_ul, at_s)

    def _see_running(self, route: Route, status: PumpStatus, since_s: float) -> None:
        """Book what the counter may not show: the pump has run for at most `since_s`, and runs on until it is stopped."""
        max_ul = min(status.flow_ul_min * (since_s + STOPPED_S) / 60.0, status.resolution_ul)
        self._book(route, 0.0, max(max_ul, 0.0) / math.sqrt(3.0), "it was seen to run")

    def _book(self, route: Route, counted_ul: float, sd_ul: float, seen: str) -> None:
        gain = self._gain(route)
        ul, sd_ul = counted_ul * gain, sd_ul * gain
        detail = {"low": max(ul - K * sd_ul, 0.0), "high": ul + K * sd_ul, "counted": counted_ul, "end": STRAY}
        self._ledger.moved(route.line, ul, sd_ul, "pump", detail=detail)
        self._report(route, seen)

    def _report(self, route: Route, seen: str) -> None:
        self._alarm(
            "stray_flow",
            route.pump,
            f"{seen}, along {route.line}, without a command. Likely cause: a disturbed cable, or a person at the"
            " pump. Next: look at what it pumps into; read the level",
        )


def _new_status(view: ActuatorView, before: ActuatorView | None) -> PumpStatus | None:
    """Return the pump's status in `view`, or None if there is none or it is the one seen `before`."""
    if not isinstance(view.status, PumpStatus) or (before and view.status is before.status):
        return None
    return view.status
