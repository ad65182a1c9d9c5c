"""Opening the SQLite files in which the controller remembers, without ever refusing to care for a rig because of one."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from pathlib import Path

from controller.memory.aside import name_aside

logger = logging.getLogger(__name__)

BUSY_S = 0.2
"""So long may another program hold the file; longer would be felt by the control loop."""


CHECKED_BYTES = 64_000_000
"""A file of up to this size is checked whole when it is opened, within a second; damage in a larger one shows later."""


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
        aside = name_aside(path)
        path.rename(aside)
        for beside in ("-wal", "-shm"):
            path.with_name(path.name + beside).unlink(missing_ok=True)
        logger.error("%s cannot be used (%s); it is kept as %s and a new one begins", path, error, aside.name)
        return _open(path, schema, version)


def without_checkpoints(db: sqlite3.Connection) -> None:
    """Let no write to `db` wait for the disk; somebody else calls :func:`checkpoint` now and then.

    The first write to an empty WAL waits for the disk all the same: it is made here, before the loop depends on it.
    """
    db.execute("PRAGMA wal_autocheckpoint=0")
    (version,) = db.execute("PRAGMA user_version").fetchone()
    with contextlib.suppress(sqlite3.OperationalError):  # a full disk, a lock: the first write tells
        db.execute(f"PRAGMA user_version={version}")


def checkpoint(path: Path) -> None:
    """Move what is in the WAL into the file, through a connection of its own; writers are not held up. May take seconds."""
    db = sqlite3.connect(path, timeout=BUSY_S)
    try:
        db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    finally:
        db.close()


def _open(path: Path, schema: str, version: int) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, timeout=BUSY_S)
    try:
        (found,) = db.execute("PRAGMA user_version").fetchone()
        (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and found != version:
            raise sqlite3.DatabaseError(f"it has format {found}, this Choroid writes {version}")
        if path.stat().st_size <= CHECKED_BYTES and (bad := db.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise sqlite3.DatabaseError(bad)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=NORMAL")
        if found != version:
            db.executescript(schema)
            db.execute(f"PRAGMA user_version={version}")
    except BaseException:
        db.close()
        raise
    return db
