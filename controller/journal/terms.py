"""Terms of the journal: its rows, their hash chain, and its errors."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from json.encoder import encode_basestring
from pathlib import Path
from typing import Any, NamedTuple

from controller.core.disk import OTHER, remedy

VERSION = 1
GENESIS = "0" * 64
"""The hash before the first row."""

encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
"""Encode canonical JSON: one text for one value."""


class JournalError(Exception):
    """The journal cannot be used. The message says what, where, the likely cause and the next action."""


class JournalUnwritten(JournalError):
    """A row is not on the disk, so nothing that depends on it may be done yet."""

    def __init__(self, error: Exception | str, folder: Path | None = None) -> None:
        """Say why; `folder` is the journal's, if it may be tried."""
        found = remedy(error, folder) if isinstance(error, Exception) else OTHER
        super().__init__(
            f"the journal cannot be written: {error}. {found}. The rig is kept alive meanwhile, rows wait in memory and are"
            " written as soon as the disk takes them"
        )


class JournalLost(JournalUnwritten):
    """The journal's file is not the one that this process wrote: removed, replaced, rolled back or damaged."""

    def __init__(self, what: str) -> None:
        JournalError.__init__(
            self,
            f"the journal is lost: {what}. Likely cause: files of the data folder were removed, restored or damaged. Next:"
            " stop the controller, run `choroid repair` on its data folder, then start it again; heart, temperature and gas"
            " go on meanwhile, and no dose is given",
        )


class JournalDamaged(JournalError):
    """A row differs from what was written; `seq` is the first such row."""

    def __init__(self, seq: int, what: str) -> None:
        super().__init__(
            f"journal row {seq}: {what}. Likely cause: the file was edited or part of it was restored."
            " Next: keep a copy as evidence and compare it with the last backup"
        )
        self.seq = seq


class Row(NamedTuple):
    """One row as stored; `body` is canonical JSON."""

    seq: int
    at_s: float
    utc: str
    kind: str
    run: str | None
    body: str
    hash: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One row as read. `at_s` is monotonic and comparable only within one process; `utc` holds across restarts."""

    seq: int
    at_s: float
    utc: str
    kind: str
    run: str | None
    body: Mapping[str, Any]
    hash: str


def chained(head: str, seq: int, at_s: float, utc: str, kind: str, run: str | None, body: str) -> Row:
    """Return the row that follows `head` (the hash of the row before), with its own hash."""
    return Row(seq, at_s, utc, kind, run, body, chain(head, seq, at_s, utc, kind, run, body))


def chain(head: str, seq: int, at_s: float, utc: str, kind: str, run: str | None, body: str) -> str:
    """Hash one row: the hash before it, then its canonical JSON (keys sorted, floats as repr writes them)."""
    of_run = "null" if run is None else encode_basestring(run)
    row = (
        f'{head}{{"at_s":{at_s!r},"body":{body},"kind":{encode_basestring(kind)},'
        f'"run":{of_run},"seq":{seq},"utc":{encode_basestring(utc)}}}'
    )
    return hashlib.sha256(row.encode()).hexdigest()


def walked(db: sqlite3.Connection) -> tuple[str, int]:
    """Verify the whole chain of a journal's file. Return its head and the number of rows.

    Raises:
        JournalDamaged: at the first invalid row.
    """
    head, expected = GENESIS, 0
    for seq, at_s, utc, kind, run, text, hashed in db.execute(
        "SELECT seq, at_s, utc, kind, run, body, hash FROM entries ORDER BY seq"
    ):
        expected += 1
        if seq != expected:
            raise JournalDamaged(expected, f"is missing; row {seq} follows")
        if chain(head, seq, at_s, utc, kind, run, text) != hashed:
            raise JournalDamaged(seq, "its hash does not fit its contents and the row before")
        head = hashed
    # AUTOINCREMENT keeps the highest number ever given, so rows cut off at the end are detected as well.
    highest = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'entries'").fetchone()
    if highest is not None and highest[0] != expected:
        raise JournalDamaged(expected + 1, f"is missing; there once were {highest[0]} rows")
    return head, expected
