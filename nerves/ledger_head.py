"""The head file of the stimulation ledger: it names the last session, so that a blank or older ledger is noticed (F7).

A ledger that was removed or rolled back would give the tissue its whole charge budget again. The file is written when a
session begins and its row is on the disk, so a power failure leaves it behind the ledger, never ahead.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import suppress
from pathlib import Path


class LedgerRefused(sqlite3.DatabaseError):
    """A stimulation ledger that no engine may start with; the text names the file, the likely cause and the next action."""


def compare(db: sqlite3.Connection, ledger: Path) -> None:
    """Make sure that `ledger` has the session that its head file names; without a readable head file there is nothing to do.

    Raises:
        LedgerRefused: when it does not have it; it is no basis for stimulation then.
    """
    try:
        head = json.loads(_path(ledger).read_bytes())
        session, utc = int(head["session"]), str(head["utc"])
    except (OSError, ValueError, KeyError, TypeError):
        return
    found = db.execute("SELECT utc FROM session WHERE id = ?", (session,)).fetchone()
    if found is None or found[0] != utc:
        raise LedgerRefused(
            f"{ledger} does not have session {session} of {utc}, which was written before; what the tissue was given since"
            " is not known. Likely cause: the file was removed, replaced or restored from an older copy. Next: restore it;"
            f" or, when the tissue has rested for a day, remove {_path(ledger).name} to begin with this ledger"
        )


def write(db: sqlite3.Connection, ledger: Path, session: int, utc: str) -> None:
    """Name `session` once its row is on the disk. A disk that takes neither leaves the file behind."""
    with suppress(OSError, sqlite3.Error):
        busy, pages, moved = db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        if busy or pages != moved:
            return
        new = _path(ledger).with_suffix(".new")
        new.write_text(json.dumps({"session": session, "utc": utc}), encoding="utf-8")
        new.replace(_path(ledger))


def _path(ledger: Path) -> Path:
    return ledger.with_name(f"{ledger.name}.head")
