"""Times of day, weekdays, excluded dates and quiet hours as a recipe file writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import Any
from zoneinfo import ZoneInfo

from controller.recipes.values import Values
from controller.rig.problems import Place
from protocols.calendar import DAYS, Calendar, ClockTime

TIME = r"([01]\d|2[0-3]):[0-5]\d"
MAX_EXCLUDED = 50
"""Maximum number of excluded dates: a year has more of each weekday, so some day is always left."""
CALENDAR = ("days", "except", "quiet")
"""Entries of a calendar."""


def clock_time(values: Values, entries: Mapping[str, Any], place: Place, *, key: str) -> ClockTime | None:
    """Return the time of day of the entry `key` and its calendar; None where there is none, or where it is wrong."""
    before = len(values.problems)
    at, zone, quiet = entries.get(key), entries.get("zone"), entries.get("quiet")
    if at is None and quiet is None:
        for alone in ("zone", *CALENDAR):
            if alone in entries:
                values.wrong((*place, alone), f"“{alone}” without “{key}”", f"Remove it, or add {key}")
        return None
    if at is not None and quiet is not None:
        values.wrong(
            (*place, "quiet"),
            f"“quiet” in addition to “{key}”",
            "Write two steps, or choose a time outside quiet hours",
        )
    if at is not None and (not isinstance(at, str) or not re.fullmatch(TIME, at)):
        values.wrong((*place, key), f"“{at}” is no time of day", 'Write it in quotes, as in "09:00"')
    elif not _is_zone(zone):
        what = f"“{zone}” is no time zone" if zone else "the time zone is missing"
        values.wrong((*place, "zone" if zone else key), what, "Write one such as zone: Europe/Berlin")
    calendar = Calendar(
        _days(values, entries, place), _excluded(values, entries, place), _quiet(values, entries, place)
    )
    return None if len(values.problems) > before else ClockTime(at or "", str(zone), calendar)


def _is_zone(zone: object) -> bool:
    try:
        ZoneInfo(str(zone))
    except (KeyError, ValueError, OSError):
        return False
    return isinstance(zone, str)


def _days(values: Values, entries: Mapping[str, Any], place: Place) -> tuple[str, ...]:
    given = entries.get("days")
    if given is None:
        return DAYS
    if (
        not isinstance(given, list)
        or not given
        or not all(day in DAYS for day in given)
        or len(set(given)) != len(given)
    ):
        values.wrong((*place, "days"), "is not a list of weekdays", "Write days: [mon, wed, fri]")
        return DAYS
    return tuple(day for day in DAYS if day in given)


def _excluded(values: Values, entries: Mapping[str, Any], place: Place) -> tuple[str, ...]:
    given = entries.get("except")
    if given is None:
        return ()
    try:
        days = [date.fromisoformat(str(day)).isoformat() for day in given]
    except (TypeError, ValueError):
        days = []
    if not isinstance(given, list) or not 0 < len(days) <= MAX_EXCLUDED:
        values.wrong((*place, "except"), f"is not a list of 1 to {MAX_EXCLUDED} dates", "Write except: [2026-12-25]")
        return ()
    return tuple(sorted(set(days)))


def _quiet(values: Values, entries: Mapping[str, Any], place: Place) -> tuple[str, str] | None:
    given = entries.get("quiet")
    if given is None:
        return None
    begin, _, end = str(given).partition("-")
    if not re.fullmatch(TIME, begin) or not re.fullmatch(TIME, end) or begin == end:
        values.wrong((*place, "quiet"), f"“{given}” is no span of hours", 'Write it in quotes, as in "20:00-07:00"')
        return None
    return begin, end
