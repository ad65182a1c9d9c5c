"""Read-only access to a journal, during or after the run of its controller."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from controller.core.database import open_to_read
from controller.journal.rows import JournalRows
from controller.journal.terms import VERSION, Entry, JournalError, walked


class JournalReader(JournalRows):
    """A journal as of the moment of opening, up to `until_utc` if given (exclusive; ISO 8601 in UTC).

    Raises:
        JournalError: the file is missing, unreadable or of an unknown format.
    """

    def __init__(self, path: Path, *, until_utc: str | None = None) -> None:
        if not path.is_file():
            raise JournalError(
                f"there is no journal at {path}. Likely cause: no controller has run with this --data. Next: name the"
                " directory that `choroid run` or `choroid simulate --data` was given"
            )
        self._until_utc = until_utc
        self._path = path
        try:
            with contextlib.ExitStack() as undone:
                self._db = undone.enter_context(contextlib.closing(open_to_read(path)))
                self._db.execute("BEGIN")  # one snapshot for everything that is read, whatever is written meanwhile
                (version,) = self._db.execute("PRAGMA user_version").fetchone()
                if version != VERSION:
                    raise JournalError(
                        f"the journal {path} has format {version}, this Choroid reads {VERSION}. Likely cause: another"
                        " release wrote it. Next: use that release"
                    )
                last = self._db.execute("SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
                undone.pop_all()
        except sqlite3.Error as error:
            raise JournalError(
                f"the journal {path} cannot be read ({error}). Likely cause: the file is damaged, or its directory may not"
                " be read. Next: check permissions; restore it from a backup"
            ) from None
        self._seq: int = last[0] if last else 0
        self._head: str = last[1] if last else ""

    def until(self, utc: str) -> JournalReader:
        """Return the same journal as of `utc`; the caller closes it separately."""
        return JournalReader(self._path, until_utc=utc)

    def entries(
        self,
        *,
        run: str | None = None,
        kinds: Sequence[str] = (),
        after: int = 0,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> Iterator[Entry]:
        """Return rows as :meth:`JournalRows.entries` does, without those from `until_utc` on."""
        until = self._until_utc
        count = 0
        for entry in super().entries(run=run, kinds=kinds, after=after, newest_first=newest_first):
            if limit is not None and count >= limit:
                return
            if until is None or entry.utc < until:
                count += 1
                yield entry

    def between(self, begin_utc: str, end_utc: str, kinds: Sequence[str]) -> Iterator[Entry]:
        """Return rows of `kinds` written in [begin, end), in order."""
        return (entry for entry in self.entries(kinds=kinds) if begin_utc <= entry.utc < end_utc)

    def kinds(self) -> tuple[str, ...]:
        """Return every kind of row that occurs."""
        return tuple(kind for (kind,) in self._db.execute("SELECT DISTINCT kind FROM entries ORDER BY kind"))

    def extent(self) -> tuple[str, str] | None:
        """Return UTC of the first and of the last row; None for an empty journal."""
        first, last = (
            self._db.execute(f"SELECT utc FROM entries ORDER BY seq {order} LIMIT 1").fetchone()  # noqa: S608
            for order in ("ASC", "DESC")
        )
        return None if first is None else (first[0], last[0])

    def verify(self) -> int:
        """Verify the whole chain. Return the number of rows, or raise JournalDamaged."""
        return walked(self._db)[1]

    def close(self) -> None:
        """Close the file."""
        self._db.close()
