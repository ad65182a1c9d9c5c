"""The journal's file: its owner, its identity, and commits to it.

Before each durable commit the file is checked: device and inode of the database, its WAL and its shared memory are those
that were opened; none of them has shrunk or was written by another program; and the last row in the file is the last one
that this process wrote. After each commit the number and hash of the last row go into a small head file next to the
journal. At the next start the journal must contain that row: a file that was rolled back or replaced does not.
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

from controller.core.database import Durability, keep, open_to_read, open_to_write
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
"""Maximum time (s) that a commit waits for another program's lock."""
RESERVE_BYTES = 65_536
"""Reserve in the owner file. SQLite needs 32 kB of free space even to read the journal, so without this reserve a controller
could not restart on a full disk."""
WALKED_AT_ONCE = 20_000
"""A journal of up to this many rows is verified when it is opened (a tenth of a second), a longer one before its first
commit, in the committing thread."""
HEAD_BYTES = 128
RECORDS = "degraded-*.jsonl"
"""Records of times without a journal (:mod:`controller.journal.degraded`)."""
BATCH_ROWS = 512
"""Rows of one transaction if nothing has to be durable."""

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
    """Identifies the state of a file: another process has changed it when one of these figures differs."""

    place: tuple[int, int]
    size: int
    mtime_ns: int


class JournalFile:
    """One journal on the disk. All methods may block; only one thread at a time may use it."""

    def __init__(self, path: Path, *, durable: bool, threaded: bool = False) -> None:
        """Open `path` and lock it for this process.

        Args:
            path: the database.
            durable: whether a committed row has to survive a power failure.
            threaded: whether another thread than this one will commit.

        Raises:
            JournalInUse: another process owns it.
            JournalLost: it is not the journal that was written last.
            JournalError: its format is unknown.
        """
        self.path = path
        self.folder = path.parent
        self.durable = durable
        self._uncommitted = 0
        self._owner = own(path)
        try:
            with contextlib.ExitStack() as undone:
                undone.callback(self._owner.close)
                blank = durable and _is_blank(path)
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
            blank: whether the file was empty or absent before it was opened.

        Raises:
            JournalLost: it is another one.
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
        db = open_to_write(self.path, busy_s=BUSY_S)
        try:
            db.execute("PRAGMA query_only=1")
            db.execute(_LAST).fetchone()  # opens the WAL now, so that it stays readable if it is removed later
        except BaseException:
            db.close()
            raise
        return db

    def commit(self, rows: Sequence[Row]) -> None:
        """Write consecutive `rows` in order; on return all of them are committed, on an error none.

        Rows that an earlier, failed attempt has written nevertheless are recognised and not written twice.

        Raises:
            sqlite3.Error: the disk or a lock prevented it; the same rows may be given again.
            JournalLost: the file is not the one that was opened.
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
            self._note()  # what a failed commit left in the WAL is this process's own
            raise
        self._note()
        self._in_place()  # a file that was removed during the commit has taken the rows with it
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
        """Commit the batched rows; a durable file has none."""
        if self._uncommitted:
            self.db.execute("COMMIT")
            self._uncommitted = 0

    def check(self) -> None:
        """Make sure that the files on the disk are those that were opened.

        Raises:
            JournalLost: one was removed, replaced, truncated or overwritten.
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
        """Raise JournalLost if a file is missing, replaced, or smaller than it was."""
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
        """Record the present state of the files. A missing or replaced file keeps its old entry, so that it is detected."""
        for suffix, found in self._look().items():
            seen = self._seen.get(suffix)
            if seen is None or seen.place == found.place:
                self._seen[suffix] = found

    def _stay_owner(self) -> None:
        """Take the owner's file again if it was removed; otherwise a second controller could take it."""
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
        """Verify the rows after another program has written to the files.

        If they are intact, the WAL is emptied into the database: a WAL with damaged stale pages could not be recovered after
        a crash.
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
        """Copy what the open connection still sees, for `choroid repair`: a removed file stays readable while it is open."""
        copy = next(
            path for n in range(1, 1000) if not (path := self.path.with_name(f"{self.path.name}.rescued-{n}")).exists()
        )
        try:
            self.db.execute("VACUUM INTO ?", (str(copy),))
        except sqlite3.Error:  # damaged: copy the files as they are, because SQLite changes them when it closes them
            for suffix in ("", "-wal"):
                with contextlib.suppress(OSError):
                    shutil.copyfile(f"{self.path}{suffix}", f"{copy}{suffix}")

    def close(self) -> None:
        """Commit and release the file. May be called more than once."""
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
    """Number and hash of the last committed row, in a separate file. It may lag behind the journal, never lead it."""

    def __init__(self, journal: Path) -> None:
        self.path = head_path(journal)
        self._journal = journal
        self._file: IO[bytes] | None = None

    def compare(self, db: sqlite3.Connection, seq: int) -> None:
        """Make sure that the journal, which ends at row `seq`, contains the row named here.

        Raises:
            JournalLost: it does not.
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
        """Write the last row's number and hash. A full disk only makes this file lag."""
        text = json.dumps({"seq": seq, "hash": head}).encode().ljust(HEAD_BYTES - 1) + b"\n"
        try:
            if self._file is None or not self.path.exists():
                self.close()
                self._file = open(self.path, "wb", buffering=0)  # noqa: SIM115  (stays open as long as the journal)
            os.pwrite(self._file.fileno(), text, 0)
        except OSError:
            self.close()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def head_path(journal: Path) -> Path:
    """Return the path of the head file of `journal`."""
    return journal.with_name(journal.name + ".head")


def read_head(journal: Path) -> tuple[int, str] | None:
    """Return number and hash of the last committed row, or None if no head file can be read."""
    try:
        head = json.loads(head_path(journal).read_bytes())
        return int(head["seq"]), str(head["hash"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def refuse_blank(journal: Path) -> None:
    """Make sure that a journal without rows is a new one.

    Raises:
        JournalLost: other files of the data folder show that a controller has run here before.
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


def _is_blank(journal: Path) -> bool:
    """Return whether the journal is absent or an empty file. Raises JournalLost if it must not be."""
    if journal.exists() and journal.stat().st_size:
        return False
    refuse_blank(journal)
    return True


def _has_readings(history: Path) -> bool:
    if not history.exists():
        return False
    try:
        with contextlib.closing(open_to_read(history)) as db:
            return db.execute("SELECT 1 FROM raw LIMIT 1").fetchone() is not None
    except sqlite3.OperationalError:
        return False  # it has no table yet
    except sqlite3.DatabaseError:
        return True  # damaged, but not new


def opened(path: Path, *, durable: bool, threaded: bool = False) -> sqlite3.Connection:
    """Open a journal. An existing one is only read here, so neither a full disk nor a foreign lock prevents it."""
    db = open_to_write(path, busy_s=BUSY_S, threaded=threaded)
    try:
        keep(db, Durability.POWER_LOSS if durable else Durability.NOTHING)
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
    """Return the path of the file whose lock marks the owner of `journal`."""
    return journal.with_name(journal.name + ".owner")


def own(path: Path) -> IO[bytes]:
    """Lock the journal for this process; two controllers of one rig would contend for its pumps.

    Raises:
        JournalInUse: another process owns it.
    """
    owner = open(owner_path(path), "ab", buffering=0)  # noqa: SIM115  (held as long as the journal)
    try:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner.close()
        raise JournalInUse(path) from None
    except OSError:
        owner.close()
        raise
    return owner
