"""Journal rows for interlocks that trip, latch and clear."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from controller.safety.terms import Trip


class TripRecord:
    """Writes a journal row for each interlock that trips, changes its cause, latches or clears. `record(kind, body)`
    writes a row.
    """

    def __init__(self, record: Callable[[str, Mapping[str, Any]], None]) -> None:
        self._record = record
        self._trips: tuple[Trip, ...] = ()

    def note(self, trips: tuple[Trip, ...]) -> None:
        """Record trips that are new or have another cause, latches, and interlocks that cleared."""
        if trips == self._trips == ():
            return
        before = {(trip.interlock, trip.point): trip for trip in self._trips}
        for trip in trips:
            known = before.pop((trip.interlock, trip.point), None)
            row = {"interlock": trip.interlock, "point": trip.point, "detail": trip.detail}
            if known is None or known.cause is not trip.cause:
                self._record("safety.trip", row | {"cause": trip.cause.value, "response": trip.response.value})
            if trip.latched and not (known is not None and known.latched):
                self._record("safety.latch", row)
        remaining = {trip.interlock for trip in trips}
        for name, point in sorted(before):
            # The point is named where the interlock goes on at another one, such as a second valve.
            self._record("safety.clear", {"interlock": name} | ({"point": point} if name in remaining else {}))
        self._trips = trips
