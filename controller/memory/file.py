"""Opening the SQLite files in which the controller remembers, without ever refusing to care for a rig because of one."""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path

logger = logging.getLogger(__name__)

BUSY_S = 0.2
"""So long may another program hold the file; longer would be felt by the control loop."""


def open_or_set_aside(path: Path, schema: str, version: int) -> sqlite3.Connection:
    """Open `path` (WAL, synchronous NORMAL, autocommit), making it with `schema` if need be.

    A file that is damaged, or of another format than `version`, is renamed, never removed, and a new one begins. One that
    is as it should be is only read, so that it can be opened where nothing can be written. Raises
    :class:`sqlite3.OperationalError` where no file can be: no such folder, no permission, locked, disk full.
    """
    try:
        return _open(path, schema, version)
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as error:
        aside = next(name for n in range(1, 10_000) if not (name := path.with_name(f"{path.name}.aside-{n}")).exists())
        path.rename(aside)
        for beside in ("-wal", "-shm"):
            path.with_name(path.name + beside).unlink(missing_ok=True)
        logger.error("%s cannot be used (%s); it is kept as %s and a new one begins", path, error, aside.name)
        return _open(path, schema, version)


def _open(path: Path, schema: str, version: int) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, timeout=BUSY_S)
    try:
        (found,) = db.execute("PRAGMA user_version").fetchone()
        (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and found != version:
            raise sqlite3.DatabaseError(f"it has format {found}, this Choroid writes {version}")
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=NORMAL")
        if found != version:
            db.executescript(schema)
            db.execute(f"PRAGMA user_version={version}")
    except BaseException:
        db.close()
        raise
    return db
