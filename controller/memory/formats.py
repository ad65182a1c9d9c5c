"""Formats of the SQLite files of the data folder: each has a number, which SQLite keeps as `user_version`."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Format:
    """The format of a kind of file."""

    version: int
    schema: str
    """Statements that create an empty file."""


def create(db: sqlite3.Connection, form: Format) -> None:
    """Create the tables of an empty file together with its version number: all of it or nothing."""
    db.executescript(f"BEGIN IMMEDIATE;\n{form.schema}\nPRAGMA user_version={form.version};\nCOMMIT;")
