"""Private folders of this machine next to the data folder: the spare data folder and the second place of the emergency stop.

They fail independently of the disk of the data folder. Only the standard library is used, so that the guard can import it.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path

SERVICE = Path("/run/choroid")
"""The folder that systemd makes for the service."""
_SPARE = re.compile(r"data-([0-9a-f]{16})")


def key_of(data: Path) -> str:
    """Return a short name for the data folder `data`; a spare folder has that of the folder that it stands for."""
    if spare := _SPARE.fullmatch(data.name):
        return spare[1]
    return hashlib.sha256(os.fsencode(data.absolute())).hexdigest()[:16]


def spare_name(data: Path) -> str:
    """Return the name of the spare folder of `data`."""
    return f"data-{key_of(data)}"


def own_bases() -> list[Path]:
    """Return the folders of this process's service or session, for files of one run."""
    named = (os.environ.get(name, "").partition(":")[0] for name in ("RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR"))
    found = [Path(each) for each in named if each.startswith("/")]
    return [base if base.name == "choroid" else base / "choroid" for base in found]


def shared() -> tuple[Path, Path]:
    """Return the folders in which every user may write."""
    return Path(tempfile.gettempdir()), Path("/dev/shm")  # noqa: S108  (the folders made in them have mode 0700)


def shared_bases(user: int) -> list[Path]:
    """Return the folders of `user` in the shared ones."""
    return [folder / f"choroid-{user}" for folder in shared()]


def bases_of(user: int) -> list[Path]:
    """Return all folders in which private files of `user` may lie, the likelier first; not all of them are there."""
    return list(dict.fromkeys((SERVICE, *own_bases(), *shared_bases(user))))


def is_private(folder: Path, user: int) -> bool:
    """Return whether `folder` is a directory that only `user` can enter; every user may write into the shared ones."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == user and not found.st_mode & 0o077


def private_ones(bases: Iterable[Path], user: int) -> list[Path]:
    """Return those of `bases` that are there and private to `user`."""
    return [base for base in bases if is_private(base, user)]
