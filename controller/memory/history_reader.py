"""Read history while a controller runs, or afterwards: nothing is written, locked or renamed.

Reads stream row by row, so that a year takes no more memory than a day.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from controller.core.database import open_to_read
from controller.memory.history_format import HISTORY, LEVELS_S

FINEST_STRETCHES = 25_000
"""A series is read in no more stretches than this: a month in two minutes each, a quarter of a year in ten."""

_STRETCHES = """
SELECT bucket * level, n, total, least, most FROM rollup
WHERE level = ? AND series = ? AND bucket >= ? AND bucket < ? ORDER BY bucket
"""
_RAW = "SELECT at, value FROM raw WHERE series = ? AND at >= ? AND at < ? ORDER BY at"
_READINGS = """
SELECT at, value, 'good' FROM raw WHERE series = :series AND at >= :begin AND at < :end
UNION ALL SELECT at, value, quality FROM doubted WHERE series = :series AND at >= :begin AND at < :end ORDER BY at
"""


class Stretch(NamedTuple):
    """Readings of one series in [begin, begin + width): number `n`, sum, minimum and maximum."""

    begin: float
    n: int
    total: float
    least: float
    most: float


class HistoryUnreadable(Exception):
    """The file cannot be read: what, where, likely cause, next action."""


class HistoryReader:
    """See the module. Times are UTC in seconds since 1970; the reader sees the file as it was when it was opened."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise HistoryUnreadable(
                f"there is no history at {path}. Likely cause: no controller has run with this --data. Next: name the"
                " directory that `choroid run` or `choroid simulate --data` was given"
            )
        try:
            with contextlib.ExitStack() as undone:
                self._db = undone.enter_context(contextlib.closing(open_to_read(path)))
                self._db.execute("BEGIN")
                (found,) = self._db.execute("PRAGMA user_version").fetchone()
                if found != HISTORY.version:
                    raise HistoryUnreadable(_of_another_format(path, found))
                rows = self._db.execute("SELECT id, point, unit FROM series ORDER BY id").fetchall()
                undone.pop_all()
        except sqlite3.Error as error:
            raise HistoryUnreadable(
                f"{path} cannot be read ({error}). Likely cause: the file is damaged, or its directory may not be read."
                " Next: check permissions; restore it from a backup"
            ) from None
        self._every: list[tuple[int, str, str]] = rows
        self._ids: dict[str, int] = {}
        self._units: dict[str, str] = {}
        for number, point, unit in rows:  # a point whose unit was changed goes on under its newest one
            self._ids[point], self._units[point] = number, unit

    @property
    def series(self) -> dict[str, str]:
        """Every point that was ever kept, with the unit it was last in."""
        return dict(self._units)

    def extent(self) -> tuple[float, float] | None:
        """When the oldest and the newest reading of all were taken; None when there are none."""
        found = [
            self._db.execute(
                "SELECT (SELECT at FROM raw WHERE series = :series ORDER BY at LIMIT 1),"
                " (SELECT at FROM raw WHERE series = :series ORDER BY at DESC LIMIT 1)",
                {"series": number},
            ).fetchone()
            for number in self._ids.values()
        ]
        ends = [(first, last) for first, last in found if first is not None]
        return (min(first for first, _ in ends), max(last for _, last in ends)) if ends else None

    def width_for(self, begin: float, end: float, every_s: float) -> int:
        """Return the width of the stretches (s) in which a series is read for a period. It is the finest that holds two
        readings taken every `every_s`: a finer one would have gaps.
        """
        fits = (level for level in LEVELS_S if level >= 2 * every_s and (end - begin) / level <= FINEST_STRETCHES)
        return next(fits, LEVELS_S[-1])

    def stretches(self, point: str, begin: float, end: float, width: int) -> Iterator[Stretch]:
        """Yield the stretches of `point` that begin or lie in [begin, end), `width` wide (one of history's levels)."""
        number = self._ids.get(point)
        if number is None:
            return
        first, last = int(begin // width), -int(-end // width)
        yield from map(Stretch._make, self._rows(_STRETCHES, (width, number, first, last)))

    def raw(self, point: str, begin: float, end: float) -> Iterator[tuple[float, float]]:
        """Yield every reading of `point` in [begin, end): (UTC seconds, value)."""
        number = self._ids.get(point)
        if number is not None:
            yield from self._rows(_RAW, (number, begin, end))

    def readings(self, begin: float, end: float) -> Iterator[tuple[float, str, float, str, str]]:
        """Yield every reading in [begin, end), the doubted ones included.

        Returns:
            (UTC seconds, point, value, unit, quality), by series and then by time. A point whose unit was changed comes once
            with each.
        """
        for number, point, unit in self._every:
            for at, value, quality in self._rows(_READINGS, {"series": number, "begin": begin, "end": end}):
                yield at, point, value, unit, quality

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def _rows(self, query: str, values: Sequence[float] | Mapping[str, float]) -> Iterator[tuple[Any, ...]]:
        try:
            yield from self._db.execute(query, values)
        except sqlite3.DatabaseError as error:
            raise HistoryUnreadable(
                f"history cannot be read ({error}). Likely cause: the file is damaged. Next: keep a copy, and restore"
                " history.db from a backup; the journal is a file of its own"
            ) from None


def _of_another_format(path: Path, found: int) -> str:
    return (
        f"{path} has format {found}, this Choroid reads format {HISTORY.version}. Likely cause: another release wrote it."
        " Next: use that release"
    )
