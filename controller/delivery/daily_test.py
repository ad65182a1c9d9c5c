"""When the daily test of the channels is due, in the laboratory's local time."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from zoneinfo import ZoneInfo


def moment_of_test(day: date, at: time, zone: ZoneInfo) -> datetime:
    """The test of one local day as UTC.

    Where the clock is put forward over it, it is as long after the change as it was to be; where the clock is put back, the
    first of the two hours counts. So each local day has one test.
    """
    return datetime.combine(day, at, tzinfo=zone).astimezone(UTC)


def day_to_test(now: datetime, tested: date | None, at: time, zone: ZoneInfo) -> date | None:
    """The local day whose test is due now; None when it is done or not yet due. A channel never tested is due at once."""
    today = now.astimezone(zone).date()
    if tested is not None and (tested >= today or now < moment_of_test(today, at, zone)):
        return None
    return today
