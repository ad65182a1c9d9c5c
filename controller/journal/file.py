"""The journal's file: who owns it, whether it still is the file that this process wrote, and commits to it.

Before each durable commit the file is checked: device and inode of the database, its WAL and its shared memory are those
that were opened, none of them has shrunk or was written by somebody else, and the last row in the file is the last one that
this process wrote. After each commit the number and hash of the last row go into a small head file beside the journal. At
the next start the journal must contain that row: a file that was rolled back or replaced does not.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NamedTuple

from controller.journal.terms import (
    GENESIS,
    VERSION,
    JournalDamaged,
    JournalError,
    JournalLost,
    Row,
    walked,
)

BUSY_S = 0.5
"""How long a commit waits for another program's lock."""
RESERVE_BYTES = 65_536
"""Kept free in the owner file. SQLite needs 32 kB beside the journal even to read it; a controller could not start again on
a full disk without this reserve."""
WALKED_AT_ONCE = 20_000
"""A journal of up to this many rows is verified when it is opened (a tenth of a second), a longer one before the first
commit, in the thread that commits."""
HEAD_BYTES = 128
RECORDS = "degraded-*.jsonl"
"""Records of times without a journal (:mod:`controller.journal.degraded`)."""
BATCH_ROWS = 512
"""Rows of one transaction where nothing has to be durable."""

SCHEMA = """
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
_LAST = "SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1"
_FILES = ("", "-wal", "-shm")


class JournalInUse(JournalError):
    """Another process owns the journal."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"the journal {path} is in use. Likely cause: another controller of this rig is running."
            " Next: stop that one, or give this one its own --data folder"
        )


class _Seen(NamedTuple):
    """One of the journal's files as it was last seen."""

    place: tuple[int, int]
    size: int
    mtime_ns: int


class JournalFile:
    """One journal on the disk. All methods may block; one thread at a time may use it."""

    def __init__(self, path: Path, *, durable: bool, threaded: bool = False) -> None:
        """Open `path` and take it for this process.

        Args:
            path: The database.
            durable: Whether a committed row has to survive a power failure.
            threaded: Whether another thread than this one will commit.

        Raises:
            JournalInUse: when another process owns it.
            JournalLost: when it is not the journal that was written last.
            JournalError: when its format is another one.
        """
        self.path = path
        self.durable = durable
        self._uncommitted = 0
        self._owner = own(path)
        try:
            with contextlib.ExitStack() as undone:
                undone.callback(self._owner.close)
                blank = durable and not (path.exists() and path.stat().st_size)
                if blank:
                    refuse_blank(path)
                self.db = self._opened(threaded=threaded)
                undone.callback(self.db.close)
                self.seq, self.head = self._last()
                if durable:
                    self._compare_with_head(blank=blank)
                self._seen = self._look()
                self._walked = not durable
                if durable and self.seq <= WALKED_AT_ONCE:
                    self._walk()
                undone.pop_all()
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:
            raise JournalLost(f"{path} is damaged ({error})") from error

    def _opened(self, *, threaded: bool) -> sqlite3.Connection:
        """Open the database, on a full disk with the help of the reserve."""
        try:
            db = opened(self.path, durable=self.durable, threaded=threaded)
        except sqlite3.OperationalError:
            self._owner.truncate(0)  # frees the reserve, which is there for this
            db = opened(self.path, durable=self.durable, threaded=threaded)
        if self.durable:
            self._reserve()
        return db

    def _compare_with_head(self, *, blank: bool) -> None:
        """Make sure that this is the journal that was written last.

        Args:
            blank: Whether the file was empty or absent before it was opened.

        Raises:
            JournalLost: It is another one.
        """
        path = self.path
        if not self.seq and not blank:
            refuse_blank(path)
        if any(path.parent.glob(RECORDS)):
            raise JournalLost(
                f"{path.parent} has records of a time without a journal ({RECORDS}), which {path.name} does not have"
            )
        self._mark = HeadFile(path)
        self._mark.compare(self.db, self.seq)

    def reader(self) -> sqlite3.Connection:
        """Open a second connection, for reading while another thread commits."""
        db = sqlite3.connect(self.path, isolation_level=None, timeout=BUSY_S)
        try:
            db.execute("PRAGMA query_only=1")
            db.execute(_LAST).fetchone()  # opens the WAL now: a file that is removed later is readable all the same
        except BaseException:
            db.close()
            raise
        return db

    def commit(self, rows: Sequence[Row]) -> None:
        """Write `rows`, which follow each other, in order; all of them are committed on return, or none.

        Rows that an earlier attempt has written although it failed are recognised and not written twice.

        Raises:
            sqlite3.Error: when the disk or a lock keeps it from being written; the same rows may be given again.
            JournalLost: when the file is not the one that was opened.
        """
        if not self.durable:
            self._batch(rows)
            return
        self.check()
        self.db.execute("BEGIN IMMEDIATE")
        try:
            last = self._last()
            new = rows
            if last != (self.seq, self.head):
                ends = [(row.seq, row.hash) for row in rows]
                if last not in ends:
                    raise JournalLost(
                        f"{self.path} ends at row {last[0]}, this process wrote row {self.seq} last and no other there"
                    )
                new = rows[ends.index(last) + 1 :]
            self.db.executemany(_INSERT, new)
            self.db.execute("COMMIT")
        except BaseException:
            if self.db.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    self.db.execute("ROLLBACK")
            self._note()  # what a failed commit has left in the WAL is this process's own
            raise
        self._note()
        self._in_place()  # a file that was removed during the commit has taken rows that nobody will find
        self.seq, self.head = rows[-1].seq, rows[-1].hash
        self._mark.write(self.seq, self.head)

    def _batch(self, rows: Sequence[Row]) -> None:
        if not self._uncommitted:
            self.db.execute("BEGIN")
        for row in rows:
            self.db.execute(_INSERT, row)
            self.seq, self.head = row.seq, row.hash
        self._uncommitted += len(rows)
        if self._uncommitted >= BATCH_ROWS:
            self.flush()

    def flush(self) -> None:
        """Commit what is batched; a durable file has nothing to commit."""
        if self._uncommitted:
            self.db.execute("COMMIT")
            self._uncommitted = 0

    def check(self) -> None:
        """Make sure that the files on the disk are those that were opened.

        Raises:
            JournalLost: when one was removed, replaced, truncated or overwritten.
        """
        if not self.durable:
            return
        if not self._walked:
            self._walk()
        self._stay_owner()
        self._in_place()
        now = self._look()
        if any(now[suffix].mtime_ns != seen.mtime_ns for suffix, seen in self._seen.items() if suffix != "-shm"):
            self._compare()
        self._note()

    def _in_place(self) -> None:
        """Raise JournalLost when a file is not there, is another one, or is smaller than it was."""
        now = self._look()
        for suffix, seen in self._seen.items():
            name = f"{self.path.name}{suffix}"
            found = now.get(suffix)
            if found is None:
                raise JournalLost(f"{name} was removed")
            if found.place != seen.place:
                raise JournalLost(f"{name} was replaced by another file")
            if found.size < seen.size:
                raise JournalLost(f"{name} was cut from {seen.size} to {found.size} bytes")

    def _note(self) -> None:
        """Remember how this process has left its files. One that is gone or another stays as it was, to be missed."""
        for suffix, found in self._look().items():
            seen = self._seen.get(suffix)
            if seen is None or seen.place == found.place:
                self._seen[suffix] = found

    def _stay_owner(self) -> None:
        """Take the owner's file anew if somebody removed it: a second controller could take it else."""
        held = os.fstat(self._owner.fileno())
        try:
            there = os.stat(owner_path(self.path))
        except FileNotFoundError:
            there = None
        if there is None or (there.st_dev, there.st_ino) != (held.st_dev, held.st_ino):
            fresh = own(self.path)
            self._owner.close()
            self._owner = fresh

    def _compare(self) -> None:
        """Somebody else has written to the files: what is there now must be what this process wrote.

        If it is, the WAL is emptied into the database: a crash could not recover a WAL of which stale pages are damaged.
        """
        self._walk()
        self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        self._walk()

    def _walk(self) -> None:
        try:
            with contextlib.closing(self.reader()) as fresh:
                head, seq = walked(fresh)
        except (sqlite3.DatabaseError, JournalDamaged) as error:
            raise JournalLost(f"{self.path} was overwritten or damaged: {error}") from error
        if (seq, head) != (self.seq, self.head):
            raise JournalLost(f"{self.path} was overwritten; it ends at row {seq}, this process wrote {self.seq}")
        self._walked = True

    def rescue(self) -> None:
        """Copy what the open connection still sees, for `choroid repair`: a removed file is readable while it is open."""
        copy = next(
            path for n in range(1, 1000) if not (path := self.path.with_name(f"{self.path.name}.rescued-{n}")).exists()
        )
        try:
            self.db.execute("VACUUM INTO ?", (str(copy),))
        except (
            sqlite3.Error
        ):  # it is damaged: keep the files as they are, for SQLite changes them when it lets go of them
            for suffix in ("", "-wal"):
                with contextlib.suppress(OSError):
                    shutil.copyfile(f"{self.path}{suffix}", f"{copy}{suffix}")

    def close(self) -> None:
        """Commit and let go of the file; harmless when closed already."""
        if not self._owner.closed:
            try:
                self.flush()
            finally:
                self.db.close()
                if self.durable:
                    self._mark.close()
                self._owner.close()

    def _last(self) -> tuple[int, str]:
        last = self.db.execute(_LAST).fetchone()
        return (0, GENESIS) if last is None else (last[0], last[1])

    def _look(self) -> dict[str, _Seen]:
        found = {}
        for suffix in _FILES if self.durable else ():
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(f"{self.path}{suffix}")
                found[suffix] = _Seen((status.st_dev, status.st_ino), status.st_size, status.st_mtime_ns)
        return found

    def _reserve(self) -> None:
        with contextlib.suppress(OSError):  # a full disk has no room to reserve
            self._owner.write(bytes(RESERVE_BYTES - os.fstat(self._owner.fileno()).st_size))


class HeadFile:
    """Number and hash of the last committed row, in a file of its own. It may be behind the journal, never ahead of it."""

    def __init__(self, journal: Path) -> None:
        self.path = head_path(journal)
        self._journal = journal
        self._file: IO[bytes] | None = None

    def compare(self, db: sqlite3.Connection, seq: int) -> None:
        """Make sure that the journal, which ends at row `seq`, contains the row named here.

        Raises:
            JournalLost: when it does not.
        """
        known = read_head(self._journal)
        if known is None:
            return
        if known[0] > seq:
            raise JournalLost(
                f"{self._journal} ends at row {seq}, and row {known[0]} was written before: it was rolled back, or its WAL"
                " was removed"
            )
        found = db.execute("SELECT hash FROM entries WHERE seq = ?", (known[0],)).fetchone()
        if found is None or found[0] != known[1]:
            raise JournalLost(
                f"row {known[0]} of {self._journal} is not the one that was written: it is another journal"
            )

    def write(self, seq: int, head: str) -> None:
        """Name the last row; a full disk only leaves this file behind."""
        text = json.dumps({"seq": seq, "hash": head}).encode().ljust(HEAD_BYTES - 1) + b"\n"
        try:
            if self._file is None or not self.path.exists():
                self.close()
                self._file = open(self.path, "wb", buffering=0)  # noqa: SIM115  (stays open as long as the journal)
            os.pwrite(self._file.fileno(), text, 0)
        except OSError:
            self.close()

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def head_path(journal: Path) -> Path:
    """Where the head of `journal` is kept."""
    return journal.with_name(journal.name + ".head")


def read_head(journal: Path) -> tuple[int, str] | None:
    """The row that was committed last, as (number, hash); None when no head file can be read."""
    try:
        head = json.loads(head_path(journal).read_bytes())
        return int(head["seq"]), str(head["hash"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def refuse_blank(journal: Path) -> None:
    """Make sure that a journal without rows is a new one.

    Raises:
        JournalLost: when other files of the data folder show that a controller has run here before.
    """
    head = read_head(journal)
    traces = [f"row {head[0]} was written before"] if head is not None and head[0] else []
    traces += [f"there is {path.name}" for path in sorted(journal.parent.glob(RECORDS))]
    wal = journal.with_name(journal.name + "-wal")
    if wal.exists() and wal.stat().st_size and not journal.exists():
        traces.append(f"there is {wal.name}")
    if _has_readings(journal.with_name("history.db")):
        traces.append("history.db has readings")
    if traces:
        raise JournalLost(f"{journal} is empty or absent, but {', '.join(traces)}")


def _has_readings(history: Path) -> bool:
    if not history.exists():
        return False
    try:
        with contextlib.closing(sqlite3.connect(f"{history.resolve().as_uri()}?mode=ro", uri=True)) as db:
            return db.execute("SELECT 1 FROM raw LIMIT 1").fetchone() is not None
    except sqlite3.OperationalError:
        return False  # it has no table yet
    except sqlite3.DatabaseError:
        return True  # damaged, but not new


def opened(path: Path, *, durable: bool, threaded: bool = False) -> sqlite3.Connection:
    """Open a journal. One that exists is only read here, so neither a full disk nor a foreign lock keeps it shut."""
    db = sqlite3.connect(path, isolation_level=None, timeout=BUSY_S, check_same_thread=not threaded)
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
            db.executescript(SCHEMA)
            db.execute(f"PRAGMA user_version={VERSION}")
    except BaseException:
        db.close()
        raise
    return db


def owner_path(journal: Path) -> Path:
    """The file that tells who owns `journal`, by its lock."""
    return journal.with_name(journal.name + ".owner")


def own(path: Path) -> IO[bytes]:
    """Take the journal for this process; two controllers of one rig would fight over its pumps.

    Raises:
        JournalInUse: when another process has it.
    """
    owner = open(owner_path(path), "ab", buffering=0)  # noqa: SIM115  (held as long as the journal is)
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner.close()
        raise JournalInUse(path) from None
    except OSError:
        owner.close()
        raise
    return owner
