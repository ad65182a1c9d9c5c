"""Opening the SQLite files of the data folder. No such file, whatever its state, stops the care of a rig."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from pathlib import Path

from controller.core.database import Durability, keep, open_to_write
from controller.memory.formats import Format, create
from controller.memory.quarantine import quarantine_path

logger = logging.getLogger(__name__)

BUSY_S = 0.2
"""How long another program may hold the file. A longer wait would delay the control loop."""
CHECKED_BYTES = 64_000_000
"""Maximum size of a file that is checked whole while the caller waits: within a second. Damage in a larger one shows
later."""


def open_database(path: Path, form: Format) -> sqlite3.Connection:
    """Open `path` (WAL, synchronous NORMAL, autocommit), creating it if need be.

    A file that is damaged or of another format is renamed, never removed, and a new one begins. One of the present format
    is only read, so that it can be opened where nothing can be written.

    Raises:
        sqlite3.OperationalError: No such folder, no permission, locked, disk full.
    """
    try:
        return _open(path, form)
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as error:
        rename_unusable(path, error)
        return _open(path, form)


def rename_unusable(path: Path, why: Exception) -> None:
    """Rename a file that cannot be used, so that a new one can begin in its place."""
    kept = quarantine_path(path)
    path.rename(kept)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    logger.error(
        "%s cannot be used (%s); it is kept as %s and a new one begins. Next: read it with the program that wrote it, or"
        " restore it from a backup; then move it elsewhere",
        path,
        why,
        kept.name,
    )


def without_checkpoints(db: sqlite3.Connection) -> None:
    """Keep writes to `db` from waiting for the disk; the caller checkpoints (:mod:`controller.core.database`) now and then.

    The first write to an empty WAL waits for the disk all the same: it is made here, before the loop depends on it.
    """
    db.execute("PRAGMA wal_autocheckpoint=0")
    (version,) = db.execute("PRAGMA user_version").fetchone()
    with contextlib.suppress(sqlite3.OperationalError):  # a full disk, a lock: the first write reports it
        db.execute(f"PRAGMA user_version={version}")


def _open(path: Path, form: Format) -> sqlite3.Connection:
    db = open_to_write(path, busy_s=BUSY_S)
    try:
        (found,) = db.execute("PRAGMA user_version").fetchone()
        (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables:
            _require_format(form, found)
        if path.stat().st_size <= CHECKED_BYTES:
            _check_undamaged(db)
        keep(db, Durability.PROCESS)
        if not tables:
            create(db, form)
    except BaseException:
        db.close()
        raise
    return db


def _check_undamaged(db: sqlite3.Connection) -> None:
    """Check the whole file.

    Raises:
        sqlite3.DatabaseError: The file is damaged.
    """
    if (bad := db.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
        raise sqlite3.DatabaseError(bad)


def _require_format(form: Format, found: int) -> None:
    """Check the number of a file's format.

    Raises:
        sqlite3.DatabaseError: The file has another format.
    """
    if found != form.version:
        raise sqlite3.DatabaseError(
            f"it has format {found}, this Choroid reads format {form.version}. Likely cause: another release, or another"
            " program, wrote it"
        )
