"""Parse the period of a report: ISO dates with their zone, `7d`, `yesterday`, `begin`, `end`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from choroid.common.failure import UserError

FORMS = "2026-03-01T08:00+01:00, 2026-03-01T07:00Z, 7d, 36h, yesterday, today, begin or end"
_BACK = re.compile(r"(\d+(?:\.\d+)?)\s*(min|h|d|w)")
_SECONDS = {"min": 60.0, "h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0}
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True)
class Asked:
    """A period in UTC seconds, [begin, end)."""

    begin: float
    end: float


def zone_of(name: str) -> ZoneInfo:
    """Return a zone of the IANA data base, such as Europe/Zurich; raise :class:`UserError` for an unknown one."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UserError(
            f"--zone {name}: no such time zone. Likely cause: a mistyped name, or this machine has no zone data."
            " Next: write one such as Europe/Zurich or UTC"
        ) from None


def asked(
    begin: str | None,
    end: str | None,
    *,
    now: float,
    recorded: tuple[float, float] | None,
    zone: ZoneInfo | None = None,
) -> Asked:
    """Return the period of `--from` and `--to`.

    Args:
        begin: Text of `--from`.
        end: Text of `--to`.
        now: UTC seconds from which `7d` counts back, unless `--to` is given.
        recorded: Times of the first and the last record: the meaning of `begin` and `end`, and the default.
        zone: Zone of days and times without one; without it they are refused.

    Raises:
        UserError: The texts are invalid, or there is no record in the period.
    """
    if recorded is None:
        raise UserError(
            "nothing is recorded there. Likely cause: the controller has not run yet with this --data."
            " Next: start it, or name another --data"
        )
    wanted = _wanted(begin, end, now, recorded, zone)
    if wanted.end <= wanted.begin:
        raise UserError(
            f"the period ends ({_text(wanted.end)}) before it begins ({_text(wanted.begin)}). Likely cause: --from and --to"
            " the wrong way round, or a zone mistaken. Next: give a --from that is before --to"
        )
    if wanted.begin > recorded[1] or wanted.end < recorded[0]:
        raise UserError(
            f"nothing is recorded between {_text(wanted.begin)} and {_text(wanted.end)}; the records go from"
            f" {_text(recorded[0])} to {_text(recorded[1])}. Likely cause: another --data, or a simulation, whose calendar"
            " is its own. Next: ask for a period within, or count back from the last record: --from 7d --to end"
        )
    return wanted


def _wanted(
    begin: str | None, end: str | None, now: float, recorded: tuple[float, float], zone: ZoneInfo | None
) -> Asked:
    """Return the period of the texts, which may be empty or have no records."""
    words = (begin or "").strip().lower()
    if words in ("yesterday", "today") and end is None:
        days = zone or ZoneInfo("UTC")
        day = _day_of(words, now, days)
        return Asked(_midnight(day, days), min(_midnight(day + timedelta(days=1), days), now))
    if begin is None:
        return Asked(
            recorded[0], recorded[1] + 0.001 if end is None else _moment(end or "now", "--to", now, recorded, zone)
        )
    stop = _moment(end or "now", "--to", now, recorded, zone)
    back = _BACK.fullmatch(words)
    if back is not None:
        return Asked(stop - float(back[1]) * _SECONDS[back[2]], stop)
    return Asked(_moment(begin, "--from", now, recorded, zone), stop)


def _day_of(words: str, now: float, zone: ZoneInfo) -> date:
    """Return the date of `today` or `yesterday`."""
    return datetime.fromtimestamp(now, zone).date() - timedelta(days=words == "yesterday")


def _moment(text: str, option: str, now: float, recorded: tuple[float, float], zone: ZoneInfo | None) -> float:
    words = text.strip()
    match words.lower():
        case "now":
            return now
        case "begin":
            return recorded[0]
        case "end":
            return recorded[1] + 0.001
        case "today" | "yesterday":
            days = zone or ZoneInfo("UTC")
            return _midnight(_day_of(words.lower(), now, days), days)
    if (back := _BACK.fullmatch(words.lower())) is not None:
        return now - float(back[1]) * _SECONDS[back[2]]
    return _iso_moment(words, f"{option} {text}", zone)


def _iso_moment(words: str, given: str, zone: ZoneInfo | None) -> float:
    """Return UTC seconds of an ISO date or time; `given` is the option with its text, for the error."""
    try:
        if _DAY.fullmatch(words):
            moment = datetime.combine(date.fromisoformat(words), time())
        else:
            moment = datetime.fromisoformat(words)
    except ValueError:
        raise UserError(f"{given} is no time. Next: write {FORMS}") from None
    if moment.tzinfo is None:
        if zone is None:
            raise UserError(
                f"{given} has no time zone, and a report must not guess one. Next: write {words}"
                f"{'T00:00' if _DAY.fullmatch(words) else ''}Z, or say which with --zone Europe/Zurich"
            )
        moment = moment.replace(tzinfo=zone)
    return moment.timestamp()


def _midnight(day: date, zone: ZoneInfo) -> float:
    return datetime.combine(day, time(), zone).timestamp()


def _text(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
