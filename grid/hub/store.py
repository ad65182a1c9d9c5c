"""The hub's database: one SQLite file in WAL mode, synchronous. Commands and several hubs may change it at the same time."""

from __future__ import annotations

import contextlib
import secrets
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from controller.core.database import Durability, keep, open_to_write
from controller.signed_log.notes import NoteSigner
from grid.clock import UtcSeconds, as_text, utc_s
from grid.errors import GridError
from grid.log.ledger import GridLog

FILE = "hub.sqlite"
SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS nonces (nonce BLOB PRIMARY KEY, until_s REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS members (
  id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, public_key BLOB NOT NULL, state TEXT NOT NULL,
  reason TEXT NOT NULL DEFAULT '', requested_s REAL NOT NULL, standing TEXT NOT NULL DEFAULT '{}',
  claims TEXT NOT NULL DEFAULT '{}', seen_s REAL NOT NULL DEFAULT 0, working_on TEXT NOT NULL DEFAULT '',
  address TEXT NOT NULL DEFAULT '');
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
CREATE INDEX IF NOT EXISTS leases_to_show ON leases (id) WHERE shown != state;
CREATE TABLE IF NOT EXISTS work (
  id TEXT PRIMARY KEY, key TEXT NOT NULL, fence INTEGER NOT NULL DEFAULT 0, member TEXT NOT NULL, job TEXT NOT NULL,
  ranks TEXT NOT NULL, accepted TEXT NOT NULL DEFAULT '[]', state TEXT NOT NULL, requested_s REAL NOT NULL,
  granted_s REAL NOT NULL DEFAULT 0, expires_s REAL NOT NULL, duration_s REAL NOT NULL, ended_s REAL NOT NULL DEFAULT 0,
  reason TEXT NOT NULL DEFAULT '', shown TEXT NOT NULL DEFAULT '', UNIQUE (member, key));
CREATE INDEX IF NOT EXISTS work_by_state ON work (state);
CREATE INDEX IF NOT EXISTS work_by_end ON work (ended_s);
CREATE INDEX IF NOT EXISTS work_to_show ON work (id) WHERE shown != state;
CREATE TABLE IF NOT EXISTS work_manifests (lease TEXT PRIMARY KEY, manifest BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS work_keys (
  lease TEXT NOT NULL, member TEXT NOT NULL, keys BLOB NOT NULL, PRIMARY KEY (lease, member)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS work_reports (
  lease TEXT NOT NULL, rank INTEGER NOT NULL, report BLOB NOT NULL, PRIMARY KEY (lease, rank)) WITHOUT ROWID;
"""


GOES_ON = "the hub then continues by itself"
OTHER_CAUSE = (
    f"Likely cause: the disk is full, or another program holds the file. Next: free space, end that program; {GOES_ON}"
)
CAUSES = {
    "SQLITE_FULL": f"Likely cause: the disk is full. Next: free space; {GOES_ON}",
    "SQLITE_BUSY": f"Likely cause: another program holds the file. Next: end that program; {GOES_ON}",
    "SQLITE_READONLY": (
        "Likely cause: the folder or its disk is read-only, or belongs to another user. Next: make it writable; start the hub"
        " again if it does not continue"
    ),
    "SQLITE_CANTOPEN": "Likely cause: the folder or its disk is read-only, or another user's. Next: make it writable",
    "SQLITE_IOERR": (
        "Likely cause: the disk has failed, was made read-only by the system after an error, or is full. Next: read the"
        " system's log (dmesg), repair the disk or free space, and start the hub again if it does not continue"
    ),
    "SQLITE_CORRUPT": "Likely cause: the disk has damaged the file. Next: end the hub, restore hub.sqlite from a backup",
    "SQLITE_NOTADB": "Likely cause: the disk has damaged the file. Next: end the hub, restore hub.sqlite from a backup",
}
"""By the beginning of SQLite's name of an error."""


class Store:
    """The database of one hub.

    Attributes:
        folder: The hub's data folder.
        database: The connection; every change is made in :meth:`transaction`.
        log: The hub's log; a row is appended in the transaction that it is about.
        public_key: The hub's identity, and the key that its log is verified with.
    """

    def __init__(
        self,
        folder: Path,
        *,
        name: str = "",
        utc: UtcSeconds = utc_s,
        key: NoteSigner | None = None,
        new: bool = False,
    ) -> None:
        """Open the database in `folder`; with `key` and `new` make one if there is none.

        Args:
            folder: The hub's data folder.
            name: Name of a new hub and its log; an existing hub keeps its own.
            utc: Source of UTC.
            key: The hub's key (:func:`grid.hub.owner.owned`); None only reads: SQLite refuses every change.
            new: Whether a log may begin under this key.

        Raises:
            GridError: The folder cannot be used, the key is not that of the hub, or its log is missing.
        """
        if key is None and not (folder / FILE).exists():
            raise GridError(f"{folder} is no folder of a hub. Next: name the hub's folder with --data")
        self.folder = folder
        self.utc = utc
        self._readonly = key is None
        try:
            self.database = open_to_write(folder / FILE, busy_s=5.0)
        except sqlite3.Error as error:
            raise (reading_error if key is None else storage_error)(error) from None
        try:
            self.database.row_factory = sqlite3.Row
            if key is not None:
                if not new:
                    self._require_log()
                keep(self.database, Durability.POWER_LOSS)
                self.database.executescript(SCHEMA)
            self.database.execute(f"PRAGMA query_only = {int(key is None)}")
            if key is None:
                self.database.execute("PRAGMA temp_store = MEMORY")  # a confined process has no folder for it
            self.name = str(self._meta("name", name.encode()).decode())
            self.public_key = self._meta("public key", b"" if key is None else key.public)
            if key is not None and self.public_key != key.public:
                raise GridError(
                    f"the key in {folder} is not that of the hub whose database is there. Likely cause: the folder was put"
                    " together from two, or its key was replaced. Next: restore identity.key from a backup"
                )
            self.log = GridLog(self.database, key, self.name)
        except (sqlite3.Error, GridError) as error:
            self.database.close()
            if isinstance(error, GridError):
                raise
            raise (reading_error if key is None else storage_error)(error) from None

    def _require_log(self) -> None:
        """Refuse to begin a second log under a key that has one: readers could not tell them apart."""
        begun = self.query("SELECT 1 FROM sqlite_master WHERE name = 'meta'") and self.query("SELECT 1 FROM meta")
        if not begun:
            raise GridError(
                f"{self.folder / FILE} is missing or empty, but the key of this hub exists: its members, leases and log were"
                " there. Likely cause: the file was deleted, or the folder was copied in part. Next: restore it from a"
                " backup; if it is lost, or there never was one, begin a new log with `choroid grid hub run --new-log`"
            )

    @property
    def secret(self) -> bytes:
        """Return what the nonces of this hub are made with."""
        return self._meta("nonce secret", secrets.token_bytes(32))

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
        except sqlite3.DatabaseError as error:
            if not _by_the_disk(error):
                raise
            raise storage_error(error) from None

    def version(self) -> tuple[int, int]:
        """Return what differs when this or any other process has changed the database since."""
        return int(self.query("PRAGMA data_version")[0][0]), self.database.total_changes

    def note(self, kind: str, about: Mapping[str, Any]) -> None:
        """Append a row to the log, in the caller's transaction."""
        self.log.append(kind, as_text(self.utc()), about)

    def query(self, text: str, *values: Any) -> list[sqlite3.Row]:
        """Return the rows of a query. Raises :class:`GridError` when the database cannot be read."""
        try:
            return self.database.execute(text, values).fetchall()
        except sqlite3.DatabaseError as error:
            if not _by_the_disk(error):
                raise
            raise (reading_error if self._readonly else hub_reading_error)(error) from None

    def use_nonce(self, nonce: bytes, until_s: float) -> bool:
        """Record that a nonce was used; false when it was used before."""
        with self.transaction() as database:
            database.execute("DELETE FROM nonces WHERE until_s < ?", (self.utc(),))
            done = database.execute("INSERT OR IGNORE INTO nonces VALUES (?, ?)", (nonce, until_s))
        return done.rowcount == 1

    def _meta(self, key: str, new: bytes) -> bytes:
        found = self.query("SELECT value FROM meta WHERE key = ?", key)
        if not found and self._readonly:
            raise GridError(
                f"the hub of {self.folder} has no {key} yet. Likely cause: its start was cut off. Next: start the hub"
            )
        if not found:
            self.database.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", (key, new))
            found = self.query("SELECT value FROM meta WHERE key = ?", key)
        return bytes(found[0][0])


def storage_error(error: sqlite3.Error) -> GridError:
    """Return the error of a change in words."""
    return GridError(f"the hub's database cannot be written ({error}); nothing was changed. {_cause(error)}")


def hub_reading_error(error: sqlite3.Error) -> GridError:
    """Return the error of the hub when it reads its database, in words."""
    return GridError(f"the hub's database cannot be read ({error}). {_cause(error)}")


def reading_error(error: sqlite3.Error) -> GridError:
    """Return the error of a process that only reads the database, in words."""
    return GridError(
        f"the hub's database cannot be read ({error}). Likely cause: this user may not read the folder, or may not write it"
        " while the hub does not run, or the file is damaged. Next: start the hub, compare the rights of the folder"
    )


def _by_the_disk(error: sqlite3.DatabaseError) -> bool:
    """Whether the disk or another program may be the cause; other errors are defects of this software."""
    return isinstance(error, sqlite3.OperationalError) or type(error) is sqlite3.DatabaseError


def _cause(error: sqlite3.Error) -> str:
    name = str(getattr(error, "sqlite_errorname", ""))
    return next((words for begins, words in CAUSES.items() if name.startswith(begins)), OTHER_CAUSE)
