"""A computer's disk and clock as a campaign has them fail."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from choroid.simulate import EPOCH
from controller.clock import Clock
from controller.execution.journal import BUSY_S, Journal, JournalUnwritten

OnRow = Callable[[int, str, Mapping[str, Any], str | None], None]
_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)


class Killed(BaseException):
    """The process is dead: nothing after this line of it ever ran."""


@dataclass(slots=True)
class Disk:
    """What ails the disk at present. `slow_s` is how long a row takes to reach it (s)."""

    full: bool = False
    locked: bool = False
    slow_s: float = 0.0

    def check(self) -> None:
        """Raise what SQLite would raise."""
        if self.full:
            raise sqlite3.OperationalError("database or disk is full")
        if self.locked:
            raise sqlite3.OperationalError("database is locked")

    @property
    def wait_s(self) -> float:
        """How long the process stands for one row."""
        return BUSY_S if self.locked else self.slow_s


class CampaignClock(Clock):
    """UTC that anyone may set; counted from one epoch, however often the controller is born again."""

    def __init__(self, step_s: Callable[[], float]) -> None:
        super().__init__(follow_system=False, epoch=EPOCH)
        self._step_s = step_s

    def utc_us(self) -> int:
        """Microseconds of UTC since the beginning of 1970."""
        return round(self.utc().timestamp() * 1e6)

    def utc(self) -> datetime:
        """Aware UTC date and time."""
        return EPOCH + timedelta(microseconds=round((self.now_s() + self._step_s()) * 1e6))

    def utc_text(self) -> str:
        """UTC as ISO 8601 with milliseconds and a Z."""
        return self.utc().isoformat(timespec="milliseconds")[:-6] + "Z"


class MortalJournal(Journal):
    """A journal whose process may die at a row, before it or right after it, and whose disk may fail.

    `dies_at` is a row's number; `wait` is called with how long the process stands for each row (s); `told` with each row
    that was written. A row is on the disk when :meth:`append` returns, as in a durable journal.
    """

    def __init__(
        self,
        path: Path,
        clock: Clock,
        disk: Disk,
        *,
        die: Callable[[], None],
        wait: Callable[[float], None],
        told: OnRow,
    ) -> None:
        if not path.exists():
            disk.check()  # one that is there is only read when it is opened
        super().__init__(path, clock, durable=False)
        self._disk = disk
        self._die = die
        self._wait = wait
        self._told = told
        self.dead = False
        self.dies_at: int | None = None
        self.dies_after = False
        """Whether the row at which it dies is still written."""

    def append(self, kind: str, body: Mapping[str, Any], *, run: str | None = None) -> int:
        """As :meth:`Journal.append`; raises :class:`Killed` for a process that is dead."""
        if self.dead:
            raise Killed
        due = self.dies_at is not None and self.next_seq >= self.dies_at
        if due and not self.dies_after:
            self._killed()
        if (wait_s := self._disk.wait_s) > 0:
            self._wait(wait_s)
        try:
            self._disk.check()
        except sqlite3.Error as error:
            raise JournalUnwritten(error) from error
        seq = super().append(kind, body, run=run)
        self._told(seq, kind, body, run)
        if due:
            self._killed()
        return seq

    def _killed(self) -> None:
        self._die()
        raise Killed

    def die(self) -> None:
        """Let go of the file as the operating system does for a dead process: what was written stays."""
        self.dead = True
        super().close()

    def close(self) -> None:
        """As :meth:`Journal.close`, unless the process is dead."""
        if not self.dead:
            super().close()


class FrailDatabase:
    """Stands before a :class:`sqlite3.Connection` and fails as the disk does."""

    def __init__(self, database: sqlite3.Connection, disk: Disk) -> None:
        self._database = database
        self._disk = disk

    def execute(self, statement: str, values: Iterable[Any] | Mapping[str, Any] = ()) -> sqlite3.Cursor:
        """As sqlite3's; what only reads goes through."""
        if not statement.lstrip().upper().startswith(("SELECT", "ROLLBACK", "PRAGMA")):
            self._disk.check()
        return self._database.execute(statement, values)  # type: ignore[arg-type]

    def executemany(self, statement: str, rows: Iterable[Any]) -> sqlite3.Cursor:
        """As sqlite3's."""
        self._disk.check()
        return self._database.executemany(statement, rows)

    @property
    def in_transaction(self) -> bool:
        """As sqlite3's."""
        return self._database.in_transaction

    def __enter__(self) -> FrailDatabase:
        self._database.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._database.__exit__(*error)

    def close(self) -> None:
        """As sqlite3's."""
        self._database.close()
