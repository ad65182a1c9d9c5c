"""The guard's log: written if the disk permits, without ever delaying the guard.

A full or hanging disk may be the very reason why the controller has ended. A separate thread therefore writes the log; it may
fail or wait while the outputs come to rest.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue


class GuardLog:
    """Log lines for the file `path`, which is not opened before the first one. `add` returns at once and never fails."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        # Start the thread now: a computer on which a controller dies may not be able to start one later.
        self._writer = threading.Thread(target=self._write, name="guard's log", daemon=True)
        self._writer.start()

    def add(self, line: str) -> None:
        """Queue a line. A line that the disk does not take is retried with the next one."""
        self._lines.put(line)

    def close(self, patience_s: float) -> None:
        """Wait until everything is written, for at most `patience_s`."""
        self._lines.put(None)
        self._writer.join(patience_s)

    def _write(self) -> None:
        unwritten = ""
        while (line := self._lines.get()) is not None:
            unwritten += f"{line}\n"
            with suppress(OSError):
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(unwritten)
                unwritten = ""
