"""Writers: they commit the journal's rows to its file, in order.

:class:`InlineWriter` commits within the call, for virtual time. :class:`ThreadWriter` commits in a thread of its own, for
real runs: an fsync may take seconds, and the control loop must not wait for it. All rows that are queued when a commit
begins are one transaction. A commit that fails leaves its rows queued, and they are tried again in the same order, so the
chain in the file never has a gap.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import threading
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from controller.journal.terms import JournalLost, JournalUnwritten, Row

logger = logging.getLogger(__name__)

RETRY_S = 1.0
"""Pause of the writer thread after a commit that failed (s)."""
CLOSE_S = 30.0
"""How long an orderly end waits for the last commit (s)."""
_Told = TypeVar("_Told")


class Target(Protocol):
    """What a writer needs of :class:`controller.journal.file.JournalFile`."""

    def commit(self, rows: Sequence[Row]) -> None:
        """Write rows, durably."""

    def check(self) -> None:
        """Raise JournalLost when the file is not the one that was opened."""


class Writer(Protocol):
    """Commits rows. Results are reported in the loop's thread: `written(seq)`, or `failed(error)` with its cause."""

    def put(self, row: Row) -> None:
        """Queue a row."""

    def again(self) -> bool:
        """Try now what is queued; returns whether a result is still to come."""

    def look(self) -> None:
        """Check soon that the file is the one that was opened; only a failure is reported."""

    def close(self) -> None:
        """Commit what is queued, if the disk takes it, and end."""


Written = Callable[[int], None]
Failed = Callable[[JournalUnwritten], None]
FallBack = Callable[[JournalLost], Target]
"""Makes what takes the rows once the journal is lost."""


class InlineWriter:
    """Commits within :meth:`put`."""

    def __init__(self, file: Target, written: Written, failed: Failed, fall_back: FallBack) -> None:
        self._files = _Files(file, fall_back)
        self._written = written
        self._failed = failed
        self._rows: list[Row] = []

    def put(self, row: Row) -> None:
        """Queue a row and commit all that are queued."""
        self._rows.append(row)
        self.again()

    def again(self) -> bool:
        """Commit what is queued; nothing is to come afterwards."""
        if self._rows:
            try:
                self._files.now.commit(self._rows)
            except Exception as error:
                told = meaning(error)
                self._failed(told)
                if self._files.fell_back(told):
                    return self.again()
            else:
                seq = self._rows[-1].seq
                self._rows = []
                self._written(seq)
        return False

    def look(self) -> None:
        """Check the file now."""
        try:
            self._files.now.check()
        except Exception as error:
            told = meaning(error)
            self._failed(told)
            self._files.fell_back(told)

    def close(self) -> None:
        """Commit what is queued."""
        self.again()


class ThreadWriter:
    """Commits in a thread of its own; made in the loop to which it reports."""

    def __init__(self, file: Target, written: Written, failed: Failed, fall_back: FallBack) -> None:
        self._files = _Files(file, fall_back)
        self._written = written
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._wake = threading.Condition()
        self._rows: list[Row] = []
        self._looking = False
        self._ending = False
        self._thread = threading.Thread(target=self._work, name="journal", daemon=True)
        self._thread.start()

    def put(self, row: Row) -> None:
        """Queue a row; returns at once."""
        with self._wake:
            self._rows.append(row)
            self._wake.notify()

    def again(self) -> bool:
        """A result is always to come: the thread tries by itself."""
        return True

    def look(self) -> None:
        """Let the thread check the file when it is next idle."""
        with self._wake:
            self._looking = True
            self._wake.notify()

    def close(self) -> None:
        """Commit what is queued and end the thread; gives up on a disk that does not answer."""
        with self._wake:
            self._ending = True
            self._wake.notify()
        self._thread.join(CLOSE_S)

    @property
    def ended(self) -> bool:
        """Whether the thread has let go of the file."""
        return not self._thread.is_alive()

    def _work(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._rows or self._looking or self._ending)
                rows, looking, ending = self._rows[:], self._looking, self._ending
                self._looking = False
            try:
                if rows:
                    self._files.now.commit(rows)
                elif looking:
                    self._files.now.check()
            except Exception as error:
                told = meaning(error)
                self._report(self._failed, told)
                if self._files.fell_back(told):
                    continue
                if ending:
                    return
                with self._wake:
                    self._wake.wait_for(lambda: self._ending, RETRY_S)
                continue
            if rows:
                with self._wake:
                    del self._rows[: len(rows)]
                self._report(self._written, rows[-1].seq)
            elif ending:
                return

    def _report(self, listener: Callable[[_Told], None], told: _Told) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
            self._loop.call_soon_threadsafe(listener, told)


class _Files:
    """The journal's file, and what stands in for it once it is lost."""

    def __init__(self, file: Target, fall_back: FallBack) -> None:
        self.now = file
        self._fall_back: FallBack | None = fall_back

    def fell_back(self, error: JournalUnwritten) -> bool:
        """Whether `error` has just lost the journal, so that another file takes the rows from now on."""
        if not isinstance(error, JournalLost) or self._fall_back is None:
            return False
        try:
            self.now = self._fall_back(error)
        except Exception:  # the writer must live: it tries again with the next rows
            logger.exception("nothing can stand in for the lost journal")
            return False
        self._fall_back = None
        return True


def meaning(error: Exception) -> JournalUnwritten:
    """What a failed commit means: most causes pass; a file that is no sound journal any more is lost."""
    if isinstance(error, JournalUnwritten):
        return error
    passing = isinstance(error, OSError) or (
        isinstance(error, sqlite3.OperationalError) and getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_ERROR
    )
    return JournalUnwritten(error) if passing else JournalLost(f"its file cannot be written: {error!r}")
