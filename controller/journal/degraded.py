"""The record of a degraded time: what happens while there is no sound journal.

Heart, temperature and gas go on without a journal; doses do not. Rows are appended to `degraded-<utc>.jsonl`, one JSON object
a line, chained like the journal's; the first line names the journal's last row, if it is known, to which they are chained.
Several such files, one per process, form one chain. `choroid repair` adds them to the repaired journal.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from controller.core.database import open_to_write
from controller.journal.file import BUSY_S, RECORDS, SCHEMA, read_head
from controller.journal.terms import GENESIS, Row, chain, encode

_INSERT = "INSERT INTO entries (seq, at_s, utc, kind, run, body, hash) VALUES (?, ?, ?, ?, ?, ?, ?)"


class DegradedFile:
    """Takes the rows that the journal cannot; a writer uses it in place of the journal's file.

    It lies in the data folder or, if that cannot be written, in the system's folder for temporary files.
    """

    durable = True

    def __init__(
        self,
        journal: Path,
        utc: str,
        after: tuple[int, str],
        why: str,
        *,
        at_start: bool,
        earlier: Sequence[Row] = (),
        owner: IO[bytes] | None = None,
    ) -> None:
        """Prepare a file for rows that follow `after` (number, hash); it is created with the first of them.

        Args:
            journal: the journal's path.
            utc: begin of the degraded time.
            after: the last row before it.
            why: why there is no journal.
            at_start: whether this process has had no journal since its start.
            earlier: rows of earlier degraded times, for readers.
            owner: the lock on the journal, if this process holds it.
        """
        self.seq, self.head = after
        self._begins = {"after_seq": after[0], "after_hash": after[1], "at_start": at_start, "utc": utc, "why": why}
        self.path: Path | None = None
        stamp = utc.replace("-", "").replace(":", "").split(".", maxsplit=1)[0]
        self._names = [folder / f"degraded-{stamp}" for folder in (journal.parent, Path(tempfile.gettempdir()))]
        self._file: IO[bytes] | None = None
        self._owner = owner
        self._shared = f"file:degraded-{id(self):x}?mode=memory&cache=shared"
        self.db = open_to_write(self._shared, busy_s=BUSY_S, threaded=True)
        try:
            self.db.executescript(SCHEMA)
            self.db.executemany(_INSERT, earlier)
        except BaseException:
            self.db.close()
            raise

    def reader(self) -> sqlite3.Connection:
        """Return a connection to the rows of earlier degraded times; those of this one are in the journal's memory."""
        return open_to_write(self._shared, busy_s=BUSY_S, threaded=True)

    @property
    def folder(self) -> Path:
        """Where its rows go: the data folder until a file was made."""
        return self._names[0].parent if self.path is None else self.path.parent

    def commit(self, rows: Sequence[Row]) -> None:
        """Append rows; they are on the disk on return. Raises OSError if no folder takes them."""
        if self._file is None:
            self.path, self._file = self._made()
            self._file.write(json.dumps({"degraded": self._begins}, ensure_ascii=False).encode() + b"\n")
        end = self._file.seek(0, os.SEEK_END)
        try:
            self._file.write(b"".join(map(line_of, rows)))
            os.fsync(self._file.fileno())
        except OSError:
            with contextlib.suppress(OSError):
                self._file.truncate(end)
            raise
        self.seq, self.head = rows[-1].seq, rows[-1].hash

    def check(self) -> None:
        """Do nothing: there is no other record to compare the file with."""

    def flush(self) -> None:
        """Do nothing: no rows are batched."""

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
        if self._owner is not None:
            self._owner.close()
        self.db.close()

    def _made(self) -> tuple[Path, IO[bytes]]:
        problem: OSError | None = None
        for name in self._names:
            for number in range(1, 1000):
                path = name.with_name(f"{name.name}{'' if number == 1 else f'-{number}'}.jsonl")
                try:
                    return path, open(path, "xb", buffering=0)
                except FileExistsError:
                    continue
                except OSError as error:
                    problem = error
                    break
        raise problem or OSError("no name is free for the record of the degraded time")


@dataclass(frozen=True, slots=True)
class DegradedTime:
    """Contents of one file: its sound rows, and how it ends."""

    path: Path
    rows: tuple[Row, ...]
    after_hash: str
    """Hash of the row before the first one; empty if unknown."""
    at_start: bool
    """Whether the process found no sound journal at its start; otherwise it lost the journal while running."""
    why: str
    damage: str | None = None

    @property
    def sound(self) -> bool:
        """Whether every line is a row of the chain."""
        return self.damage is None


def degraded_times(folder: Path) -> list[DegradedTime]:
    """Read every record of a degraded time in a data folder, in order of its rows."""
    return sorted((_read(path) for path in sorted(folder.glob(RECORDS))), key=lambda each: each.rows[:1])


def last_known(journal: Path) -> tuple[tuple[int, str], list[Row]]:
    """Return the last row known to be written (number, hash), and the rows of earlier degraded times."""
    earlier: list[Row] = []
    after = read_head(journal) or (0, GENESIS)
    for time in degraded_times(journal.parent):
        rows = [row for row in time.rows if not earlier or row.seq > earlier[-1].seq]
        earlier += rows
    if earlier and earlier[-1].seq >= after[0]:
        after = (earlier[-1].seq, earlier[-1].hash)
    return after, earlier


def line_of(row: Row) -> bytes:
    """Return one row as a line."""
    return (json.dumps(row._asdict() | {"body": json.loads(row.body)}, ensure_ascii=False) + "\n").encode()


def _read(path: Path) -> DegradedTime:
    rows: list[Row] = []
    damage: str | None = None
    begins = {"after_hash": "", "at_start": True, "why": ""}
    try:
        first, *lines = path.read_bytes().splitlines() or [b""]
        begins |= json.loads(first)["degraded"]
        for number, line in enumerate(lines, 2):
            line_row = json.loads(line)
            row = Row(**(line_row | {"body": encode(line_row["body"])}))
            if chain(rows[-1].hash if rows else str(begins["after_hash"]), *row[:-1]) != row.hash:
                raise ValueError(f"the hash of line {number} does not fit")
            rows.append(row)
    except (OSError, ValueError, TypeError, KeyError) as error:
        damage = f"after {len(rows)} rows: {error}"
    return DegradedTime(
        path, tuple(rows), str(begins["after_hash"]), bool(begins["at_start"]), str(begins["why"]), damage
    )
