"""The hub's log in SQLite: rows that name the hash of the row before, the nodes of the tree, signed checkpoints.

A row is appended in the transaction that it describes, so that neither exists without the other.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Mapping
from typing import Any

from controller.signed_log import merkle
from controller.signed_log.notes import Checkpoint, NoteSigner, cosignature, signed
from grid.errors import GridError

SCHEMA = """
CREATE TABLE IF NOT EXISTS log (number INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS log_nodes (level INTEGER, number INTEGER, hash BLOB NOT NULL, PRIMARY KEY (level, number))
  WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS checkpoint (one INTEGER PRIMARY KEY CHECK (one = 1), size INTEGER NOT NULL, note TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS cosignatures (size INTEGER, line TEXT, PRIMARY KEY (size, line)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS witnesses (
  name TEXT PRIMARY KEY, key TEXT NOT NULL, address TEXT NOT NULL, trouble TEXT NOT NULL DEFAULT '') WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS watched (
  origin TEXT PRIMARY KEY, key TEXT NOT NULL, size INTEGER NOT NULL DEFAULT 0, root BLOB NOT NULL DEFAULT x'',
  note TEXT NOT NULL DEFAULT '', confirmed_s REAL NOT NULL DEFAULT 0) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS contradictions (
  origin TEXT PRIMARY KEY, confirmed TEXT NOT NULL, other TEXT NOT NULL, reason TEXT NOT NULL, found_s REAL NOT NULL)
  WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS other_histories (name TEXT, note TEXT, PRIMARY KEY (name, note)) WITHOUT ROWID;
"""
START = hashlib.sha256(b"choroid grid log v1").hexdigest()
"""What the first row names as the row before it."""


class GridLog:
    """The log of one hub."""

    def __init__(self, database: sqlite3.Connection, key: NoteSigner | None, origin: str) -> None:
        """Use the log in `database`.

        Args:
            database: The hub's; its transactions are the caller's.
            key: Signs the checkpoints; None for a process that only reads, and takes the latest from the database.
            origin: Name of the log, which is that of the hub.
        """
        self._database = database
        self._signer = key
        self.origin = origin
        if key is not None:
            database.executescript(SCHEMA)
            if self._kept(self.size) is None:  # the log is new, or its first start was interrupted
                with database:
                    database.execute("BEGIN IMMEDIATE")
                    self._keep(self.size)

    def append(self, kind: str, utc: str, about: Mapping[str, Any]) -> int:
        """Append a row in the caller's transaction; return its number, from 0."""
        last = self._database.execute(
            "SELECT number, CAST(body AS BLOB) FROM log ORDER BY number DESC LIMIT 1"
        ).fetchone()
        number = 0 if last is None else last[0] + 1
        before = START if last is None else hashlib.sha256(last[1]).hexdigest()
        row = {"number": number, "before": before, "utc": utc, "kind": kind, "about": dict(about)}
        body = json.dumps(row, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
        self._database.execute("INSERT INTO log VALUES (?, ?)", (number, body))
        nodes = merkle.completed(number, merkle.leaf_hash(body), self.node)
        self._database.executemany("INSERT INTO log_nodes VALUES (?, ?, ?)", nodes)
        self._keep(number + 1)
        return number

    @property
    def size(self) -> int:
        """Return the number of rows."""
        last = self._database.execute("SELECT MAX(number) FROM log").fetchone()[0]
        return 0 if last is None else int(last) + 1

    def rows(self, first: int, limit: int) -> list[tuple[int, bytes]]:
        """Return (number, body) of rows from `first` on."""
        return self._database.execute(
            "SELECT number, CAST(body AS BLOB) FROM log WHERE number >= ? ORDER BY number LIMIT ?", (first, limit)
        ).fetchall()

    def node(self, level: int, index: int) -> bytes:
        """Return the hash of a complete node. Raises KeyError when there is none."""
        found = self._database.execute(
            "SELECT hash FROM log_nodes WHERE level = ? AND number = ?", (level, index)
        ).fetchone()
        if found is None:
            raise KeyError(f"the tree has no node {index} at level {level}")
        return bytes(found[0])

    def checkpoint(self, size: int | None = None) -> str:
        """Return the checkpoint of the first `size` rows (default: all), with its cosignatures.

        Raises:
            GridError: This process has no key, and the database has no signed checkpoint of this size.
        """
        size = self.size if size is None else size
        note = self._kept(size) if self._signer is None else self._signed(size)
        if note is None:
            raise GridError(
                f"the log has no signed checkpoint of {size} rows. Likely cause: rows were removed."
                " Next: `choroid grid log verify`, then start the hub"
            )
        return note + self._cosignatures(size)

    def cosigned(self, size: int) -> str:
        """Return what witnesses have signed of the first `size` rows, without the signature of the log itself."""
        return f"{self._body(size)}\n{self._cosignatures(size)}"

    def add_cosignature(self, size: int, line: str) -> None:
        """Keep the line of a witness, which the caller has verified."""
        self._database.execute("INSERT OR IGNORE INTO cosignatures VALUES (?, ?)", (size, line))

    def cosigned_size(self) -> int:
        """Return the size of the last checkpoint that a witness confirmed; 0 if there is none."""
        found = self._database.execute("SELECT MAX(size) FROM cosignatures").fetchone()[0]
        return int(found or 0)

    @property
    def _key(self) -> NoteSigner:
        if self._signer is None:
            raise GridError("this process only reads the log. Next: change it at the hub")
        return self._signer

    def _body(self, size: int) -> str:
        return Checkpoint(self.origin, size, merkle.root(size, self.node)).text

    def _signed(self, size: int) -> str:
        return signed(self._key, self.origin, self._body(size))

    def _cosignatures(self, size: int) -> str:
        lines = self._database.execute("SELECT line FROM cosignatures WHERE size = ? ORDER BY line", (size,))
        return "".join(line for (line,) in lines)

    def _keep(self, size: int) -> None:
        """Keep the checkpoint of all rows for those who only read, in the caller's transaction."""
        self._database.execute("INSERT OR REPLACE INTO checkpoint VALUES (1, ?, ?)", (size, self._signed(size)))

    def _kept(self, size: int) -> str | None:
        found = self._database.execute("SELECT note FROM checkpoint WHERE size = ?", (size,)).fetchone()
        return None if found is None else str(found[0])

    def signature(self, text: bytes) -> bytes:
        """Return the signature of the log's key."""
        return self._key.sign(text)

    def cosign(self, note: str, time_s: int) -> str:
        """Return this hub's cosignature, as a witness, of another log's checkpoint."""
        return cosignature(self._key, self.origin, note, time_s)
