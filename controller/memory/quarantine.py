"""Files that cannot be used are kept under another name. The guard needs this as well, and no database."""

from __future__ import annotations

import os
from pathlib import Path

SUFFIX = ".quarantined-"
"""Between the name of the file and a number."""


def quarantine_path(path: Path) -> Path:
    """Return a free name in the folder of `path`, for a file that cannot be used and is kept."""
    return next(
        name for n in range(1, 10_000) if not os.path.lexists(name := path.with_name(f"{path.name}{SUFFIX}{n}"))
    )


def quarantined_files(folder: Path) -> list[str]:
    """Return the names of the files in `folder` that were renamed and are still there."""
    try:
        return sorted(path.name for path in folder.glob(f"*{SUFFIX}*"))
    except OSError:
        return []
