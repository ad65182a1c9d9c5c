"""Sample IDs of at-line analysers: `PLACE`, `PLACE-HHMM` or `PLACE-MMDD-HHMM`, by the clock of the laboratory."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

_ID = re.compile(
    r"(?P<place>.*?)(?:[-_ ](?P<month>\d\d)(?P<day>\d\d))?[-_ ](?P<hour>[01]\d|2[0-3])(?P<minute>[0-5]\d)", re.DOTALL
)
AHEAD = timedelta(minutes=5)
"""A sample that was taken later than this after the begin of its measurement was taken on the day before."""


class SampleIdError(ValueError):
    """A sample ID whose time is none."""


@dataclass(frozen=True, slots=True)
class SampleId:
    """A place of the rig, and when the sample was taken by the clock of the laboratory; None where the ID does not say."""

    place: str
    taken: datetime | None


def parse_sample_id(text: str, places: Collection[str], short: Mapping[str, str], before: datetime) -> SampleId | None:
    """Return what a sample ID says, or None if it names no place of the rig.

    Args:
        text: The ID as entered at the analyser; upper and lower case count as the same.
        places: Names of places that are understood.
        short: Short names, with the places that they stand for.
        before: Begin of the measurement, or else the present, by the same clock: the sample was taken before.

    Raises:
        SampleIdError: It names a place, and a time that cannot be.
    """
    known = {name.lower(): name for name in places} | {name.lower(): place for name, place in short.items()}
    whole = known.get(text.strip().lower())
    if whole is not None:
        return SampleId(whole, None)
    found = _ID.fullmatch(text.strip())
    place = None if found is None else known.get(found["place"].strip().lower())
    if found is None or place is None:
        return None
    hour, minute = int(found["hour"]), int(found["minute"])
    if found["month"] is None:
        taken = before.replace(hour=hour, minute=minute, second=0, microsecond=0)
        return SampleId(place, taken if taken <= before + AHEAD else taken - timedelta(days=1))
    try:
        taken = datetime(before.year, int(found["month"]), int(found["day"]), hour, minute, tzinfo=before.tzinfo)
    except ValueError:
        raise SampleIdError(f"“{text}” has no day of the year before its time") from None
    if taken > before + timedelta(days=1):
        taken = taken.replace(year=before.year - 1)
    return SampleId(place, taken)
