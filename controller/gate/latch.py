"""The latch of the emergency stop: one small file in the data folder.

It works without a journal, and the guard can set it for a controller that hangs. It is written without waiting for the
disk: it outlives every process, and the journal's row outlives a loss of power. Only the standard library is used, so
that the guard can import it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from controller.memory.quarantine import quarantine_path

NAME = "emergency-stop.json"
UNREADABLE = "the file of the emergency stop cannot be read, so the stop stands"


class Latch:
    """The emergency stop of the rig with the data folder `data`: who pressed it, and why."""

    def __init__(self, data: Path) -> None:
        self._path = data / NAME

    def read(self) -> tuple[str, str] | None:
        """Return who and why while the stop stands, else None. An unreadable file counts as a stop."""
        try:
            kept = json.loads(self._path.read_text(encoding="utf-8"))
            return str(kept["who"]), str(kept["reason"])
        except FileNotFoundError:
            return ("unknown", UNREADABLE) if self._path.is_symlink() else None
        except (OSError, ValueError, KeyError, TypeError):
            return "unknown", UNREADABLE

    def set(self, who: str, reason: str) -> None:
        """Write the stop; a later one replaces it. Raises OSError if the file cannot be written."""
        new = self._path.with_name(f"{NAME}.{os.getpid()}.new")
        new.write_text(json.dumps({"who": who, "reason": reason}), encoding="utf-8")
        self._move_directory()
        new.replace(self._path)

    def clear(self) -> None:
        """Remove the stop. Raises OSError if the file cannot be removed."""
        self._move_directory()
        self._path.unlink(missing_ok=True)

    def _move_directory(self) -> None:
        """Rename a directory at the file's path: it can be neither replaced nor removed as a file."""
        if self._path.is_dir() and not self._path.is_symlink():
            self._path.rename(quarantine_path(self._path))
