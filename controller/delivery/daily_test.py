"""When the daily test of the channels is due, in the laboratory's local time."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from zoneinfo import ZoneInfo


def moment_of_test(day: date, at: time, zone: ZoneInfo) -> datetime:
    """Return the time of the test of one local day as UTC.

    If the clock is put forward over it, the test comes later by the shift; if the clock is put back, the first of the two
    hours counts. Each local day thus has one test.
    """
    return datetime.combine(day, at, tzinfo=zone).astimezone(UTC)


def day_to_test(now: datetime, tested: date | None, at: time, zone: ZoneInfo) -> date | None:
    """Return the local day whose test is due, or None. A channel that was never tested is due at once."""
    today = now.astimezone(zone).date()
    if tested is not None and (tested >= today or now < moment_of_test(today, at, zone)):
        return None
    return today
