"""What was told to whom, on disk: what waits for delivery outlives the process, and nobody is told twice for a restart."""

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
    """Named notes. Virtual time puts its own in the place of the file."""

    def load(self) -> dict[str, Any]:
        """Every note."""

    async def save(self, notes: Mapping[str, Any]) -> str | None:
        """Write notes, or forget those that are None; returns why it could not be done."""


class NoticeStore:
    """Notes in SQLite. Writing waits for the disk on a thread of its own and never on the control loop."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> dict[str, Any]:
        """Every note; none where the file cannot be opened."""
        try:
            db = open_database(self._path, NOTICES)
        except (sqlite3.Error, OSError) as error:
            logger.error("%s cannot be opened: %s; what was told before is not known", self._path, error)
            return {}
        try:
            return {name: json.loads(body) for name, body in db.execute("SELECT name, body FROM notices")}
        except (sqlite3.Error, ValueError) as error:
            logger.error("%s cannot be read: %s; what was told before is not known", self._path, error)
            return {}
        finally:
            db.close()

    async def save(self, notes: Mapping[str, Any]) -> str | None:
        """Write, in one transaction."""
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
