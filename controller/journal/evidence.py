"""Evidence of a repaired or replaced journal: all its files, unchanged, in a separate folder."""

from __future__ import annotations

import os
from pathlib import Path

from controller.journal.file import RECORDS, head_path

FOLDER_SUFFIX = "-old-"
"""Between the journal's name and a number, in the name of the folder."""


def journal_files(journal: Path) -> list[Path]:
    """Return the existing files of a journal: database, WAL, head, rescued copies, degraded times."""
    database = [journal.with_name(journal.name + suffix) for suffix in ("", "-wal", "-shm")]
    rescued = sorted(journal.parent.glob(f"{journal.name}.rescued-*"))
    found = [*database, head_path(journal), *rescued, *sorted(journal.parent.glob(RECORDS))]
    return [path for path in found if path.exists()]


def move_old_files(journal: Path) -> Path:
    """Move every file of a journal into a new folder next to it. Return the folder. Nothing is deleted."""
    prefix = f"{journal.stem}{FOLDER_SUFFIX}"
    folder = next(path for n in range(1, 10_000) if not (path := journal.with_name(f"{prefix}{n}")).exists())
    folder.mkdir()
    for path in journal_files(journal):
        path.rename(folder / path.name)
    descriptor = os.open(journal.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return folder
