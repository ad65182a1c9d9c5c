"""A journal read beside a running controller, or after it: the file is neither owned nor written."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from controller.journal.rows import JournalRows
from controller.journal.terms import VERSION, Entry, JournalError, walked

BUSY_S = 5.0


class JournalReader(JournalRows):
    """A journal as it was when this was opened, up to `until_utc` if given (exclusive; ISO 8601 in UTC).

    Raises :class:`JournalError` when the file is not there, not readable or of another format.
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
            uri = f"{path.resolve().as_uri()}?mode=ro"
            with contextlib.ExitStack() as undone:
                self._db = undone.enter_context(
                    contextlib.closing(sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None))
                )
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
        """The same journal as it was at `utc`; to be closed by itself."""
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
        """As :meth:`JournalRows.entries`; rows from `until_utc` on are not there."""
        until = self._until_utc
        told = 0
        for entry in super().entries(run=run, kinds=kinds, after=after, newest_first=newest_first):
            if limit is not None and told >= limit:
                return
            if until is None or entry.utc < until:
                told += 1
                yield entry

    def between(self, begin_utc: str, end_utc: str, kinds: Sequence[str]) -> Iterator[Entry]:
        """Rows of `kinds` written in [begin, end), in order."""
        return (entry for entry in self.entries(kinds=kinds) if begin_utc <= entry.utc < end_utc)

    def kinds(self) -> tuple[str, ...]:
        """Every kind of row that there is."""
        return tuple(kind for (kind,) in self._db.execute("SELECT DISTINCT kind FROM entries ORDER BY kind"))

    def extent(self) -> tuple[str, str] | None:
        """UTC of the first and of the last row; None for an empty journal."""
        first, last = (
            self._db.execute(f"SELECT utc FROM entries ORDER BY seq {order} LIMIT 1").fetchone()  # noqa: S608
            for order in ("ASC", "DESC")
        )
        return None if first is None else (first[0], last[0])

    def verify(self) -> int:
        """Walk the whole chain; the number of rows, or :class:`~controller.journal.terms.JournalDamaged`."""
        return walked(self._db)[1]

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()
