"""The format of the history file."""

from __future__ import annotations

from controller.memory.formats import Format

LEVELS_S = (30, 120, 600, 3600, 14400)
"""Widths of the coarser levels; each divides the next."""

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

HISTORY = Format(version=1, schema=";\n".join((_SERIES, _RAW, _DOUBTED, _ROLLUP)) + ";")
