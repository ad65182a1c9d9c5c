"""Record of notifications on disk: pending ones outlive the process, and a restart repeats none."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from controller.memory.file import open_database
from controller.memory.formats import Format

logger = logging.getLogger(__name__)

NOTICES = Format(
    version=1, schema="CREATE TABLE IF NOT EXISTS notices (name TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID;"
)


class NoteStore(Protocol):
    """Named notes. Virtual time uses its own in place of the file."""

    def load(self) -> dict[str, Any]:
        """Return every note."""

    async def save(self, notes: Mapping[str, Any]) -> str | None:
        """Write notes, and delete those that are None. Return why it failed, or None."""


class NoticeStore:
    """Notes in SQLite. A thread writes them, so that the control loop never waits for the disk."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> dict[str, Any]:
        """Return every note; none if the file cannot be opened."""
        try:
            db = open_database(self._path, NOTICES)
        except (sqlite3.Error, OSError) as error:
            logger.error("%s cannot be opened: %s; earlier notifications are unknown", self._path, error)
            return {}
        try:
            return {name: json.loads(body) for name, body in db.execute("SELECT name, body FROM notices")}
        except (sqlite3.Error, ValueError) as error:
            logger.error("%s cannot be read: %s; earlier notifications are unknown", self._path, error)
            return {}
        finally:
            db.close()

    async def save(self, notes: Mapping[str, Any]) -> str | None:
        """Write all notes in one transaction."""
        rows = {name: None if body is None else json.dumps(body) for name, body in notes.items()}
        try:
            await asyncio.to_thread(self._write, rows)
        except (sqlite3.Error, OSError) as error:
            return f"{self._path.name} cannot be written: {error}"
        return None

    def _write(self, rows: Mapping[str, str | None]) -> None:
        db = open_database(self._path, NOTICES)
        try:
            with db:
                db.execute("BEGIN")
                for name, body in rows.items():
                    if body is None:
                        db.execute("DELETE FROM notices WHERE name=?", (name,))
                    else:
                        db.execute("INSERT OR REPLACE INTO notices VALUES (?, ?)", (name, body))
        finally:
            db.close()
