"""Who holds a data directory's journal, by the kernel's own list of locks: nothing is opened, so nobody is kept out."""

from __future__ import annotations

import os
from pathlib import Path

OWNER = "journal.db.owner"
"""The file in a data directory that a controller keeps locked as long as it runs (:mod:`controller.journal.journal`)."""
LOCKS = Path("/proc/locks")


def holders(owner: Path, locks: Path = LOCKS) -> tuple[int, ...]:
    """The processes that hold the lock on `owner`; none when there is no such file, or no such list (not Linux).

    A process of another container is told as 0 (proc(5), “/proc/locks”). One that waits for the lock does not hold it.
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
    # Inodes of different file systems may be equal. Some file systems (btrfs, overlay) show stat another device than here.
    return tuple(dict.fromkeys(exact or by_inode))
