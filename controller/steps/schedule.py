"""Times of day in a time zone, through daylight saving and clock steps. Pure (E7)."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

LONGEST_DAY_S = 26 * 3600.0
"""Maximum time (s) from one 09:00 to the next, with a change of daylight saving and an hour for an odd zone."""
APART = timedelta(hours=12)
"""If the last occurrence lies further ahead than this, the clock was set back by a day or more since. Its date then means
nothing, and this is the minimum time between two occurrences instead."""


def next_time(now: datetime, at: str, zone: str, after: str | None, *, since_s: float | None = None) -> datetime:
    """Return the next `at` in a time zone, as UTC.

    A time that daylight saving omits comes later by the shift (02:30 is 03:30); one that occurs twice counts the first
    time. Each local date has one occurrence: a clock that is set back repeats none. A clock that is set far ahead and back
    again delays the next occurrence by at most a day and a half.

    Args:
        now: the present time (aware).
        at: time of day, HH:MM.
        zone: name of the time zone.
        after: the last occurrence (ISO 8601); the next one has a later date.
        since_s: monotonic time since the last occurrence (s), if known. A clock that is put forward then brings no
            occurrence within half a day of it.
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
