"""Owner of a data directory's journal, by the kernel's list of locks: no file is opened, so no process is locked out."""

from __future__ import annotations

import os
from pathlib import Path

OWNER = "journal.db.owner"
"""File in a data directory that a controller keeps locked while it runs (:mod:`controller.journal.journal`)."""
LOCKS = Path("/proc/locks")


def holders(owner: Path, locks: Path = LOCKS) -> tuple[int, ...]:
    """Return the processes that hold the lock on `owner`; empty without such a file, or without a list (not Linux).

    A process of another container appears as 0 (proc(5), “/proc/locks”). One that waits for the lock does not hold it.
    """
    try:
        status = owner.stat()
        lines = locks.read_text(encoding="ascii").splitlines()
    except OSError:
        return ()
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    exact: list[int] = []
    by_inode: list[int] = []
    for line in lines:
        words = line.split()
        if len(words) > 5 and words[1] == "FLOCK" and words[5].endswith(f":{status.st_ino}"):
            by_inode.append(int(words[4]))
            if words[5] == f"{device}:{status.st_ino}":
                exact.append(int(words[4]))
    # Inodes of different file systems may be equal. Some file systems (btrfs, overlay) give `stat` another device number.
    return tuple(dict.fromkeys(exact or by_inode))
