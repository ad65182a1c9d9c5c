"""The hub's database: one SQLite file in WAL mode, synchronous. Commands and several hubs may change it at the same time."""

from __future__ import annotations

import contextlib
import secrets
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from grid.clock import UtcSeconds, as_text, utc_s
from grid.errors import GridError
from grid.identity.keys import IdentityKey
from grid.log.ledger import GridLog

FILE = "hub.sqlite"
SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS nonces (nonce BLOB PRIMARY KEY, until_s REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS members (
  id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, public_key BLOB NOT NULL, state TEXT NOT NULL,
  reason TEXT NOT NULL DEFAULT '', requested_s REAL NOT NULL, standing TEXT NOT NULL DEFAULT '{}',
  claims TEXT NOT NULL DEFAULT '{}', seen_s REAL NOT NULL DEFAULT 0, working_on TEXT NOT NULL DEFAULT '');
CREATE TABLE IF NOT EXISTS tissues (
  lab TEXT NOT NULL, organoid TEXT NOT NULL, offer BLOB NOT NULL, PRIMARY KEY (lab, organoid)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS leases (
  id TEXT PRIMARY KEY, key TEXT NOT NULL, fence INTEGER NOT NULL DEFAULT 0, member TEXT NOT NULL, lab TEXT NOT NULL,
  organoid TEXT NOT NULL, electrodes TEXT NOT NULL, mode TEXT NOT NULL, purpose TEXT NOT NULL, state TEXT NOT NULL,
  first INTEGER NOT NULL DEFAULT 0, requested_s REAL NOT NULL, granted_s REAL NOT NULL DEFAULT 0,
  expires_s REAL NOT NULL, duration_s REAL NOT NULL, ended_s REAL NOT NULL DEFAULT 0, reason TEXT NOT NULL DEFAULT '',
  charge_nc REAL NOT NULL DEFAULT 0, pulses INTEGER NOT NULL DEFAULT 0, shown TEXT NOT NULL DEFAULT '',
  UNIQUE (member, key));
CREATE INDEX IF NOT EXISTS leases_by_state ON leases (state);
CREATE INDEX IF NOT EXISTS leases_by_end ON leases (ended_s);
"""


class Store:
    """The database of one hub.

    Attributes:
        folder: The hub's data folder.
        database: The connection; every change is made in :meth:`transaction`.
        log: The hub's log; a row is appended in the transaction that it is about.
        key: The hub's identity.
    """

    def __init__(self, folder: Path, *, name: str = "", utc: UtcSeconds = utc_s, readonly: bool = False) -> None:
        """Open the database in `folder`; make one if there is none.

        Args:
            folder: The hub's data folder.
            name: Name of a new hub and its log; an existing hub keeps its own.
            utc: Source of UTC.
            readonly: SQLite refuses every change through this object; the hub has to exist.

        Raises:
            GridError: The folder cannot be used.
        """
        if readonly and not (folder / FILE).exists():
            raise GridError(f"{folder} is no folder of a hub. Next: name the hub's folder with --data")
        self.folder = folder
        self.key = IdentityKey.in_folder(folder)
        self.utc = utc
        try:
            self.database = sqlite3.connect(folder / FILE, isolation_level=None, timeout=5.0)
            self.database.row_factory = sqlite3.Row
            if not readonly:
                self.database.execute("PRAGMA journal_mode = WAL")
                self.database.execute("PRAGMA synchronous = FULL")
                self.database.executescript(SCHEMA)
            self.database.execute(f"PRAGMA query_only = {int(readonly)}")
            self.name = str(self._meta("name", (name or f"grid-{self.key.id[:12]}").encode()).decode())
            self.secret = self._meta("nonce secret", secrets.token_bytes(32))
            self.log = GridLog(self.database, self.key, self.name)
        except sqlite3.Error as error:
            raise storage_error(error) from None

    def close(self) -> None:
        """Close the database."""
        self.database.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Make one change, whole or not at all; it is on the disk when the block is left.

        Raises:
            GridError: The database cannot be written; nothing was changed.
        """
        try:
            self.database.execute("BEGIN IMMEDIATE")
            try:
                yield self.database
                self.database.execute("COMMIT")
            except BaseException:
                if self.database.in_transaction:
                    self.database.execute("ROLLBACK")
                raise
        except sqlite3.OperationalError as error:
            raise storage_error(error) from None

    def note(self, kind: str, about: Mapping[str, Any]) -> None:
        """Append a row to the log, in the caller's transaction."""
        self.log.append(kind, as_text(self.utc()), about)

    def query(self, text: str, *values: Any) -> list[sqlite3.Row]:
        """Return the rows of a query."""
        return self.database.execute(text, values).fetchall()

    def use_nonce(self, nonce: bytes, until_s: float) -> bool:
        """Record that a nonce was used; false when it was used before."""
        with self.transaction() as database:
            database.execute("DELETE FROM nonces WHERE until_s < ?", (self.utc(),))
            done = database.execute("INSERT OR IGNORE INTO nonces VALUES (?, ?)", (nonce, until_s))
        return done.rowcount == 1

    def _meta(self, key: str, new: bytes) -> bytes:
        found = self.query("SELECT value FROM meta WHERE key = ?", key)
        if not found:
            self.database.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", (key, new))
            found = self.query("SELECT value FROM meta WHERE key = ?", key)
        return bytes(found[0][0])


def storage_error(error: sqlite3.Error) -> GridError:
    """Return the error of the database in words."""
    return GridError(
        f"the hub's database cannot be written ({error}); nothing was changed. Likely cause: the disk is full, or another"
        " program holds the file. Next: free space; the hub then continues by itself"
    )
