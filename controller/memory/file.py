"""Opening the SQLite files of the data folder. No such file, whatever its state, stops the care of a rig."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from pathlib import Path

from controller.memory.formats import BUSY_S, Format, Migration, create, migrate
from controller.memory.quarantine import quarantine_path

logger = logging.getLogger(__name__)

CHECKED_BYTES = 64_000_000
"""Maximum size of a file that is checked whole, and converted, while the caller waits: within a second. Damage in a larger
one shows later."""


class ConversionDue(sqlite3.OperationalError):
    """The file is of an earlier format, and converting it takes longer than the caller may wait."""


def open_database(path: Path, form: Format, *, at_once: bool = True) -> sqlite3.Connection:
    """Open `path` (WAL, synchronous NORMAL, autocommit), creating it if need be.

    A file of an earlier format is converted. One that is damaged, of a newer format, or of one that cannot be converted is
    renamed, never removed, and a new one begins. One of the present format is only read, so that it can be opened where
    nothing can be written.

    Args:
        path: The file.
        form: Its format.
        at_once: Whether to convert a large file now, however long that takes.

    Raises:
        ConversionDue: The file has to be converted first (only without `at_once`).
        sqlite3.OperationalError: No such folder, no permission, locked, disk full.
    """
    try:
        return _open(path, form, at_once)
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as error:
        rename_unusable(path, error)
        return _open(path, form, at_once)


def rename_unusable(path: Path, why: Exception) -> None:
    """Rename a file that cannot be used, so that a new one can begin in its place."""
    kept = quarantine_path(path)
    path.rename(kept)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    logger.error("%s cannot be used (%s); it is kept as %s and a new one begins", path, why, kept.name)


def without_checkpoints(db: sqlite3.Connection) -> None:
    """Keep writes to `db` from waiting for the disk; the caller runs :func:`checkpoint` now and then.

    The first write to an empty WAL waits for the disk all the same: it is made here, before the loop depends on it.
    """
    db.execute("PRAGMA wal_autocheckpoint=0")
    (version,) = db.execute("PRAGMA user_version").fetchone()
    with contextlib.suppress(sqlite3.OperationalError):  # a full disk, a lock: the first write reports it
        db.execute(f"PRAGMA user_version={version}")


def checkpoint(path: Path) -> None:
    """Move what is in the WAL into the file, through a connection of its own; writers are not held up. May take seconds."""
    with contextlib.closing(sqlite3.connect(path, timeout=BUSY_S)) as db:
        db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


def _open(path: Path, form: Format, at_once: bool) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, timeout=BUSY_S)
    try:
        (found,) = db.execute("PRAGMA user_version").fetchone()
        (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        size = path.stat().st_size
        migrations = _migrations_from(form, found) if tables else ()
        large = size > CHECKED_BYTES
        if not large:
            _check_undamaged(db)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=NORMAL")
        if not tables:
            create(db, form)
        elif migrations:
            rewritten = _rewritten(migrations)
            if large and rewritten and not at_once:
                raise ConversionDue(
                    f"{path.name} ({size / 1e6:.0f} MB) is being converted from format {found} to {form.version}"
                )
            migrate(db, path, form, copied=rewritten or not large)
    except BaseException:
        db.close()
        raise
    return db


def _rewritten(migrations: tuple[Migration, ...]) -> bool:
    """Return whether a migration rewrites the file, which takes long if the file is large."""
    return any(migration.rewrites for migration in migrations)


def _check_undamaged(db: sqlite3.Connection) -> None:
    """Check the whole file.

    Raises:
        sqlite3.DatabaseError: The file is damaged.
    """
    if (bad := db.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
        raise sqlite3.DatabaseError(bad)


def _migrations_from(form: Format, found: int) -> tuple[Migration, ...]:
    """Return the migrations of a file of format `found`; none if it is up to date.

    Raises:
        sqlite3.DatabaseError: The format is newer than this release, or no migration leads from it.
    """
    if found > form.version:
        raise sqlite3.DatabaseError(
            f"it has format {found}, this Choroid knows formats up to {form.version}: a newer release wrote it"
        )
    migrations = form.path_from(found)
    if migrations is None:
        raise sqlite3.DatabaseError(f"it has format {found}, which this Choroid cannot convert to {form.version}")
    return migrations
