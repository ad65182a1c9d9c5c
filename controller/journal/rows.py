"""Reading a journal: the rows of the file, then the rows that wait to be written.

Rows are read in pages, and no statement stays open between two pages: an open statement would pin the file's snapshot and
hide all later rows from its connection.
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
    """Rows by number, kind and run. `_db` is the reading connection; `_tail` holds rows that the file may not have yet."""

    _db: sqlite3.Connection
    _tail: Iterable[Row] = ()
    _seq: int
    _head: str

    def append(self, kind: str, body: Mapping[str, Any], *, run: str | None = None) -> int:
        """Add a row. Refused by a journal that was opened for reading."""
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
        """Return rows in order (or newest first), of one run and of the named kinds if given, with `seq > after`.

        Each kind is read only as far as it is consumed: one query for several kinds would make SQLite sort all of them.
        """
        each = [
            self._rows(run, kind, after, newest_first=newest_first)
            for kind in (dict.fromkeys(kinds) or (None,))  # without duplicates
        ]
        rows = each[0] if len(each) == 1 else heapq.merge(*each, key=lambda entry: entry.seq, reverse=newest_first)
        return rows if limit is None else islice(rows, limit)

    def last(self, kind: str, *, run: str | None = None) -> Entry | None:
        """Return the newest row of a kind."""
        return next(self.entries(kinds=(kind,), run=run, newest_first=True), None)

    def sha256(self) -> str:
        """Return the head of the chain (hex): journals with the same head are equal byte for byte."""
        return self._head

    def _rows(self, run: str | None, kind: str | None, after: int, *, newest_first: bool) -> Iterator[Entry]:
        """Yield rows of at most one kind: those that wait in memory, and the file's rows before them."""
        tail = tuple(self._tail)
        before = tail[0].seq if tail else self._seq + 1
        waiting = _matching(reversed(tail) if newest_first else tail, run, kind, after)
        if newest_first:
            yield from waiting
        yield from self._paged(run, kind, after, before, newest_first=newest_first)
        if not newest_first:
            yield from waiting

    def _paged(
        self, run: str | None, kind: str | None, after: int, before: int, *, newest_first: bool
    ) -> Iterator[Entry]:
        """Yield the file's rows with `after < seq < before`, page by page."""
        wheres, arguments = "", []
        if run is not None:
            wheres += " AND run = ?"
            arguments.append(run)
        if kind is not None:
            wheres += " AND kind = ?"
            arguments.append(kind)
        order = "DESC" if newest_first else "ASC"
        query = (
            "SELECT seq, at_s, utc, kind, run, body, hash FROM entries"  # noqa: S608  (only fixed words are inserted)
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


def _matching(rows: Iterable[Row], run: str | None, kind: str | None, after: int) -> Iterator[Entry]:
    for row in rows:
        if row.seq > after and run in (None, row.run) and kind in (None, row.kind):
            yield _entry(row)


def _entry(row: Row) -> Entry:
    return Entry(row.seq, row.at_s, row.utc, row.kind, row.run, json.loads(row.body), row.hash)
