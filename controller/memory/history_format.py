"""The format of the history file, and how files of earlier releases are converted."""

from __future__ import annotations

from controller.memory.formats import Format, Migration, sql

LEVELS_S = (30, 120, 600, 3600, 14400)
"""Widths of the coarser levels; each divides the next."""
READABLE = (2, 3)
"""Formats that a program which only reads the readings can read as they are."""

_SERIES = """
CREATE TABLE IF NOT EXISTS series (
    id INTEGER PRIMARY KEY, point TEXT NOT NULL, unit TEXT NOT NULL, UNIQUE (point, unit)
)"""
_RAW = """
CREATE TABLE IF NOT EXISTS raw (
    series INTEGER NOT NULL, at REAL NOT NULL, value REAL NOT NULL, PRIMARY KEY (series, at)
) WITHOUT ROWID"""
_DOUBTED = """
CREATE TABLE IF NOT EXISTS doubted (
    series INTEGER NOT NULL, at REAL NOT NULL, value REAL NOT NULL, quality TEXT NOT NULL, PRIMARY KEY (series, at)
) WITHOUT ROWID"""
_ROLLUP = """
CREATE TABLE IF NOT EXISTS rollup (
    level INTEGER NOT NULL, series INTEGER NOT NULL, bucket INTEGER NOT NULL,
    n INTEGER NOT NULL, total REAL NOT NULL, least REAL NOT NULL, most REAL NOT NULL,
    PRIMARY KEY (level, series, bucket)
) WITHOUT ROWID"""


def _level_from(coarse: int, fine: int) -> str:
    return (
        f"INSERT INTO rollup SELECT {coarse}, series, bucket / {coarse // fine}, sum(n), sum(total), min(least), max(most)"  # noqa: S608
        f" FROM rollup WHERE level = {fine} GROUP BY series, bucket / {coarse // fine}"
    )


_UNIT_IN_KEY = sql(
    "ALTER TABLE series RENAME TO series_before",
    _SERIES,
    "INSERT INTO series SELECT id, point, unit FROM series_before",
    "DROP TABLE series_before",
    "DELETE FROM rollup WHERE level NOT IN (30, 3600)",
    _level_from(120, 30),
    _level_from(600, 120),
    _level_from(14400, 3600),
)

HISTORY = Format(
    version=3,
    schema=";\n".join((_SERIES, _RAW, _DOUBTED, _ROLLUP)) + ";",
    migrations=(
        # Format 0 had one unit for each point, and the levels 30, 300 and 3600 s.
        Migration(0, 2, _UNIT_IN_KEY),
        # Files of format 2 have the table `doubted` or not: it was added without a new version number.
        Migration(2, 3, sql(_DOUBTED), rewrites=False),
    ),
)
