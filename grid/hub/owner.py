"""The hub's database with the hub's key, for the hub and the commands of its operator. Its page has no key."""

from __future__ import annotations

from pathlib import Path

from grid.clock import UtcSeconds, as_text, utc_s
from grid.errors import GridError
from grid.hub.store import FILE, Store
from grid.identity.keys import KEY_FILE, IdentityKey


def owned(folder: Path, *, name: str = "", utc: UtcSeconds = utc_s, new_log: bool = False) -> Store:
    """Open the database in `folder` with the hub's key, which signs its log; make both if there are none.

    Args:
        folder: The hub's data folder.
        name: Name of a new hub and its log; an existing hub keeps its own.
        utc: Source of UTC.
        new_log: Whether a key that exists may begin a new log, with a new name.

    Raises:
        GridError: The folder cannot be used, its key is missing or another one, or its log is missing.
    """
    if (folder / FILE).exists() and not (folder / KEY_FILE).exists():
        raise GridError(
            f"{folder / KEY_FILE} is missing, with which the hub signs its log. Likely cause: the folder was copied in part."
            " Next: restore it from a backup"
        )
    new = new_log or not (folder / KEY_FILE).exists()
    key = IdentityKey.in_folder(folder)
    again = as_text(utc()).translate({ord("-"): None, ord(":"): None}) if new_log else ""
    usual = "-".join(["grid", key.id[:12], *([again] if again else [])])
    return Store(folder, name=name or usual, utc=utc, key=key, new=new)
