"""History: every reading, kept for months in SQLite and drawn in no time.

Raw points are kept as they came; beside them coarser levels (half a minute, five minutes, an hour) hold count, sum, least and
greatest of each stretch, kept up to date at every flush. A query takes the finest level that needs no more points than
were asked for, so thirty days draw as quickly as an hour.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from controller.clock import Clock
from controller.state import Reading
from drivers.device import Quality

LEVELS_S = (30, 300, 3600)
FLUSH_S = 30.0
FLUSH_POINTS = 5000

_SCHEMA = """
CREATE TABLE IF NOT EXISTS series (id INTEGER PRIMARY KEY, point TEXT NOT NULL UNIQUE, unit TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS raw (
    series INTEGER NOT NULL, at REAL NOT NULL, value REAL NOT NULL, PRIMARY KEY (series, at)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rollup (
    level INTEGER NOT NULL, series INTEGER NOT NULL, bucket INTEGER NOT NULL,
    n INTEGER NOT NULL, total REAL NOT NULL, least REAL NOT NULL, most REAL NOT NULL,
    PRIMARY KEY (level, series, bucket)
) WITHOUT ROWID;
"""
_ROLL = """
INSERT INTO rollup VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (level, series, bucket) DO UPDATE SET
    n = n + excluded.n, total = total + excluded.total,
    least = min(least, excluded.least), most = max(most, excluded.most)
"""


@dataclass(frozen=True, slots=True)
class Stretch:
    """What a series did around `at` (UTC, seconds since 1970): mean, least and greatest."""

    at: float
    mean: float
    least: float
    most: float


class History:
    """See the module. All times are UTC in seconds since 1970."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._clock = clock
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.executescript(_SCHEMA)
        self._ids: dict[str, int] = dict(self._db.execute("SELECT point, id FROM series"))
        self._units: dict[str, str] = dict(self._db.execute("SELECT point, unit FROM series"))
        self._seen: dict[str, float] = {}
        self._buffer: list[tuple[int, float, float]] = []
        self._flushed_s = clock.now_s()

    def add(self, at_s: float, utc: str, readings: Mapping[str, Reading]) -> None:
        """Keep every reading that is new since the last call; `at_s` is loop time now, as are the readings' times."""
        offset: float | None = None
        seen = self._seen
        for point, reading in readings.items():
            if reading.quality is Quality.BAD or not reading.unit or seen.get(point) == reading.at_s:
                continue
            seen[point] = reading.at_s
            if offset is None:
                offset = self._clock.utc().timestamp() - at_s
            self._buffer.append((self._id(point, reading.unit), reading.at_s + offset, reading.value))
        if at_s - self._flushed_s >= FLUSH_S or len(self._buffer) >= FLUSH_POINTS:
            self._flushed_s = at_s
            self.flush()

    def insert(self, point: str, unit: str, points: Iterable[tuple[float, float]]) -> None:
        """Keep many (UTC seconds, value) of one series at once."""
        series = self._id(point, unit)
        self._buffer += [(series, at, value) for at, value in points]
        self.flush()

    def flush(self) -> None:
        """Write what is buffered, in one transaction."""
        if not self._buffer:
            return
        rolled: dict[tuple[int, int, int], list[float]] = {}
        for series, at, value in self._buffer:
            for level in LEVELS_S:
                key = (level, series, int(at // level))
                entry = rolled.get(key)
                if entry is None:
                    rolled[key] = [1, value, value, value]
                else:
                    entry[0] += 1
                    entry[1] += value
                    if value < entry[2]:
                        entry[2] = value
                    elif value > entry[3]:
                        entry[3] = value
        self._db.execute("BEGIN")
        self._db.executemany("INSERT OR REPLACE INTO raw VALUES (?, ?, ?)", self._buffer)
        self._db.executemany(_ROLL, ((*key, *entry) for key, entry in rolled.items()))
        self._db.execute("COMMIT")
        self._buffer.clear()

    def series(self) -> dict[str, str]:
        """Every point that was ever kept, with its unit."""
        return dict(self._units)

    def query(self, point: str, begin: float, end: float, max_points: int = 1000) -> list[Stretch]:
        """`point` from `begin` to `end`, in at most about `max_points` stretches; empty for an unknown point."""
        series = self._ids.get(point)
        if series is None or end <= begin:
            return []
        self.flush()
        (count,) = self._db.execute(
            "SELECT count(*) FROM (SELECT 1 FROM raw WHERE series=? AND at BETWEEN ? AND ? LIMIT ?)",
            (series, begin, end, max_points + 1),
        ).fetchone()
        if count <= max_points:
            rows = self._db.execute(
                "SELECT at, value FROM raw WHERE series=? AND at BETWEEN ? AND ? ORDER BY at", (series, begin, end)
            )
            return [Stretch(at, value, value, value) for at, value in rows]
        (first,) = self._db.execute("SELECT min(at) FROM raw WHERE series=? AND at>=?", (series, begin)).fetchone()
        begin = max(begin, first)
        level = next((level for level in LEVELS_S if (end - begin) / level <= max_points), LEVELS_S[-1])
        rows = self._db.execute(
            "SELECT (bucket + 0.5) * level, total / n, least, most FROM rollup"
            " WHERE level=? AND series=? AND bucket BETWEEN ? AND ? ORDER BY bucket",
            (level, series, int(begin // level), int(end // level)),
        )
        return [Stretch(*row) for row in rows]

    def export(self, begin: float, end: float) -> Iterator[tuple[str, str, float, float]]:
        """Every raw point in a period as (point, unit, at, value), row by row in bounded memory (D5)."""
        self.flush()
        yield from self._db.execute(
            "SELECT point, unit, at, value FROM raw JOIN series ON series.id = raw.series"
            " WHERE at BETWEEN ? AND ? ORDER BY series.id, at",
            (begin, end),
        )

    def close(self) -> None:
        """Write what is buffered and close the file."""
        self.flush()
        self._db.close()

    def _id(self, point: str, unit: str) -> int:
        known = self._ids.get(point)
        if known is not None:
            return known
        cursor = self._db.execute("INSERT INTO series (point, unit) VALUES (?, ?)", (point, unit))
        self._ids[point] = int(cursor.lastrowid or 0)
        self._units[point] = unit
        return self._ids[point]
