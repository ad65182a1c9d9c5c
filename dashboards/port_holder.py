"""Find the program that holds a TCP port, for the message to people."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

LISTENS = "0A"
"""State of a listening socket in /proc/net/tcp."""


def port_holder(port: int, *, proc: Path = Path("/proc")) -> str:
    """Return the program that listens on TCP `port` and its process number; empty if it cannot be seen."""
    sockets = {f"socket:[{inode}]" for name in ("tcp", "tcp6") for inode in _listening(proc / "net" / name, port)}
    if not sockets:
        return ""
    for folder in proc.glob("[0-9]*"):
        with suppress(OSError):  # of another user, or gone
            for descriptor in (folder / "fd").iterdir():
                with suppress(OSError):
                    if os.readlink(descriptor) in sockets:
                        return f"{(folder / 'comm').read_text().strip()} (process {folder.name})"
    return ""


def _listening(table: Path, port: int) -> list[str]:
    """Return the inodes of the sockets in `table` that listen on `port`."""
    with suppress(OSError):
        rows = (line.split() for line in table.read_text(encoding="ascii").splitlines()[1:])
        return [row[9] for row in rows if row[3] == LISTENS and int(row[1].rpartition(":")[2], 16) == port]
    return []
