"""Store and forward: what is to be sent waits in SQLite, in order, until the other side has confirmed it (D1).

The outbox outlives the process. When it grows beyond its quota the oldest batches go first, and how many went is kept, so
that a gap is never silent.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

QUOTA_BYTES = 2_000_000_000
"""A default rig sends some 50 MB a day: weeks of silence fit."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS outbox (seq INTEGER PRIMARY KEY AUTOINCREMENT, payload BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
INSERT OR IGNORE INTO counters VALUES ('bytes', 0), ('dropped', 0);
"""


@dataclass(frozen=True, slots=True)
class Parcel:
    """One waiting message; `seq` never repeats, also after everything was sent."""

    seq: int
    payload: bytes


class Outbox:
    """A durable queue of messages for one sink."""

    def __init__(self, path: Path, *, quota_bytes: int = QUOTA_BYTES) -> None:
        self._quota = quota_bytes
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.executescript(_SCHEMA)
        self._bytes = self._counter("bytes")
        self._dropped = self._counter("dropped")

    @property
    def dropped(self) -> int:
        """Messages that had to go because of the quota, ever."""
        return self._dropped

    def __len__(self) -> int:
        """How many wait."""
        (count,) = self._db.execute("SELECT count(*) FROM outbox").fetchone()
        return int(count)

    @property
    def next_seq(self) -> int:
        """The number that the next message will get."""
        row = self._db.execute("SELECT seq FROM sqlite_sequence WHERE name='outbox'").fetchone()
        return (int(row[0]) if row else 0) + 1

    def put(self, payload: bytes) -> int:
        """Keep a message; returns its number."""
        self._db.execute("BEGIN")
        cursor = self._db.execute("INSERT INTO outbox (payload) VALUES (?)", (payload,))
        self._bytes += len(payload)
        while self._bytes > self._quota:
            oldest = self._db.execute("SELECT seq, length(payload) FROM outbox ORDER BY seq LIMIT 1").fetchone()
            if oldest is None or oldest[0] == cursor.lastrowid:
                break
            self._db.execute("DELETE FROM outbox WHERE seq=?", (oldest[0],))
            self._bytes -= oldest[1]
            self._dropped += 1
        self._keep_counters()
        self._db.execute("COMMIT")
        return int(cursor.lastrowid or 0)

    def oldest(self, count: int = 100) -> list[Parcel]:
        """The messages that wait longest, in order."""
        rows = self._db.execute("SELECT seq, payload FROM outbox ORDER BY seq LIMIT ?", (count,))
        return [Parcel(*row) for row in rows]

    def confirmed(self, seq: int) -> None:
        """Everything up to `seq` has arrived and may be forgotten."""
        self._db.execute("BEGIN")
        (gone,) = self._db.execute("SELECT total(length(payload)) FROM outbox WHERE seq<=?", (seq,)).fetchone()
        self._db.execute("DELETE FROM outbox WHERE seq<=?", (seq,))
        self._bytes -= int(gone)
        self._keep_counters()
        self._db.execute("COMMIT")

    def close(self) -> None:
        """Close the file; what waits stays."""
        self._db.close()

    def _counter(self, name: str) -> int:
        (value,) = self._db.execute("SELECT value FROM counters WHERE name=?", (name,)).fetchone()
        return int(value)

    def _keep_counters(self) -> None:
        self._db.executemany(
            "UPDATE counters SET value=? WHERE name=?", ((self._bytes, "bytes"), (self._dropped, "dropped"))
        )
