"""Tell apart why a disk takes nothing: a read-only file system, a full disk, a quota, rights, a failed disk, another program.

The remedies differ: room on a full disk helps, and on a read-only file system it does not.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import tempfile
from pathlib import Path
from typing import NamedTuple

TRIED_BYTES = 131_072
"""Bytes that a trial writes: as many as the journal needs for some transactions."""


class Remedy(NamedTuple):
    """The likely cause of a failed write, and the next action. As text: “Likely cause: …. Next: …”."""

    cause: str
    action: str

    def __str__(self) -> str:
        return f"Likely cause: {self.cause}. Next: {self.action}"


OTHER = Remedy(
    "the disk is full, read-only or failed, or another program holds the file",
    "look at free space, mount, owner and the system's log (dmesg), and correct what they show",
)
DAMAGED = Remedy(
    "the disk is full or read-only, the file is damaged, or another program holds it",
    "see what else runs there, how much room there is and whether it may be written, or restore the file",
)
"""What may be wrong with a file when its error does not say it."""
HELD = Remedy("another program holds the file", "end that program (`fuser` on the file names it)")
BY_ERRNO = {
    errno.EROFS: Remedy(
        "the file system is read-only: it was mounted so, or the system made it so after an error of the disk",
        "look at the system's log (dmesg) for errors of the disk; without any, mount it writable (`mount -o"
        " remount,rw`); with errors, save the data, check it (`fsck`) or replace the disk. Free space does not help",
    ),
    errno.ENOSPC: Remedy("the disk is full", "free space on it"),
    errno.EDQUOT: Remedy(
        "the disk quota of this user is used up; the disk itself may have room",
        "remove other files of this user there, or have the quota raised",
    ),
    errno.EIO: Remedy(
        "the disk or its connection has failed",
        "look at the system's log (dmesg), save the data, check cable and disk, and replace it",
    ),
    errno.ESTALE: Remedy(
        "the file server has lost this folder", "see whether the file server runs and mount the folder again"
    ),
}
BY_ERRNO |= dict.fromkeys(
    (errno.EACCES, errno.EPERM),
    Remedy("this user may not write there", "compare owner and rights of the folder with the user of this process"),
)
BY_ERRNO |= dict.fromkeys(
    (errno.EMFILE, errno.ENFILE),
    Remedy("too many files are open", "end other programs, or raise the limit of open files (`ulimit -n`)"),
)
_BY_SQLITE = {sqlite3.SQLITE_FULL: BY_ERRNO[errno.ENOSPC], sqlite3.SQLITE_BUSY: HELD, sqlite3.SQLITE_LOCKED: HELD}


def remedy(error: Exception, folder: Path | None = None, other: Remedy = OTHER) -> Remedy:
    """Return the likely cause of a failed write, and the next action.

    Args:
        error: an OSError, or an error of SQLite, which does not keep the number of the system's error.
        folder: where to try what SQLite does not say; None tries nothing.
        other: the answer for an error that none of the known causes explains.
    """
    if isinstance(error, sqlite3.Error):
        # The low byte of an extended code is the code proper.
        known = _BY_SQLITE.get((getattr(error, "sqlite_errorcode", None) or 0) & 0xFF)
        if known is not None:
            return known
        number = None if folder is None else _tried(folder)
    else:
        number = getattr(error, "errno", None)
    return BY_ERRNO.get(number, other) if number is not None else other


def write_trial(folder: Path, *, sync: bool) -> None:
    """Write and remove a small file in `folder`; `sync` waits for the disk as well.

    Raises:
        OSError: the folder takes nothing.
    """
    descriptor, name = tempfile.mkstemp(prefix=".choroid-", dir=folder)
    try:
        left = TRIED_BYTES
        while left:  # a disk takes what fits, and fails only then
            left -= os.write(descriptor, bytes(left))
        if sync:
            os.fsync(descriptor)  # a failed disk takes everything into memory, and says so only here
    finally:
        os.close(descriptor)
        Path(name).unlink()


def _tried(folder: Path) -> int | None:
    """Return the number of the system's error when something is written into `folder`; None if it takes it."""
    try:
        write_trial(folder, sync=False)
    except OSError as error:
        return error.errno
    return None
