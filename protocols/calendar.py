"""Days and hours of the local calendar at which a step may go on. Pure: the time is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MAX_AHEAD = timedelta(days=400)
"""How far ahead a day is searched for."""
DAY = timedelta(days=1)


class NoDay(ValueError):
    """No day of the calendar lies within :data:`MAX_AHEAD`."""


@dataclass(frozen=True, slots=True)
class Calendar:
    """Weekdays, excluded dates and quiet hours, in a time zone."""

    days: tuple[str, ...] = DAYS
    excluded: tuple[str, ...] = ()
    """Local dates (ISO 8601) that do not count, such as holidays."""
    quiet: tuple[str, str] | None = None
    """Local times (HH:MM) at which the quiet hours begin and end; they may pass midnight."""

    def has(self, day: date) -> bool:
        """Return whether a local date is a day of this calendar."""
        return DAYS[day.weekday()] in self.days and day.isoformat() not in self.excluded

    def first(self, day: date) -> date:
        """Return the first date from `day` on that counts; raise :class:`NoDay` if there is none."""
        last = day + MAX_AHEAD
        while day <= last:
            if self.has(day):
                return day
            day += DAY
        raise NoDay(f"no day of the calendar within {MAX_AHEAD.days} days before {day.isoformat()}")

    def end_of_quiet(self, now: datetime, zone: str) -> datetime:
        """Return the next moment, as UTC, that is outside the quiet hours and on a day that counts; `now` if it is one.

        A time that daylight saving omits comes later by the shift; of one that occurs twice, quiet hours end at the second.
        """
        where = ZoneInfo(zone)
        due = now
        while True:
            local = due.astimezone(where)
            day = self.first(local.date())
            if day != local.date():
                due = datetime.combine(day, time(), tzinfo=where).astimezone(UTC)
                continue
            end = self._quiet_until(local)
            if end is None:
                return due
            due = _later(end, where)

    def _quiet_until(self, local: datetime) -> datetime | None:
        """Return the local time at which the quiet hours around `local` end; None outside of them."""
        if self.quiet is None:
            return None
        begin, end = (time.fromisoformat(text) for text in self.quiet)
        now = local.time().replace(tzinfo=None)
        if begin < end:
            within, day = begin <= now < end, local.date()
        else:
            within, day = now >= begin or now < end, local.date() + (DAY if now >= begin else timedelta())
        return datetime.combine(day, end) if within else None

    def to_json(self) -> dict[str, Any]:
        """Return plain data; what is not given is left out."""
        data: dict[str, Any] = {}
        if self.days != DAYS:
            data["days"] = list(self.days)
        if self.excluded:
            data["except"] = list(self.excluded)
        return data if self.quiet is None else {**data, "quiet": list(self.quiet)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Calendar:
        """Return the calendar that :meth:`to_json` has written; other keys are ignored."""
        quiet = data.get("quiet")
        return cls(
            tuple(data.get("days", DAYS)),
            tuple(data.get("except", ())),
            None if quiet is None else (quiet[0], quiet[1]),
        )


def _later(local: datetime, where: ZoneInfo) -> datetime:
    """Return a local time as UTC; the second one if daylight saving repeats it."""
    return max(local.replace(tzinfo=where, fold=fold).astimezone(UTC) for fold in (0, 1))


@dataclass(frozen=True, slots=True)
class ClockTime:
    """A time of day in a time zone, on the days of a calendar."""

    at: str
    """HH:MM; empty: the next moment outside the calendar's quiet hours."""
    zone: str
    """Name of the time zone (IANA)."""
    calendar: Calendar = Calendar()
