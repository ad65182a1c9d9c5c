"""The files of previews: found by their names, and nothing else."""

from __future__ import annotations

import re
import stat
from pathlib import Path

FOLDER = "images"
"""Of the data folder."""
NAME = re.compile(r"[0-9]{8}T[0-9]{9}Z\.(?:webp|png)")
MAX_BYTES = 2_000_000


def preview_file(data: Path, camera: str, name: str) -> Path | None:
    """Return the file of a preview; None if there is none of this name.

    Args:
        data: The data folder.
        camera: A camera of the rig.
        name: Name of the file. Only names of previews are looked for, so that no other file is ever found.
    """
    if NAME.fullmatch(name) is None:
        return None
    path = data / FOLDER / camera / name
    try:
        found = path.lstat()
    except OSError:
        return None
    return path if stat.S_ISREG(found.st_mode) and found.st_size <= MAX_BYTES else None
