"""The write-ahead journal: intents and outcomes in one append-only, hash-chained table.

SQLite in WAL mode. :meth:`Journal.append` numbers and chains a row in memory and hands it to a writer
(:mod:`controller.journal.writer`); it never waits for the disk. ``await journal.durable(seq)`` is the barrier: it returns
when the row, and with it every row before it, is on the disk. An action that cannot be undone waits at the barrier first;
life support does not (D2).

Each row carries sha256(previous hash + canonical JSON of the row), so :meth:`Journal.verify` finds an edited, removed or
re-ordered row (D3). A row is never withdrawn, because the rows after it are chained to it: a later row says what was not
done. Rows contain no path, no process id and no wall clock but the one `Clock`: two virtual runs of one seed give the same
bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from controller.core.clock import Clock
from controller.journal.degraded import DegradedFile, last_known
from controller.journal.file import JournalFile, own
from controller.journal.rows import JournalRows
from controller.journal.terms import (
    Entry,
    JournalDamaged,
    JournalLost,
    JournalUnwritten,
    Row,
    chain,
    chained,
    encode,
    walked,
)
from controller.journal.writer import InlineWriter, ThreadWriter, Writer

MAX_WAITING_ROWS = 100_000
"""Maximum number of rows that wait in memory for the disk (some 50 MB; days of a default rig)."""
SLOW_AFTER_S = 10.0
"""Waiting time of a row (s) after which an alarm is raised."""


class Journal(JournalRows):
    """Append-only record of one rig. One process at a time may write it; any process may read the file."""

    def __init__(
        self,
        path: Path,
        clock: Clock,
        *,
        durable: bool,
        threaded: bool = False,
        file: JournalFile | DegradedFile | None = None,
        lost: JournalLost | None = None,
    ) -> None:
        """Open the journal.

        Args:
            path: the database.
            clock: time of the rows.
            durable: whether committed rows have to survive a power failure; virtual time commits in batches instead.
            threaded: whether a thread of its own commits (real runs, in a running loop), or each call (virtual time).
            file: the file, if the caller has opened it already.
            lost: why `file` is only the record of a degraded time.

        Raises:
            JournalError: the file cannot be used.
        """
        self.durable_file = durable
        self._path = path
        self._stand_in: DegradedFile | None = None
        self._utc = clock.utc_text()
        """UTC of the last row, for the writer's thread; the clock itself belongs to the loop."""
        self._clock = clock
        self.file = JournalFile(path, durable=durable, threaded=threaded) if file is None else file
        try:
            self._db = self.file.reader() if threaded else self.file.db
        except BaseException:
            self.file.close()
            raise
        self._seq, self._head = self.file.seq, self.file.head
        self._tail: deque[Row] = deque()
        """Rows that are not known to be on the disk."""
        self._on_disk = self._seq
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._error: JournalUnwritten | None = None
        self._lost = lost
        self._closed = False
        self._writer = self._made_writer(threaded=threaded)

    def _made_writer(self, *, threaded: bool) -> Writer:
        """Return the writer that commits the rows."""
        kind = ThreadWriter if threaded else InlineWriter
        return kind(self.file, self._written, self._failed, self._fallen_back)

    @classmethod
    def degraded(cls, path: Path, clock: Clock, why: Exception, *, threaded: bool = False) -> Journal:
        """Return a substitute for a journal that cannot be used: rows go into a degraded record, no barrier is passed.

        Raises:
            JournalInUse: another process owns the journal.
        """
        lost = why if isinstance(why, JournalLost) else JournalLost(str(why))
        owner = None
        with contextlib.suppress(OSError):  # a folder that cannot be written has no owner's file
            owner = own(path)
        after, earlier = last_known(path)
        file = DegradedFile(path, clock.utc_text(), after, str(lost), at_start=True, earlier=earlier, owner=owner)
        return cls(path, clock, durable=True, threaded=threaded, file=file, lost=lost)

    def _fallen_back(self, error: JournalLost) -> DegradedFile:
        """Return the file that takes the rows from now on. Called by the writer, in its thread."""
        if isinstance(self.file, JournalFile):
            self.file.rescue()
        after = (self.file.seq, self.file.head)
        self._stand_in = DegradedFile(self._path, self._utc, after, str(error), at_start=False)
        return self._stand_in

    @property
    def next_seq(self) -> int:
        """Number of the next row. Identifiers are made of it, so that they repeat in virtual time."""
        return self._seq + 1

    def append(self, kind: str, body: Mapping[str, Any], *, run: str | None = None) -> int:
        """Number, chain and queue one row. Return its number; :meth:`durable` waits until it is on the disk.

        Args:
            kind: kind of the row.
            body: JSON (str keys; finite numbers).
            run: the run to which it belongs.

        Raises:
            ValueError: the body contains NaN.
            TypeError: the body is not JSON.
            JournalUnwritten: :data:`MAX_WAITING_ROWS` rows wait already; this one is not taken.
        """
        at_s = self._clock.now_s()
        utc = self._clock.utc_text()
        if len(self._tail) >= MAX_WAITING_ROWS and self._lost is not None and self._tail[0].seq <= self._on_disk:
            self._tail.popleft()  # it is in the record of the degraded time
        if len(self._tail) >= MAX_WAITING_ROWS:
            raise self._error or JournalUnwritten(f"{len(self._tail)} rows wait for the disk")
        self._utc = utc
        row = chained(self._head, self._seq + 1, at_s, utc, kind, run, encode(body))
        self._seq, self._head = row.seq, row.hash
        self._tail.append(row)
        self._writer.put(row)
        return row.seq

    async def durable(self, seq: int) -> None:
        """Wait until row `seq` and all before it are on the disk.

        Raises:
            JournalUnwritten: the last attempt to write them failed; they stay queued.
        """
        if seq > self._on_disk and self._lost is None and not self._writer.again() and seq > self._on_disk:
            raise self._error or JournalUnwritten("no cause is known")
        if self._lost is not None:
            raise self._lost
        if seq > self._on_disk:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append((seq, waiter))
            await waiter

    def on_disk(self, seq: int) -> bool:
        """Return whether row `seq` and all before it are on the disk, without waiting."""
        if seq > self._on_disk and self._lost is None:
            self._writer.again()
        return seq <= self._on_disk and self._lost is None

    async def commit(self) -> None:
        """Wait until every row so far is on the disk. Raises as :meth:`durable`."""
        await self.durable(self._seq)

    def check(self) -> None:
        """Request a check that the file on the disk is the one that was opened; :attr:`problem` gives the result."""
        self._writer.check()

    @property
    def problem(self) -> str | None:
        """Why rows do not reach the disk at present, for people; None if they do."""
        if self._lost is not None and self._error not in (None, self._lost):
            return f"{self._lost}. The record of the degraded time cannot be written either: {self._error}"
        if (error := self._lost or self._error) is not None:
            return str(error)
        waited_s = self._clock.now_s() - self._tail[0].at_s if self._tail else 0.0
        if waited_s <= SLOW_AFTER_S:
            return None
        return str(JournalUnwritten(f"the disk has not taken {len(self._tail)} rows for {waited_s:.0f} s"))

    @property
    def lost(self) -> JournalLost | None:
        """Why the file is no longer this process's journal; None while it is."""
        return self._lost

    def flush(self) -> None:
        """Commit batched rows if nothing has to be durable."""
        if not self.durable_file:
            self.file.flush()

    def verify(self) -> int:
        """Verify the whole chain. Return the number of rows, or raise :class:`JournalDamaged` at the first bad one."""
        head, count = walked(self._db)
        for row in self._tail:
            if row.seq <= count:
                continue  # committed, but not reported yet
            count += 1
            if row.seq != count or chain(head, *row[:-1]) != row.hash:
                raise JournalDamaged(count, "another program wrote the file while this one had it open")
            head = row.hash
        if head != self._head:
            raise JournalDamaged(count, "another program wrote the file while this one had it open")
        return count

    def close(self) -> None:
        """Commit and release the file. May be called more than once."""
        if self._closed:
            return
        self._closed = True
        self._writer.close()
        if self._db is not self.file.db:
            self._db.close()
        if not isinstance(self._writer, ThreadWriter) or self._writer.ended:
            self.file.close()
            if self._stand_in is not None:
                self._stand_in.close()

    def _paged(
        self, run: str | None, kind: str | None, after: int, before: int, *, newest_first: bool
    ) -> Iterator[Entry]:
        """Yield the file's rows; of a lost journal, as many as can still be read."""
        try:
            yield from super()._paged(run, kind, after, before, newest_first=newest_first)
        except sqlite3.Error as error:
            if self._closed:
                raise
            if self._lost is None and not isinstance(error, sqlite3.OperationalError):
                self._failed(JournalLost(f"{self._path} cannot be read: {error}"))
            if self._lost is None:
                raise

    # --- what the writer reports --------------------------------------------------------------------------

    def _written(self, seq: int) -> None:
        self._error = None
        self._on_disk = seq
        tail = self._tail
        while tail and tail[0].seq <= seq and self._lost is None:  # of a lost journal, readers have only these rows
            tail.popleft()
        if not self._waiters:
            return
        waiting, self._waiters = self._waiters, []
        for wanted, waiter in waiting:
            if wanted > seq:
                self._waiters.append((wanted, waiter))
            elif not waiter.done():
                waiter.set_result(None)

    def _failed(self, error: JournalUnwritten) -> None:
        self._error = error
        if isinstance(error, JournalLost) and self._lost is None:
            self._lost = error
        waiting, self._waiters = self._waiters, []
        for _, waiter in waiting:
            if not waiter.done():
                waiter.set_exception(error)
