"""Keep what a controller writes for its own user, whatever umask it was started with."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

OTHERS = 0o077


def keep_files_private() -> None:
    """From now on this process, and those that it starts, make files with mode 0600 and folders with 0700."""
    os.umask(OTHERS)


def close_to_others(data: Path) -> None:
    """Close a data folder of before to other users of the machine, and say so; what lies in it is closed with it."""
    try:
        found = data.stat()
        if not found.st_mode & OTHERS or found.st_uid != os.geteuid() or found.st_mode & stat.S_ISVTX:
            return
        data.chmod(0o700)
        closed = not data.stat().st_mode & OTHERS
    except OSError:
        closed = False
    told = "it is closed now" if closed else "it cannot be closed. Next: use a file system that keeps modes"
    print(f"Choroid: {data} was open to other users of this machine; {told}", file=sys.stderr)
