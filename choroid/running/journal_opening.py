"""Opening the journal of `choroid run`: life support runs whatever the state of the journal."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

from controller.core.clock import Clock
from controller.journal.file import JournalInUse
from controller.journal.journal import Journal
from controller.journal.terms import JournalError, JournalLost

JOURNAL = "journal.db"
"""File name in a data folder."""


def open_journal(path: Path, clock: Clock, no_folder: str = "", *, threaded: bool = True) -> Journal:
    """Open a journal. Replace an unusable one by the record of a degraded time, with a message on stderr.

    Args:
        path: The journal's file.
        clock: Source of UTC.
        no_folder: Why the data folder cannot be used, when `path` is in a spare one; no journal is kept there.
        threaded: Whether a separate thread waits for the disk (real time).

    Raises:
        JournalInUse: Another process owns the journal.
    """
    try:
        if no_folder:
            raise JournalLost(no_folder)
        return Journal(path, clock, durable=True, threaded=threaded)
    except JournalInUse:
        raise
    except (JournalError, sqlite3.Error, OSError) as error:
        journal = Journal.degraded(path, clock, error, threaded=threaded)
        print(
            f"Choroid: DEGRADED MODE. {journal.lost}\nChoroid: heart, temperature and gas run at their set-points with their"
            " interlocks. Doses, protocols and stimulation are refused. Whether interlocks were latched is not known.",
            file=sys.stderr,
            flush=True,
        )
        return journal
