"""Writers commit the journal's rows to its file, in order.

:class:`InlineWriter` commits within the call, for virtual time. :class:`ThreadWriter` commits in its own thread, for real
runs: an fsync may take seconds, and the control loop must not wait for it. All rows queued when a commit begins form one
transaction. A failed commit leaves its rows queued and they are retried in the same order, so the chain in the file never
has a gap.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from controller.journal.terms import JournalLost, JournalUnwritten, Row

logger = logging.getLogger(__name__)

RETRY_S = 1.0
"""Pause of the writer thread after a failed commit (s)."""
CLOSE_S = 30.0
"""Maximum time that an orderly end waits for the last commit (s)."""
_Report = TypeVar("_Report")


class Target(Protocol):
    """Declares the methods of :class:`controller.journal.file.JournalFile` that a writer calls."""

    @property
    def folder(self) -> Path:
        """Where its rows go."""

    def commit(self, rows: Sequence[Row]) -> None:
        """Write rows durably."""

    def check(self) -> None:
        """Raise JournalLost if the file is not the one that was opened."""


class Writer(Protocol):
    """Commits rows. It reports in the loop's thread: `written(seq)`, or `failed(error)` with the cause."""

    def put(self, row: Row) -> None:
        """Queue a row."""

    def again(self) -> bool:
        """Retry what is queued. Return whether a result is still to come."""

    def check(self) -> None:
        """Request a check that the file is the one that was opened; only a failure is reported."""

    def close(self) -> None:
        """Commit what is queued, if the disk takes it, and end."""


Written = Callable[[int], None]
Failed = Callable[[JournalUnwritten], None]
FallBack = Callable[[JournalLost], Target]
"""Returns the file that takes the rows once the journal is lost."""


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
        """Commit what is queued. Return False: nothing is still to come."""
        if self._rows:
            try:
                self._files.now.commit(self._rows)
            except Exception as error:
                cause = meaning(error, self._files.now.folder)
                self._failed(cause)
                if self._files.fell_back(cause):
                    return self.again()
            else:
                seq = self._rows[-1].seq
                self._rows = []
                self._written(seq)
        return False

    def check(self) -> None:
        """Check the file now."""
        try:
            self._files.now.check()
        except Exception as error:
            cause = meaning(error, self._files.now.folder)
            self._failed(cause)
            self._files.fell_back(cause)

    def close(self) -> None:
        """Commit what is queued."""
        self.again()


class ThreadWriter:
    """Commits in its own thread; created in the loop to which it reports."""

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
        """Queue a row without waiting."""
        with self._wake:
            self._rows.append(row)
            self._wake.notify()

    def again(self) -> bool:
        """Return True: the thread retries by itself, so a result is always to come."""
        return True

    def check(self) -> None:
        """Make the thread check the file when it is next idle."""
        with self._wake:
            self._looking = True
            self._wake.notify()

    def close(self) -> None:
        """Commit what is queued and end the thread; give up on a disk that does not answer."""
        with self._wake:
            self._ending = True
            self._wake.notify()
        self._thread.join(CLOSE_S)

    @property
    def ended(self) -> bool:
        """Whether the thread has released the file."""
        return not self._thread.is_alive()

    def _work(self) -> None:
        while True:
            rows, looking, ending = self._next()
            error = self._attempted(rows, looking)
            if error is not None:
                if self._files.fell_back(error):
                    continue
                if ending:
                    return
                with self._wake:
                    self._wake.wait_for(lambda: self._ending, RETRY_S)
            elif ending and not rows:
                return

    def _next(self) -> tuple[list[Row], bool, bool]:
        """Wait for work. Return the queued rows, whether to check the file, and whether to end."""
        with self._wake:
            self._wake.wait_for(lambda: self._rows or self._looking or self._ending)
            looking, self._looking = self._looking, False
            return self._rows[:], looking, self._ending

    def _attempted(self, rows: list[Row], looking: bool) -> JournalUnwritten | None:
        """Commit `rows`, or check the file, and report the result. Return the error if it failed."""
        try:
            if rows:
                self._files.now.commit(rows)
            elif looking:
                self._files.now.check()
        except Exception as error:
            cause = meaning(error, self._files.now.folder)
            self._report(self._failed, cause)
            return cause
        if rows:
            with self._wake:
                del self._rows[: len(rows)]
            self._report(self._written, rows[-1].seq)
        return None

    def _report(self, listener: Callable[[_Report], None], report: _Report) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(listener, report)


class _Files:
    """The journal's file, and its substitute once it is lost."""

    def __init__(self, file: Target, fall_back: FallBack) -> None:
        self.now = file
        self._fall_back: FallBack | None = fall_back

    def fell_back(self, error: JournalUnwritten) -> bool:
        """Switch to the substitute if `error` has just lost the journal. Return whether that was done."""
        if not isinstance(error, JournalLost) or self._fall_back is None:
            return False
        try:
            self.now = self._fall_back(error)
        except Exception:  # the writer must go on: it retries with the next rows
            logger.exception("no substitute for the lost journal can be opened")
            return False
        self._fall_back = None
        return True


def meaning(error: Exception, folder: Path | None = None) -> JournalUnwritten:
    """Return what a failed commit means: most causes may pass; a file that is no sound journal any more is lost.

    `folder` is the file's; something is written there to learn the cause. None tries nothing.
    """
    if isinstance(error, JournalUnwritten):
        return error
    passing = isinstance(error, OSError) or (
        isinstance(error, sqlite3.OperationalError) and getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_ERROR
    )
    return JournalUnwritten(error, folder) if passing else JournalLost(f"its file cannot be written: {error!r}")
