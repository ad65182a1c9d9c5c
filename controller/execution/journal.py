"""The write-ahead journal: what was meant, then what came of it, in one append-only, hash-chained table.

SQLite in WAL mode. :meth:`Journal.append` numbers and chains a row in memory and gives it to a writer
(:mod:`controller.execution.journal_writer`); it never waits for the disk. ``await journal.durable(seq)`` is the barrier: it
returns when the row, and with it every row before it, is on the disk. Whoever sends something that cannot be taken back
waits at the barrier first; what keeps the tissue alive does not (D2).

Each row carries sha256(previous hash + canonical JSON of the row), so an edited, removed or re-ordered row is found by
:meth:`Journal.verify` (D3). A row is never withdrawn: the rows after it are chained to it. What it announced and was not
done is told by a later row. Rows contain no path, no process id and no wall clock but the one `Clock`: two virtual runs of
one seed give the same bytes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from controller.execution.journal_file import JournalFile
from controller.execution.journal_rows import JournalRows
from controller.execution.journal_terms import (
    GENESIS,
    VERSION,
    Entry,
    JournalDamaged,
    JournalError,
    JournalLost,
    JournalUnwritten,
    Row,
    Timekeeper,
    chain,
    chained,
    encode,
    walked,
)
from controller.execution.journal_writer import InlineWriter, ThreadWriter, Writer

__all__ = [
    "GENESIS",
    "VERSION",
    "Entry",
    "Journal",
    "JournalDamaged",
    "JournalError",
    "JournalLost",
    "JournalUnwritten",
]

MAX_WAITING_ROWS = 100_000
"""Rows that may wait in memory for the disk (some 50 MB; days of a default rig)."""
SLOW_AFTER_S = 10.0
"""A row that has waited for the disk this long (s) is a problem that people are told."""


class Journal(JournalRows):
    """Append-only record of one rig. One process at a time may write it; anyone may read the file."""

    def __init__(
        self,
        path: Path,
        clock: Timekeeper,
        *,
        durable: bool,
        threaded: bool = False,
        file: JournalFile | None = None,
    ) -> None:
        """Open the journal.

        Args:
            path: The database.
            clock: Time of the rows.
            durable: Whether committed rows have to survive a power failure; virtual time commits in batches instead.
            threaded: Whether a thread of its own commits (real runs, in a running loop), or each call (virtual time).
            file: The file, if the caller has opened it already.

        Raises:
            JournalError: when the file cannot be used.
        """
        self.durable_file = durable
        self._clock = clock
        self.file = JournalFile(path, durable=durable, threaded=threaded) if file is None else file
        self._db = self.file.reader() if threaded else self.file.db
        self._seq, self._head = self.file.seq, self.file.head
        self._tail: deque[Row] = deque()
        """Rows that are not known to be on the disk."""
        self._on_disk = self._seq
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._error: JournalUnwritten | None = None
        self._lost: JournalLost | None = None
        self._closed = False
        self._writer = self._made_writer(threaded=threaded)

    def _made_writer(self, *, threaded: bool) -> Writer:
        """What commits the rows."""
        return (ThreadWriter if threaded else InlineWriter)(self.file, self._written, self._failed)

    @property
    def next_seq(self) -> int:
        """The number the next row will have; identifiers are made of it, so that they repeat in virtual time."""
        return self._seq + 1

    def append(self, kind: str, body: Mapping[str, Any], *, run: str | None = None) -> int:
        """Number, chain and queue one row; returns its number. Whether it is on the disk tells :meth:`durable`.

        Args:
            kind: What the row is.
            body: JSON (str keys; finite numbers).
            run: The run to which it belongs.

        Raises:
            ValueError: for a NaN.
            TypeError: for what is not JSON.
            JournalUnwritten: when :data:`MAX_WAITING_ROWS` wait already; the row is not taken then.
        """
        at_s = self._clock.now_s()
        utc = self._clock.utc_text()
        if len(self._tail) >= MAX_WAITING_ROWS:
            raise self._error or JournalUnwritten(f"{len(self._tail)} rows wait for the disk")
        row = chained(self._head, self._seq + 1, at_s, utc, kind, run, encode(body))
        self._seq, self._head = row.seq, row.hash
        self._tail.append(row)
        self._writer.put(row)
        return row.seq

    async def durable(self, seq: int) -> None:
        """Wait until row `seq` and all before it are on the disk.

        Raises:
            JournalUnwritten: when they could not be written at the last try; they stay queued.
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
        """Whether row `seq` and all before it are on the disk, without waiting for it."""
        if seq > self._on_disk and self._lost is None:
            self._writer.again()
        return seq <= self._on_disk and self._lost is None

    async def commit(self) -> None:
        """Wait until every row so far is on the disk; raises as :meth:`durable`."""
        await self.durable(self._seq)

    def look(self) -> None:
        """Check soon that the file on the disk is the one that was opened; :attr:`problem` tells what is wrong."""
        self._writer.look()

    @property
    def problem(self) -> str | None:
        """Why rows do not reach the disk at present, for people."""
        if (error := self._lost or self._error) is not None:
            return str(error)
        waited_s = self._clock.now_s() - self._tail[0].at_s if self._tail else 0.0
        if waited_s <= SLOW_AFTER_S:
            return None
        return str(JournalUnwritten(f"the disk has not taken {len(self._tail)} rows for {waited_s:.0f} s"))

    @property
    def lost(self) -> JournalLost | None:
        """Why the file is not this process's journal any more; None while it is."""
        return self._lost

    def flush(self) -> None:
        """Commit what is batched where nothing has to be durable."""
        if not self.durable_file:
            self.file.flush()

    def verify(self) -> int:
        """Walk the whole chain; return the number of rows, or raise :class:`JournalDamaged` at the first bad one."""
        head, count = walked(self._db)
        for row in self._tail:
            if row.seq <= count:
                continue  # committed, and its report is still on its way
            count += 1
            if row.seq != count or chain(head, *row[:-1]) != row.hash:
                raise JournalDamaged(count, "another program wrote the file while this one had it open")
            head = row.hash
        if head != self._head:
            raise JournalDamaged(count, "another program wrote the file while this one had it open")
        return count

    def close(self) -> None:
        """Commit and let go of the file; harmless when closed already."""
        if self._closed:
            return
        self._closed = True
        self._writer.close()
        if self._db is not self.file.db:
            self._db.close()
        if not isinstance(self._writer, ThreadWriter) or self._writer.ended:
            self.file.close()

    # --- what the writer reports --------------------------------------------------------------------------

    def _written(self, seq: int) -> None:
        self._error = None
        self._on_disk = seq
        tail = self._tail
        while tail and tail[0].seq <= seq:
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
