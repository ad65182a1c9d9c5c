"""History: every reading, kept for months in SQLite and drawn in no time.

Raw points are kept as they came. Coarser levels hold count, sum, minimum and maximum of each interval; every flush
updates them. A query counts the points in the period and reads the level that is nearest to the requested resolution:
thirty days are drawn as quickly as an hour, and neither loses a peak.

Only good readings are drawn and summed. A suspect one is kept apart in the table `doubted` (`series`, `at`, `value`,
`quality`), so that a person can look up what was not believed.

Nothing here can stop the control loop: when the disk is full or the file is damaged, readings wait in memory, the
oldest are given up in the end, and :attr:`History.problem` says so (D2).
"""

from __future__ import annotations

import logging
import math
import sqlite3
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from controller.core.clock import Clock
from controller.core.database import open_to_write
from controller.core.discarded import Discarded
from controller.core.disk import remedy
from controller.core.state import Reading
from controller.memory.file import open_database, without_checkpoints
from controller.memory.history_format import HISTORY, LEVELS_S
from drivers.commands import Quality

logger = logging.getLogger(__name__)

COARSE_ENOUGH = 1.5
"""A level so much coarser than asked is taken as it is, rather than put together from a finer one."""
FLUSH_S = 60.0
FLUSH_POINTS = 5000
RETRY_S = 10.0
MAX_WAITING = 500_000
"""So many points may wait for a disk that takes none (some 60 MB, hours of a default rig)."""

_KEEP = "INSERT OR REPLACE INTO raw VALUES (?, ?, ?)"
_DOUBT = "INSERT OR REPLACE INTO doubted VALUES (?, ?, ?, ?)"
_DOUBTED = """
SELECT at, value, quality FROM doubted WHERE series=? AND at BETWEEN ? AND ? ORDER BY at LIMIT ?
"""
_ROLL = """
INSERT INTO rollup VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (level, series, bucket) DO UPDATE SET
    n = n + excluded.n, total = total + excluded.total,
    least = min(least, excluded.least), most = max(most, excluded.most)
"""
_EXTENT = """
SELECT (SELECT at FROM raw WHERE series=:series AND at BETWEEN :begin AND :end ORDER BY at LIMIT 1),
       (SELECT at FROM raw WHERE series=:series AND at BETWEEN :begin AND :end ORDER BY at DESC LIMIT 1)
"""
_FEW_RAW = "SELECT at, value FROM raw WHERE series=? AND at BETWEEN ? AND ? ORDER BY at LIMIT ?"
_GROUPED_RAW = """
SELECT avg(at), avg(value), min(value), max(value) FROM raw
WHERE series=? AND at BETWEEN ? AND ? GROUP BY CAST(at / ? AS INTEGER) ORDER BY 1
"""
_ROLLUP = """
SELECT min(max((bucket + 0.5) * :level, :begin), :end), total / n, least, most
FROM rollup WHERE level=:level AND series=:series AND bucket BETWEEN :first AND :last ORDER BY bucket
"""
_GROUPED_ROLLUP = """
SELECT min(max((bucket / :group + 0.5) * :group * :level, :begin), :end), sum(total) / sum(n), min(least), max(most)
FROM rollup WHERE level=:level AND series=:series AND bucket BETWEEN :first AND :last GROUP BY bucket / :group ORDER BY 1
"""

_Point = tuple[int, float, float]
_Doubted = tuple[int, float, float, str]
_Rolled = dict[tuple[int, int], list[float]]


class SeriesPoint(NamedTuple):
    """Mean, minimum and maximum of a series around `at` (UTC, seconds since 1970)."""

    at: float
    mean: float
    least: float
    most: float


class History:
    """See the module. All times are UTC in seconds since 1970."""

    def __init__(self, path: Path, clock: Clock, *, flush_s: float = FLUSH_S, autocheckpoint: bool = True) -> None:
        """Open the file, or keep readings in memory until it can be opened.

        Args:
            path: The file.
            clock: The time of the loop.
            flush_s: How much of the newest a crash may take (s of loop time).
            autocheckpoint: Whether writes may wait for the disk. Without it the caller checkpoints the file now and then
                (:func:`controller.core.database.checkpoint`).
        """
        self._flush_s = flush_s
        self._autocheckpoint = autocheckpoint
        self._path = path
        self._clock = clock
        self._db = open_to_write(":memory:", busy_s=0.0)
        """An empty one stands in for the file until that can be opened."""
        self._db.executescript(HISTORY.schema)
        self._opened = False
        self._ids: dict[tuple[str, str], int] = {}
        self._units: dict[str, str] = {}
        self._seen: dict[str, float] = {}
        self._waiting: list[_Point] = []
        self._doubted: list[_Doubted] = []
        self._next_flush_s = clock.now_s() + flush_s
        self.given_up = 0
        """Points that were lost because no disk would take them."""
        self.problem: str | None = None
        """Why nothing can be written at present, for people."""
        try:
            self._open()
        except (sqlite3.Error, OSError) as error:
            if not path.parent.is_dir():
                self._db.close()
                raise  # the cause is a wrong path, not a failing disk
            self._put_off(error)
            self._next_flush_s = clock.now_s() + RETRY_S

    @property
    def discarded(self) -> tuple[Discarded, ...]:
        """What was given up so far."""
        return (Discarded("history", "readings for which neither disk nor memory had room", self.given_up),)

    def add(self, at_s: float, utc: str, readings: Mapping[str, Reading]) -> None:
        """Keep every reading that is new since the last call; `at_s` is loop time now, as are the readings' times.

        What is neither good nor suspect carries no value of its time, and is not kept.
        """
        offset: float | None = None
        seen = self._seen
        for point, reading in readings.items():
            quality = reading.quality
            if seen.get(point) == reading.at_s or not reading.unit:
                continue
            if quality is not Quality.GOOD and quality is not Quality.SUSPECT:
                continue
            seen[point] = reading.at_s
            if not math.isfinite(reading.value):
                continue
            if offset is None:
                offset = round(self._clock.utc_us() / 1e6 - at_s, 3)
            series = self._ids.get((point, reading.unit)) or self._new_series(point, reading.unit)
            if quality is Quality.GOOD:
                self._waiting.append((series, reading.at_s + offset, reading.value))
            else:
                self._doubted.append((series, reading.at_s + offset, reading.value, quality.value))
        self._flush_if_due(at_s)

    def _flush_if_due(self, at_s: float) -> None:
        """Write what waits if its time has come, or if there is much of it and the disk takes it."""
        if at_s >= self._next_flush_s or (len(self._waiting) >= FLUSH_POINTS and self.problem is None):
            self._next_flush_s = at_s + (self._flush_s if self.flush() else RETRY_S)

    def insert(self, point: str, unit: str, points: Iterable[tuple[float, float]]) -> None:
        """Keep many finite (UTC seconds, value) of one series at once."""
        series = self._ids.get((point, unit)) or self._new_series(point, unit)
        self._waiting += [(series, at, value) for at, value in points]
        self.flush()

    def flush(self) -> bool:
        """Write what waits, in one transaction; False, and a `problem`, when the disk would not take it."""
        if not self._waiting and not self._doubted:
            return True
        try:
            if not self._opened:
                self._open()
            self._db.execute("BEGIN")
            self._db.executemany("INSERT OR IGNORE INTO series VALUES (?, ?, ?)", self._series_rows())
            self._db.executemany(_KEEP, self._waiting)
            self._db.executemany(_DOUBT, self._doubted)
            self._db.executemany(_ROLL, _rollups(self._waiting))
            self._db.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            self._put_off(error)
            return False
        self._waiting.clear()
        self._doubted.clear()
        if self.problem is not None:
            logger.warning("history is written again; %d readings were given up", self.given_up)
            self.problem = None
        return True

    def series(self) -> dict[str, str]:
        """Return every point that was ever kept, with its latest unit."""
        return dict(self._units)

    def last_at(self) -> float | None:
        """Return when the newest kept reading was taken (s since 1970, UTC); None if there is none."""
        query = "SELECT max((SELECT at FROM raw WHERE series=id ORDER BY at DESC LIMIT 1)) FROM series"
        found: float | None = self._db.execute(query).fetchone()[0]
        return found

    def query(self, point: str, begin: float, end: float, max_points: int = 1000) -> list[SeriesPoint]:
        """Return `point` from `begin` to `end`, in at most `max_points` (two or more) stretches; empty for an unknown
        point.
        """
        series = self._ids.get((point, self._units.get(point, "")))
        if series is None or end <= begin:
            return []
        if self.problem is None:
            self.flush()
        begin, end = self._db.execute(_EXTENT, {"series": series, "begin": begin, "end": end}).fetchone()
        if begin is None:
            return []
        width = (end - begin) / max(1, max_points - 1)  # one less, because both ends may be cut by a boundary
        level = _level_for(width)
        if level is not None:
            group = math.ceil(width / level)
            of = {"series": series, "level": level, "group": group, "begin": begin, "end": end}
            of |= {"first": int(begin // level), "last": int(end // level)}
            return [*map(SeriesPoint._make, self._db.execute(_GROUPED_ROLLUP if group > 1 else _ROLLUP, of))]
        few = self._db.execute(_FEW_RAW, (series, begin, end, max_points + 1)).fetchall()
        if len(few) <= max_points:
            return [SeriesPoint(at, value, value, value) for at, value in few]
        return [*map(SeriesPoint._make, self._db.execute(_GROUPED_RAW, (series, begin, end, width)))]

    def doubted(self, point: str, begin: float, end: float, max_points: int = 1000) -> list[tuple[float, float, str]]:
        """Return (time, value, quality) of the readings of `point` that were not believed, oldest first."""
        series = self._ids.get((point, self._units.get(point, "")))
        if series is None:
            return []
        if self.problem is None:
            self.flush()
        return self._db.execute(_DOUBTED, (series, begin, end, max_points)).fetchall()

    def close(self) -> None:
        """Write what waits and close the file."""
        self.flush()
        self._db.close()

    def _new_series(self, point: str, unit: str) -> int:
        """Return the number of a new series; it reaches the file with its first points."""
        number = max(self._ids.values(), default=0) + 1
        self._ids[point, unit] = number
        self._units[point] = unit
        return number

    def _series_rows(self) -> Iterable[tuple[int, str, str]]:
        return ((number, point, unit) for (point, unit), number in self._ids.items())

    def _open(self) -> None:
        """Open the file; what waits gets the numbers that its series have there."""
        db = open_database(self._path, HISTORY)
        if not self._autocheckpoint:
            without_checkpoints(db)
        known = db.execute("SELECT id, point, unit FROM series ORDER BY id").fetchall()
        self._db.close()
        self._db, self._opened = db, True
        waiting, units = self._ids, self._units
        self._ids = {(point, unit): number for number, point, unit in known}
        self._units = {point: unit for _, point, unit in known}
        numbers = {number: self._ids.get(key) or self._new_series(*key) for key, number in waiting.items()}
        self._units |= units
        self._waiting = [(numbers[series], at, value) for series, at, value in self._waiting]
        self._doubted = [(numbers[series], at, value, how) for series, at, value, how in self._doubted]

    def _put_off(self, error: Exception) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")
        if self.problem is None:
            logger.error("history cannot be written (%s); readings wait in memory, control goes on", error)
        self.problem = f"history cannot be written: {error}. {remedy(error, self._path.parent)}"
        doubted = max(len(self._doubted) - MAX_WAITING, 0)
        del self._doubted[:doubted]
        self.given_up += doubted
        excess = len(self._waiting) - MAX_WAITING
        if excess > 0:
            del self._waiting[:excess]
            self.given_up += excess


def _level_for(width: float) -> int | None:
    """Return the level from which stretches of `width` seconds are drawn; None for the raw points."""
    as_it_is = next((level for level in LEVELS_S if width <= level <= COARSE_ENOUGH * width), None)
    return as_it_is or next((level for level in reversed(LEVELS_S) if level <= width), None)


def _rollups(points: Iterable[_Point]) -> Iterable[tuple[float, ...]]:
    """Yield the rows of every level; each level is made of the one below, so that each point is read once."""
    finest = LEVELS_S[0]
    rolled: _Rolled = {}
    for series, at, value in points:
        key = (series, int(at // finest))
        entry = rolled.get(key)
        if entry is None:
            rolled[key] = [1, value, value, value]
            continue
        entry[0] += 1
        entry[1] += value
        if value < entry[2]:
            entry[2] = value
        elif value > entry[3]:
            entry[3] = value
    yield from _rows(finest, rolled)
    for below, level in pairwise(LEVELS_S):
        rolled = _coarser(rolled, level // below)
        yield from _rows(level, rolled)


def _coarser(finer: _Rolled, times: int) -> _Rolled:
    rolled: _Rolled = {}
    for (series, bucket), (n, total, least, most) in finer.items():
        key = (series, bucket // times)
        entry = rolled.get(key)
        if entry is None:
            rolled[key] = [n, total, least, most]
        else:
            rolled[key] = [entry[0] + n, entry[1] + total, min(entry[2], least), max(entry[3], most)]
    return rolled


def _rows(level: int, rolled: _Rolled) -> Iterable[tuple[float, ...]]:
    return ((level, *key, *entry) for key, entry in rolled.items())
