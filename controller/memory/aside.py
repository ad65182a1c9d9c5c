"""Files that cannot be used are kept under another name. The guard needs this as well, and no database."""

from __future__ import annotations

import os
from pathlib import Path


def name_aside(path: Path) -> Path:
    """Return a free name beside `path`, for a file that cannot be used and is kept."""
    return next(name for n in range(1, 10_000) if not os.path.lexists(name := path.with_name(f"{path.name}.aside-{n}")))


def files_aside(folder: Path) -> list[str]:
    """Return the names of the files in `folder` that were set aside and are still there."""
    try:
        return sorted(path.name for path in folder.glob("*.aside-*"))
    except OSError:
        return []
