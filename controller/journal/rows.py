"""Reading a journal: rows of the file, then the rows that still wait to be written.

Rows are read in pages, and no statement stays open between two of them: an open one would pin the file's snapshot, and
rows written meanwhile would be missing from every later question on that connection.
"""

from __future__ import annotations

import heapq
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from controller.journal.terms import Entry, JournalError, Row

_FIRST_PAGE = 32
_PAGE = 1024


class JournalRows:
    """Rows by number, kind and run. `_db` is the connection for reading; `_tail` are rows that the file may not have."""

    _db: sqlite3.Connection
    _tail: Iterable[Row] = ()
    _seq: int
    _head: str

    def append(self, kind: str, body: Mapping[str, Any], *, run: str | None = None) -> int:
        """Add a row; refused by a journal that was opened for reading."""
        raise JournalError(f"this journal was opened for reading; “{kind}” cannot be written to it")

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

        Of each kind no more is read than is taken. One question for several kinds would have SQLite sort all of them first.
        """
        each = [
            self._rows(run, kind, after, newest_first=newest_first)
            for kind in (dict.fromkeys(kinds) or (None,))  # a kind that is named twice is one
        ]
        rows = each[0] if len(each) == 1 else heapq.merge(*each, key=lambda entry: entry.seq, reverse=newest_first)
        return rows if limit is None else islice(rows, limit)

    def last(self, kind: str, *, run: str | None = None) -> Entry | None:
        """The newest row of a kind."""
        return next(self.entries(kinds=(kind,), run=run, newest_first=True), None)

    def sha256(self) -> str:
        """The head of the chain (hex): two journals with the same head are the same, byte for byte."""
        return self._head

    def _rows(self, run: str | None, kind: str | None, after: int, *, newest_first: bool) -> Iterator[Entry]:
        """Rows of at most one kind: what waits in memory, and the file's rows before it."""
        tail = tuple(self._tail)
        before = tail[0].seq if tail else self._seq + 1
        waiting = (
            _entry(row)
            for row in (reversed(tail) if newest_first else tail)
            if row.seq > after and (run is None or row.run == run) and (kind is None or row.kind == kind)
        )
        if newest_first:
            yield from waiting
        yield from self._paged(run, kind, after, before, newest_first=newest_first)
        if not newest_first:
            yield from waiting

    def _paged(
        self, run: str | None, kind: str | None, after: int, before: int, *, newest_first: bool
    ) -> Iterator[Entry]:
        """The file's rows with `after < seq < before`, page by page."""
        wheres, arguments = "", []
        if run is not None:
            wheres += " AND run = ?"
            arguments.append(run)
        if kind is not None:
            wheres += " AND kind = ?"
            arguments.append(kind)
        order = "DESC" if newest_first else "ASC"
        query = (
            "SELECT seq, at_s, utc, kind, run, body, hash FROM entries"  # noqa: S608  (only fixed words are joined in)
            f" WHERE seq > ? AND seq < ?{wheres} ORDER BY seq {order} LIMIT ?"
        )
        page = _FIRST_PAGE
        while True:
            found = self._db.execute(query, (after, before, *arguments, page)).fetchall()
            for values in found:
                yield _entry(Row._make(values))
            if len(found) < page:
                return
            if newest_first:
                before = found[-1][0]
            else:
                after = found[-1][0]
            page = _PAGE


def _entry(row: Row) -> Entry:
    return Entry(row.seq, row.at_s, row.utc, row.kind, row.run, json.loads(row.body), row.hash)
