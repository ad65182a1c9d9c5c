"""Opening of SQLite files: to write, to read only, and to copy them while another process writes.

The one place that opens SQLite. Transactions are explicit: nothing begins one by itself.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from enum import StrEnum
from pathlib import Path

READ_BUSY_S = 5.0
"""How long a reader waits for a lock (s)."""


class Durability(StrEnum):
    """What survives after a commit has returned, as SQLite's `synchronous` says it."""

    POWER_LOSS = "FULL"
    """The row survives a loss of power: journal, hub."""
    PROCESS = "NORMAL"
    """The row survives the end of the process; a loss of power may take the last ones: history, stimulation ledger."""
    NOTHING = "OFF"
    """Simulations, whose files are discarded."""


def open_to_write(path: Path | str, *, busy_s: float, threaded: bool = False) -> sqlite3.Connection:
    """Open a file, or make it.

    Args:
        path: The file; or the URI of a database in memory.
        busy_s: How long a statement waits for a lock (s).
        threaded: Whether another thread than this one may use the connection; one at a time.
    """
    return sqlite3.connect(
        path,
        isolation_level=None,
        timeout=busy_s,
        check_same_thread=not threaded,
        uri=isinstance(path, str) and path.startswith("file:"),
    )


def keep(db: sqlite3.Connection, durability: Durability) -> None:
    """Write through a write-ahead log, which readers do not hold up, with this durability."""
    db.execute("PRAGMA journal_mode=WAL")
    db.execute(f"PRAGMA synchronous={durability.value}")


def open_to_read(path: Path, *, busy_s: float = READ_BUSY_S) -> sqlite3.Connection:
    """Open an existing file, which SQLite lets this connection only read.

    Raises:
        sqlite3.OperationalError: There is no such file.
    """
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=busy_s)


def copy_database(source: Path, target: Path) -> None:
    """Copy a file as it is at one moment; another process may go on writing to it."""
    with closing(open_to_read(source)) as old, closing(open_to_write(target, busy_s=READ_BUSY_S)) as new:
        old.backup(new)


def checkpoint(path: Path, *, busy_s: float = 0.2) -> None:
    """Move what is in the WAL into the file, through a connection of its own; writers are not held up. May take seconds."""
    with closing(open_to_write(path, busy_s=busy_s)) as db:
        db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
