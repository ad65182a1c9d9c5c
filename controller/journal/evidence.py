"""What is kept of a journal that is repaired or replaced: every file of it, unchanged, in a folder beside."""

from __future__ import annotations

import os
from pathlib import Path

from controller.journal.file import RECORDS, head_path


def journal_files(journal: Path) -> list[Path]:
    """Every file that belongs to a journal, as far as it exists: database, WAL, head, rescued copies, degraded times."""
    beside = [journal.with_name(journal.name + suffix) for suffix in ("", "-wal", "-shm")]
    rescued = sorted(journal.parent.glob(f"{journal.name}.rescued-*"))
    found = [*beside, head_path(journal), *rescued, *sorted(journal.parent.glob(RECORDS))]
    return [path for path in found if path.exists()]


def set_aside(journal: Path) -> Path:
    """Move every file of a journal into a new folder beside it; returns the folder. Nothing is removed."""
    folder = next(
        path for n in range(1, 10_000) if not (path := journal.with_name(f"{journal.stem}-aside-{n}")).exists()
    )
    folder.mkdir()
    for path in journal_files(journal):
        path.rename(folder / path.name)
    descriptor = os.open(journal.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return folder
