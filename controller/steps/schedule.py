"""Times of day in a time zone, through daylight saving and clock steps. Pure (E7)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from protocols.calendar import DAY, Calendar

MARGIN = timedelta(hours=2)
"""A day may be longer than 24 h by this: a change of daylight saving, and an hour for an odd zone."""
APART = timedelta(hours=12)
"""If the last occurrence lies further ahead than this, the clock was set back by a day or more since. Its date then means
nothing, and this is the minimum time between two occurrences instead."""


def next_time(now: datetime, args: Mapping[str, Any], *, since_s: float | None = None) -> datetime:
    """Return the next time of day that a step waits for, as UTC.

    A time that daylight saving omits comes later by the shift (02:30 is 03:30); one that occurs twice counts the first
    time. Each local date has one occurrence: a clock that is set back repeats none. A clock that is set far ahead and back
    again delays the next occurrence by at most a day and a half.

    Args:
        now: The present time (aware).
        args: Arguments of the step: `at` (HH:MM; empty: the next moment outside quiet hours), `zone`, `after` (the last
            occurrence, ISO 8601, or None: the next one has a later date), and those of :class:`Calendar`.
        since_s: Monotonic time since the last occurrence (s), if known. A clock that is put forward then brings no
            occurrence within half a day of it.
    """
    calendar, where = Calendar.from_json(args), ZoneInfo(args["zone"])
    if not args["at"]:
        return calendar.end_of_quiet(now, args["zone"])
    earliest = now if since_s is None else now + max(APART - timedelta(seconds=since_s), timedelta())
    last = None if args["after"] is None else datetime.fromisoformat(args["after"])
    if last is not None and last - now > APART:
        earliest, last = now + APART, None
    date = earliest.astimezone(where).date() - DAY
    clock = time.fromisoformat(args["at"])
    while True:
        date = calendar.first(date)
        due = datetime.combine(date, clock, tzinfo=where).astimezone(UTC)
        if due >= earliest and (last is None or date > last.astimezone(where).date()):
            return due
        date += DAY


def longest_s(until: str, args: Mapping[str, Any]) -> float:
    """Return the maximum duration (s) of a wait for `until` (ISO 8601): from the day of the calendar before it, with a
    margin for daylight saving. A clock that was set back while the controller was down does not extend a wait beyond it.
    """
    calendar = Calendar.from_json(args)
    date = datetime.fromisoformat(until).astimezone(ZoneInfo(args["zone"])).date()
    before = date - DAY
    while not calendar.has(before):
        before -= DAY
    return (date - before + MARGIN).total_seconds()


def local_text(utc: str, zone: str) -> str:
    """Return a time (ISO 8601) with weekday and date in a time zone, for people."""
    return f"{datetime.fromisoformat(utc).astimezone(ZoneInfo(zone)):%a %Y-%m-%d %H:%M} ({zone})"
