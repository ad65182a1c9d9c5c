"""The page's process gives up every file that it does not need: of the hub's folder it can read the database and the boards.

So code that takes the page over cannot read the hub's keys, although the process belongs to the hub's user.
"""

from __future__ import annotations

import mimetypes
import platform
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from controller.sandbox.errors import SandboxUnavailable
from controller.sandbox.lock import no_new_privileges, require_one_thread, restrict_files
from grid.boards.loading import OWN
from grid.grading.store import FILE

DATABASE = (FILE, f"{FILE}-wal", f"{FILE}-shm")


def confine(data: Path) -> str:
    """Confine this process; return why that is not possible, empty if it is confined.

    The database is open by then and stays so. Files that are needed later can be read: those of Python and its packages.

    Args:
        data: The hub's folder.
    """
    if platform.system() != "Linux":
        return f"{platform.system()} has no Landlock"
    try:
        require_one_thread()
        no_new_privileges()
        mimetypes.init()  # reads files of the system
        restrict_files(sorted({path for path in _needed(data) if path.exists()}))
    except (SandboxUnavailable, OSError) as error:
        return str(error)
    return ""


def _needed(data: Path) -> Iterator[Path]:
    yield from (data / name for name in (*DATABASE, OWN))
    hub = data.resolve()
    libraries = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    packages = {place for module in tuple(sys.modules.values()) for place in getattr(module, "__path__", ())}
    for each in libraries | packages:
        path = Path(each).resolve()
        if path != hub and path not in hub.parents:  # else the keys would be beneath it
            yield path
