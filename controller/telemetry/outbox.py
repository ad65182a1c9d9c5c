"""Store messages in SQLite, in order, until the other side has confirmed them (D1).

The outbox outlives the process. When it exceeds its quota the oldest messages are dropped, and their number is kept, so
that a gap is never silent.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from controller.memory.file import open_database, without_checkpoints
from controller.memory.formats import Format

QUOTA_BYTES = 2_000_000_000
"""A default rig sends about 60 MB a day, so a month without connection fits."""

AT_ONCE_BYTES = 500_000

_OUTBOX = "CREATE TABLE IF NOT EXISTS outbox (seq INTEGER PRIMARY KEY AUTOINCREMENT, payload BLOB NOT NULL)"
_DROPPED = "CREATE TABLE IF NOT EXISTS dropped (messages INTEGER NOT NULL)"
OUTBOX = Format(version=1, schema=f"{_OUTBOX};\n{_DROPPED};\nINSERT INTO dropped VALUES (0);")


@dataclass(frozen=True, slots=True)
class OutboxMessage:
    """One waiting message; `seq` never repeats, also after everything was sent."""

    seq: int
    payload: bytes


class Outbox:
    """A durable queue of messages for one sink. Its methods raise :class:`sqlite3.Error` when the disk is full."""

    def __init__(self, path: Path, *, quota_bytes: int = QUOTA_BYTES, autocheckpoint: bool = True) -> None:
        """Open the file. Without `autocheckpoint` no write waits for the disk; the caller checkpoints the file."""
        self._quota = quota_bytes
        self.folder = path.parent
        self._db = open_database(path, OUTBOX)
        try:
            if not autocheckpoint:
                without_checkpoints(self._db)
            self._count, self._bytes = self._db.execute(
                "SELECT count(*), coalesce(sum(length(payload)), 0) FROM outbox"
            ).fetchone()
            last = self._db.execute("SELECT seq FROM sqlite_sequence WHERE name='outbox'").fetchone()
            self.dropped = int(self._db.execute("SELECT messages FROM dropped").fetchone()[0])
            """Number of messages dropped because of the quota, since the file was made."""
        except BaseException:
            self._db.close()
            raise
        self._last = int(last[0]) if last else 0

    def __len__(self) -> int:
        """Return the number of waiting messages."""
        return int(self._count)

    @property
    def next_seq(self) -> int:
        """Return the number of the next message; numbers start at one, without gaps."""
        return self._last + 1

    def put(self, payload: bytes) -> int:
        """Keep a message; return its number."""
        count, size = self._count + 1, self._bytes + len(payload)
        with self._db:
            self._db.execute("BEGIN")
            self._db.execute("INSERT INTO outbox VALUES (?, ?)", (self.next_seq, payload))
            excess = []
            if size > self._quota:
                for seq, length in self._db.execute("SELECT seq, length(payload) FROM outbox ORDER BY seq"):
                    if size <= self._quota or seq == self.next_seq:
                        break
                    excess.append((seq,))
                    size -= length
            if excess:
                self._db.executemany("DELETE FROM outbox WHERE seq=?", excess)
                self._db.execute("UPDATE dropped SET messages = messages + ?", (len(excess),))
        self._count, self._bytes, self._last = count - len(excess), size, self.next_seq
        self.dropped += len(excess)
        return self._last

    def oldest(self, count: int = 100) -> list[OutboxMessage]:
        """Return the oldest messages, in order: at most `count`, and at most half a megabyte or a single one."""
        found: list[OutboxMessage] = []
        size = 0
        with closing(self._db.execute("SELECT seq, payload FROM outbox ORDER BY seq LIMIT ?", (count,))) as rows:
            for seq, payload in rows:
                size += len(payload)
                if found and size > AT_ONCE_BYTES:
                    break
                found.append(OutboxMessage(seq, payload))
        return found

    def newest(self) -> OutboxMessage | None:
        """Return the newest message; None when none waits."""
        found = self._db.execute("SELECT seq, payload FROM outbox ORDER BY seq DESC LIMIT 1").fetchone()
        return None if found is None else OutboxMessage(*found)

    def confirmed(self, seq: int) -> None:
        """Delete message `seq`, which has arrived."""
        gone = self._db.execute("DELETE FROM outbox WHERE seq=? RETURNING length(payload)", (seq,)).fetchall()
        self._count -= len(gone)
        self._bytes -= sum(length for (length,) in gone)

    def close(self) -> None:
        """Close the file; waiting messages stay."""
        self._db.close()
