"""Failing disk and clock of a computer in a campaign."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from choroid.simulation.simulate import EPOCH
from controller.core.clock import Clock
from controller.journal.file import BUSY_S, JournalFile
from controller.journal.journal import Journal
from controller.journal.terms import Row
from controller.journal.writer import RETRY_S, Failed, Writer, Written, meaning

OnRow = Callable[[int, str, Mapping[str, Any], str | None], None]
_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)


class Killed(BaseException):
    """The process is dead: nothing after this line ever ran."""


@dataclass(slots=True)
class Disk:
    """Present faults of the disk. `slow_s` is the time until a row reaches it (s)."""

    full: bool = False
    locked: bool = False
    slow_s: float = 0.0

    def check(self) -> None:
        """Raise the exception that SQLite would raise."""
        if self.full:
            raise _error("database or disk is full", sqlite3.SQLITE_FULL)
        if self.locked:
            raise _error("database is locked", sqlite3.SQLITE_BUSY)

    @property
    def wait_s(self) -> float:
        """Return the duration of a commit (s)."""
        return BUSY_S if self.locked else self.slow_s


def _error(text: str, code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    return error


class CampaignClock(Clock):
    """UTC that a fault can step; counted from one epoch across restarts of the controller."""

    def __init__(self, step_s: Callable[[], float]) -> None:
        super().__init__(follow_system=False, epoch=EPOCH)
        self._step_s = step_s

    def utc_us(self) -> int:
        """Return the microseconds of UTC since the beginning of 1970."""
        return round(self.utc().timestamp() * 1e6)

    def utc(self) -> datetime:
        """Return UTC as aware date and time."""
        return EPOCH + timedelta(microseconds=round((self.now_s() + self._step_s()) * 1e6))

    def utc_text(self) -> str:
        """Return UTC as ISO 8601 with milliseconds and a Z."""
        return self.utc().isoformat(timespec="milliseconds")[:-6] + "Z"


class FrailFile(JournalFile):
    """A journal's file on a disk that may fail. `committed` is called with the last row of each commit."""

    def __init__(self, path: Path, disk: Disk, committed: Callable[[int], None]) -> None:
        super().__init__(path, durable=False)
        self._disk = disk
        self._committed = committed

    def commit(self, rows: Sequence[Row]) -> None:
        """Commit as :meth:`JournalFile.commit`, unless the disk fails."""
        self._disk.check()
        super().commit(rows)
        self._committed(rows[-1].seq)


class DelayedWriter:
    """The writer thread of a real run in virtual time: the loop continues during a commit."""

    def __init__(self, file: FrailFile, disk: Disk, written: Written, failed: Failed) -> None:
        self._file = file
        self._disk = disk
        self._written = written
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._rows: list[Row] = []
        self._due: asyncio.TimerHandle | None = None

    def put(self, row: Row) -> None:
        """Queue a row; a healthy disk takes it at once."""
        self._rows.append(row)
        if self._due is None:
            self._begin(self._disk.wait_s)

    def again(self) -> bool:
        """Return whether a commit is running, or will be retried."""
        return self._due is not None

    def check(self) -> None:
        """Do nothing: the file cannot disappear."""

    def close(self) -> None:
        """Commit the queued rows, if the disk takes them."""
        self.halt()
        if self._rows:
            self._again()

    def halt(self) -> None:
        """Stop, together with the process."""
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _begin(self, delay_s: float) -> None:
        rows = self._rows[:]  # one transaction: rows that are queued meanwhile come with the next
        if delay_s > 0:
            self._due = self._loop.call_later(delay_s, self._commit, rows)
        else:
            self._commit(rows)

    def _commit(self, rows: list[Row]) -> None:
        self._due = None
        try:
            self._file.commit(rows)
        except sqlite3.Error as error:
            self._due = self._loop.call_later(RETRY_S + self._disk.wait_s, self._again)
            self._failed(meaning(error))
            return
        del self._rows[: len(rows)]
        if self._rows:
            self._due = self._loop.call_later(self._disk.wait_s, self._again)
        self._written(rows[-1].seq)

    def _again(self) -> None:
        self._commit(self._rows[:])


class CampaignJournal(Journal):
    """A journal whose process may die at a row: before it is queued, or just after it is on the disk.

    `dies_at` is a row's number; `on_row` is called with each row that is on the disk. Queued rows die with the
    process.
    """

    def __init__(self, path: Path, clock: Clock, disk: Disk, *, die: Callable[[], None], on_row: OnRow) -> None:
        if not path.exists():
            disk.check()  # an existing file is only read when it is opened
        self._disk = disk
        self._die = die
        self._on_row = on_row
        self._untold: deque[tuple[int, str, Mapping[str, Any], str | None]] = deque()
        self.dead = False
        self.dies_at: int | None = None
        self.dies_after = False
        """Whether the row at which it dies is still written."""
        super().__init__(path, clock, durable=False, file=FrailFile(path, disk, self._committed))

    def _made_writer(self, *, threaded: bool) -> Writer:
        assert isinstance(self.file, FrailFile)  # noqa: S101  (made above)
        self._delayed = DelayedWriter(self.file, self._disk, self._written, self._failed)
        return self._delayed

    def append(self, kind: str, body: Mapping[str, Any], *, run: str | None = None) -> int:
        """Append as :meth:`Journal.append`; raise :class:`Killed` for a dead process."""
        if self.dead:
            raise Killed
        if self.dies_at is not None and self.next_seq >= self.dies_at and not self.dies_after:
            self._die()
            raise Killed
        self._untold.append((self.next_seq, kind, body, run))
        seq = super().append(kind, body, run=run)
        if self.dead:
            raise Killed
        return seq

    def _committed(self, seq: int) -> None:
        while self._untold and self._untold[0][0] <= seq:
            self._on_row(*self._untold.popleft())
        if self.dies_at is not None and seq >= self.dies_at and self.dies_after and not self.dead:
            self._die()

    def die(self) -> None:
        """Release the file as the operating system does for a dead process: written rows remain."""
        if not self.dead:
            self.dead = True
            self._delayed.halt()
            self.file.close()

    def close(self) -> None:
        """Close as :meth:`Journal.close`, unless the process is dead."""
        if not self.dead:
            super().close()


class FrailDatabase:
    """Wraps a :class:`sqlite3.Connection` and fails as the disk does."""

    def __init__(self, database: sqlite3.Connection, disk: Disk) -> None:
        self._database = database
        self._disk = disk

    def execute(self, statement: str, values: Iterable[Any] | Mapping[str, Any] = ()) -> sqlite3.Cursor:
        """Execute as sqlite3 does; reads always pass."""
        if not statement.lstrip().upper().startswith(("SELECT", "ROLLBACK", "PRAGMA")):
            self._disk.check()
        return self._database.execute(statement, values)  # type: ignore[arg-type]

    def executemany(self, statement: str, rows: Iterable[Any]) -> sqlite3.Cursor:
        """Execute as sqlite3 does."""
        self._disk.check()
        return self._database.executemany(statement, rows)

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._database.in_transaction

    def __enter__(self) -> FrailDatabase:
        self._database.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._database.__exit__(*error)

    def close(self) -> None:
        """Close as sqlite3 does."""
        self._database.close()
