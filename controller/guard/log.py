"""The guard's log: written if the disk permits, without ever delaying the guard.

A full or hanging disk may be the very reason why the controller has ended. A separate thread therefore writes the log; it may
fail or wait while the outputs come to rest. It writes the guard's other file too.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue


class GuardLog:
    """Log lines for the file `path`, which is not opened before the first one. `add` and `keep` return at once and never
    fail.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: SimpleQueue[str | tuple[Path, str] | None] = SimpleQueue()
        # Start the thread now: a computer on which a controller dies may not be able to start one later.
        self._writer = threading.Thread(target=self._write, name="guard's log", daemon=True)
        self._writer.start()

    def add(self, line: str) -> None:
        """Queue a line. A line that the disk does not take is retried with the next one."""
        self._lines.put(line)

    def keep(self, path: Path, text: str) -> None:
        """Replace the content of the file `path` by `text`; a disk that does not take it keeps the old content."""
        self._lines.put((path, text))

    def close(self, patience_s: float) -> None:
        """Wait until everything is written, for at most `patience_s`."""
        self._lines.put(None)
        self._writer.join(patience_s)

    def _write(self) -> None:
        unwritten = ""
        while (line := self._lines.get()) is not None:
            if isinstance(line, tuple):
                _replace(*line)
                continue
            unwritten += f"{line}\n"
            with suppress(OSError):
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(unwritten)
                unwritten = ""


def _replace(path: Path, text: str) -> None:
    with suppress(OSError):
        new = path.with_name(f"{path.name}.new")
        new.write_text(text, encoding="utf-8")
        new.replace(path)
