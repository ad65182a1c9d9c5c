"""Formats of the SQLite files: their versions, and the migrations that bring a file of an earlier release to the present one.

A migration runs in one transaction together with the new version number. A process that is killed in it, or a disk that is
full, leaves the file as it was. Before the transaction the file is copied to `NAME.format-VERSION`. The copy
is kept until a person removes it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

logger = logging.getLogger(__name__)

BUSY_S = 0.2
"""How long another program may hold the file. A longer wait would delay the control loop."""
COPIED_PAGES = 4096
"""Pages that are copied at a time; between two of them a conversion can be stopped."""
ROOM_FACTOR = 2.2
"""A migration needs this multiple of the file's size on the disk: a copy, and a write-ahead log of all pages at most."""
SQL_LOGIC_ERROR = 1
"""SQLite's code for a statement that does not fit the file: no such table or column."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One change of a file's format."""

    from_version: int
    to_version: int
    apply: Callable[[sqlite3.Connection], None]
    """Changes the file inside the transaction of the caller. Must not commit."""
    rewrites: bool = True
    """Whether it changes existing rows. One that does not takes milliseconds for any size, and needs no copy of a large
    file."""


@dataclass(frozen=True, slots=True)
class Format:
    """The present format of a kind of file, and the way from the earlier ones."""

    version: int
    schema: str
    """Statements that create an empty file."""
    migrations: tuple[Migration, ...] = ()

    def path_from(self, version: int) -> tuple[Migration, ...] | None:
        """Return the migrations from `version` to the present format, in order; None where there is no way."""
        found = []
        while version != self.version:
            step = next((each for each in self.migrations if each.from_version == version), None)
            if step is None or step.to_version <= version:
                return None
            found.append(step)
            version = step.to_version
        return tuple(found)


class ConversionStopped(Exception):
    """A conversion was stopped before its transaction; the file is as it was."""


def sql(*statements: str) -> Callable[[sqlite3.Connection], None]:
    """Return a migration step that executes `statements` in order."""

    def apply(db: sqlite3.Connection) -> None:
        for statement in statements:
            db.execute(statement)

    return apply


def backup_path(path: Path, version: int) -> Path:
    """Return where the copy of `path` in format `version` is kept."""
    return path.with_name(f"{path.name}.format-{version}")


def migrate(
    db: sqlite3.Connection,
    path: Path,
    form: Format,
    *,
    copied: bool = True,
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Bring the file behind `db` to the present format, in one transaction.

    Args:
        db: A connection in autocommit mode.
        path: The file of `db`.
        form: Its format.
        copied: Whether a copy is made first.
        stopped: Asked now and then; once it is true the conversion ends before its transaction.

    Raises:
        ConversionStopped: `stopped` was true.
        sqlite3.OperationalError: The disk is full, or another program holds the file. The file is as it was.
        sqlite3.DatabaseError: The file is not of the format that its version number names. The file is as it was.
    """
    (found,) = db.execute("PRAGMA user_version").fetchone()
    if copied:
        _copy(db, path, backup_path(path, found), stopped)
    if stopped():
        raise ConversionStopped(path.name)
    db.execute("BEGIN IMMEDIATE")
    try:
        (found,) = db.execute("PRAGMA user_version").fetchone()  # another process may have been first
        way = form.path_from(found)
        if way is None:
            raise sqlite3.DatabaseError(f"it has format {found}, which this Choroid cannot convert to {form.version}")
        for step in way:
            step.apply(db)
        db.execute(f"PRAGMA user_version={form.version}")
        db.execute("COMMIT")
    except BaseException as error:
        if db.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                db.execute("ROLLBACK")
        if isinstance(error, sqlite3.OperationalError) and _misfit(error):
            raise sqlite3.DatabaseError(f"it cannot be converted from format {found}: {error}") from error
        raise
    logger.warning("%s was converted from format %d to %d", path, found, form.version)


def _misfit(error: sqlite3.OperationalError) -> bool:
    """Return whether a statement does not fit the file, rather than the disk or a lock being in the way."""
    return getattr(error, "sqlite_errorcode", None) == SQL_LOGIC_ERROR


def create(db: sqlite3.Connection, form: Format) -> None:
    """Create the tables of an empty file together with its version number: all of it or nothing."""
    db.executescript(f"BEGIN IMMEDIATE;\n{form.schema}\nPRAGMA user_version={form.version};\nCOMMIT;")


def _copy(db: sqlite3.Connection, path: Path, target: Path, stopped: Callable[[], bool]) -> None:
    """Copy the file behind `db` to `target`, on the disk before this returns; never half a file under that name."""
    size = path.stat().st_size
    free = shutil.disk_usage(path.parent).free
    if free < ROOM_FACTOR * size:
        raise sqlite3.OperationalError(
            f"{path.name} has to be converted, which needs {ROOM_FACTOR * size / 1e6:.0f} MB; {free / 1e6:.0f} MB are free"
        )
    unfinished = target.with_name(f"{target.name}.new")
    unfinished.unlink(missing_ok=True)

    def progress(_status: int, _left: int, _pages: int) -> None:
        if stopped():
            raise ConversionStopped(path.name)

    try:
        with contextlib.closing(sqlite3.connect(unfinished)) as copy:
            db.backup(copy, pages=COPIED_PAGES, progress=progress)
        descriptor = os.open(unfinished, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        unfinished.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise
    logger.warning(
        "%s is kept as %s (%.0f MB) before it is converted. Next: remove the copy once all is well",
        path,
        target.name,
        size / 1e6,
    )
