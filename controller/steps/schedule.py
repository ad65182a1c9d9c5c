"""Times of day: when is it next 09:00 here? Pure; through daylight saving and clocks that step (E7)."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

LONGEST_DAY_S = 26 * 3600.0
"""From one 09:00 to the next, a change of daylight saving and an hour for an odd zone included."""
APART = timedelta(hours=12)
"""The last time that was waited for lies further ahead than this: the clock was set back by a day or more since. Then its
date tells nothing, and so much is kept between two turns instead."""


def next_time(now: datetime, at: str, zone: str, after: str | None, *, since_s: float | None = None) -> datetime:
    """The next `at` (HH:MM) in `zone`, as UTC: not before `now` (aware), and of a later date than `after` (ISO 8601).

    A time that daylight saving leaves out comes as much later as the clocks were put forward (02:30 is 03:30); one that
    comes twice counts the first time. Each local date has one: a clock that is set back repeats nothing, one that is set
    far ahead and back again puts the next turn off by no more than a day and a half. `since_s` is how long ago (monotonic, s)
    the last turn was, where that is known: a clock that is put forward brings no turn sooner than half a day after it.
    """
    where = ZoneInfo(zone)
    earliest = now if since_s is None else now + max(APART - timedelta(seconds=since_s), timedelta())
    last = None if after is None else datetime.fromisoformat(after)
    if last is not None and last - now > APART:
        earliest, last = now + APART, None
    date = earliest.astimezone(where).date() - timedelta(days=1)
    clock = time.fromisoformat(at)
    while True:
        due = datetime.combine(date, clock, tzinfo=where).astimezone(UTC)
        if due >= earliest and (last is None or date > last.astimezone(where).date()):
            return due
        date += timedelta(days=1)
