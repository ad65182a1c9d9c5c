"""The write-ahead journal: what was meant, then what came of it, in one append-only, hash-chained table.

SQLite in WAL mode. A durable journal has every row on the disk before :meth:`Journal.append` returns (design §4.7);
one for virtual time commits in batches, because a simulated crash loses nothing that matters. Each row carries
sha256(previous hash + canonical JSON of the row), so an edited, removed or re-ordered row is found by
:meth:`Journal.verify` (D3). Rows hold no path, no process id and no wall clock but the one `Clock`: two virtual runs
of one seed give the same bytes.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import heapq
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from json.encoder import encode_basestring
from pathlib import Path
from typing import IO, Any, Protocol

VERSION = 1
GENESIS = "0" * 64
"""The hash before the first row."""

BUSY_S = 0.5
"""So long may another program lock the file. The loop stands meanwhile, and the guard kills a controller that has been
silent for five seconds, which is what SQLite would wait by default."""
RESERVE_BYTES = 65_536
"""Put by in the file that says whose the journal is. SQLite needs 32 kB beside the journal to so much as read it, and on a
disk without any room left a controller that was ended in order would not come up again."""
_BATCH_ROWS = 512
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode

_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
    seq  INTEGER PRIMARY KEY AUTOINCREMENT,
    at_s REAL NOT NULL,
    utc  TEXT NOT NULL,
    kind TEXT NOT NULL,
    run  TEXT,
    body TEXT NOT NULL,
    hash TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS entries_by_run ON entries (run) WHERE run IS NOT NULL;
CREATE INDEX IF NOT EXISTS entries_by_kind ON entries (kind);
CREATE TRIGGER IF NOT EXISTS entries_are_not_edited BEFORE UPDATE ON entries
    BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER IF NOT EXISTS entries_are_not_removed BEFORE DELETE ON entries
    BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
"""
_INSERT = "INSERT INTO entries (seq, at_s, utc, kind, run, body, hash) VALUES (?, ?, ?, ?, ?, ?, ?)"


class Timekeeper(Protocol):
    """What the journal needs of :class:`controller.clock.Clock`."""

    def now_s(self) -> float:
        """Monotonic seconds."""

    def utc_text(self) -> str:
        """UTC as ISO 8601."""


class JournalError(Exception):
    """The journal cannot be used: what, where, likely cause, next action."""


class JournalUnwritten(JournalError):
    """A row could not be written, so what it announces is not done."""

    def __init__(self, error: sqlite3.Error) -> None:
        super().__init__(
            f"the journal cannot be written: {error}. Likely cause: the disk is full, or another program holds the file."
            " Next: free space or end that program; the rig goes on and nothing was done, so ask again then"
        )


class JournalDamaged(JournalError):
    """A row is not what was once written; `seq` is the first that does not fit."""

    def __init__(self, seq: int, what: str) -> None:
        super().__init__(
            f"journal row {seq}: {what}. Likely cause: the file was edited or part of it was restored."
            " Next: keep a copy as evidence and compare it with the last backup"
        )
        self.seq = seq


@dataclass(frozen=True, slots=True)
class Entry:
    """One row. `at_s` is monotonic and only comparable within one process; `utc` is for people and across restarts."""

    seq: int
    at_s: float
    utc: str
    kind: str
    run: str | None
    body: Mapping[str, Any]
    hash: str


class Journal:
    """Append-only record of one rig. One process at a time may write it; anyone may read the file."""

    def __init__(self, path: Path, clock: Timekeeper, *, durable: bool) -> None:
        self.durable = durable
        self._clock = clock
        self._owner = _own(path)
        try:
            try:
                self._db = _opened(path, durable=durable)
            except sqlite3.OperationalError:
                self._owner.truncate(0)  # what was put by for this
                self._db = _opened(path, durable=durable)
            if durable:
                self._put_by()
            last = self._db.execute("SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
        except BaseException:
            self._owner.close()
            raise
        self._seq: int = last[0] if last else 0
        self._head: str = last[1] if last else GENESIS
        self._uncommitted = 0

    def _put_by(self) -> None:
        with contextlib.suppress(OSError):  # where there is no room, there is none to put by
            self._owner.write(bytes(RESERVE_BYTES - os.fstat(self._owner.fileno()).st_size))

    @property
    def next_seq(self) -> int:
        """The number the next row will have; identifiers are made of it, so that they repeat in virtual time."""
        return self._seq + 1

    def append(self, kind: str, body: Mapping[str, Any], *, run: str | None = None) -> int:
        """Write one row and return its number; a durable journal has it on the disk by then.

        `body` is JSON (str keys; finite numbers). Raises ValueError for a NaN, TypeError for what is not JSON,
        :class:`JournalUnwritten` when the file cannot take it: nothing is written then.
        """
        at_s = self._clock.now_s()
        utc = self._clock.utc_text()
        seq = self._seq + 1
        text = _encode(body)
        chained = _chain(self._head, seq, at_s, utc, kind, run, text)
        try:
            if not self.durable and not self._uncommitted:
                self._db.execute("BEGIN")
            self._db.execute(_INSERT, (seq, at_s, utc, kind, run, text, chained))
        except sqlite3.Error as error:
            raise JournalUnwritten(error) from error
        self._seq, self._head = seq, chained
        if not self.durable:
            self._uncommitted += 1
            if self._uncommitted >= _BATCH_ROWS:
                self.flush()
        return seq

    def flush(self) -> None:
        """Commit what is batched (a durable journal has nothing to commit)."""
        if self._uncommitted:
            self._db.execute("COMMIT")
            self._uncommitted = 0

    def entries(
        self,
        *,
        run: str | None = None,
        kinds: Sequence[str] = (),
        after: int = 0,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> Iterator[Entry]:
        """Rows in order (or newest first), of one run and of the named kinds if given, with `seq > after`.

        Newest first is asked for by who wants a few: of each kind no more is read than is taken. One question for several
        kinds would have SQLite sort every row of them first.
        """
        if newest_first and len(kinds) > 1:
            each = [
                self._rows(run, (kind,), after, limit, newest_first=True)
                for kind in dict.fromkeys(kinds)  # a kind that is named twice is one
            ]
            return islice(heapq.merge(*each, key=lambda entry: entry.seq, reverse=True), limit)
        return self._rows(run, kinds, after, limit, newest_first=newest_first)

    def _rows(
        self, run: str | None, kinds: Sequence[str], after: int, limit: int | None, *, newest_first: bool
    ) -> Iterator[Entry]:
        """One question to the file."""
        wheres, values = ["seq > ?"], [after]
        arguments: list[Any] = values
        if run is not None:
            wheres.append("run = ?")
            arguments.append(run)
        if kinds:
            wheres.append(f"kind IN ({','.join('?' * len(kinds))})")
            arguments.extend(kinds)
        order = "DESC" if newest_first else "ASC"
        query = (
            "SELECT seq, at_s, utc, kind, run, body, hash FROM entries"  # noqa: S608  (only fixed words are joined in)
            f" WHERE {' AND '.join(wheres)} ORDER BY seq {order}"
        )
        if limit is not None:
            query += " LIMIT ?"
            arguments.append(limit)
        for seq, at_s, utc, kind, of_run, body, chained in self._db.execute(query, arguments):
            yield Entry(seq, at_s, utc, kind, of_run, json.loads(body), chained)

    def last(self, kind: str, *, run: str | None = None) -> Entry | None:
        """The newest row of a kind."""
        return next(self.entries(kinds=(kind,), run=run, limit=1, newest_first=True), None)

    def sha256(self) -> str:
        """The head of the chain (hex): two journals with the same head are the same, byte for byte."""
        return self._head

    def verify(self) -> int:
        """Walk the whole chain; return the number of rows, or raise :class:`JournalDamaged` at the first bad one."""
        head, expected = walked(self._db)
        if head != self._head:
            raise JournalDamaged(expected, "another program wrote the file while this one had it open")
        return expected

    def close(self) -> None:
        """Commit and let go of the file; harmless when closed already."""
        if not self._owner.closed:
            self.flush()
            self._db.close()
            self._owner.close()


def walked(db: sqlite3.Connection) -> tuple[str, int]:
    """Walk the whole chain of a journal's file; its head and the number of rows, or :class:`JournalDamaged`."""
    head, expected = GENESIS, 0
    for seq, at_s, utc, kind, run, text, chained in db.execute(
        "SELECT seq, at_s, utc, kind, run, body, hash FROM entries ORDER BY seq"
    ):
        expected += 1
        if seq != expected:
            raise JournalDamaged(expected, f"is missing; row {seq} follows")
        if _chain(head, seq, at_s, utc, kind, run, text) != chained:
            raise JournalDamaged(seq, "its hash does not fit its contents and the row before")
        head = chained
    # AUTOINCREMENT remembers the highest number ever given, so rows cut off at the end are missed as well.
    highest = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'entries'").fetchone()
    if highest is not None and highest[0] != expected:
        raise JournalDamaged(expected + 1, f"is missing; there once were {highest[0]} rows")
    return head, expected


def _chain(head: str, seq: int, at_s: float, utc: str, kind: str, run: str | None, body: str) -> str:
    """Hash of one row: the hash before it, then its canonical JSON (keys sorted, floats as repr writes them)."""
    of_run = "null" if run is None else encode_basestring(run)
    row = (
        f'{head}{{"at_s":{at_s!r},"body":{body},"kind":{encode_basestring(kind)},'
        f'"run":{of_run},"seq":{seq},"utc":{encode_basestring(utc)}}}'
    )
    return hashlib.sha256(row.encode()).hexdigest()


def _opened(path: Path, *, durable: bool) -> sqlite3.Connection:
    """The journal's file; one that is there is only read, so that neither a full disk nor somebody's lock stops a start."""
    db = sqlite3.connect(path, isolation_level=None, timeout=BUSY_S)
    try:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute(f"PRAGMA synchronous={'FULL' if durable else 'OFF'}")
        (version,) = db.execute("PRAGMA user_version").fetchone()
        if version not in (0, VERSION):
            raise JournalError(
                f"the journal {path} has format {version}, this Choroid writes {VERSION}."
                " Likely cause: it was written by a newer release. Next: update Choroid, or use another data folder"
            )
        if version != VERSION:
            db.executescript(_SCHEMA)
            db.execute(f"PRAGMA user_version={VERSION}")
    except BaseException:
        db.close()
        raise
    return db


def _own(path: Path) -> IO[bytes]:
    """Take the journal for this process; two controllers of one rig would fight over its pumps."""
    owner = open(path.with_name(path.name + ".owner"), "ab", buffering=0)  # noqa: SIM115  (held as long as the journal is)
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner.close()
        raise JournalError(
            f"the journal {path} is in use. Likely cause: another controller of this rig is running."
            " Next: stop that one, or give this one its own --data folder"
        ) from None
    return owner
