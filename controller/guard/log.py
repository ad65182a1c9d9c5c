"""The guard's log: words that reach the disk if the disk lets them, and never hold anybody up.

A disk that is full, or that hangs, may be the very reason why the controller has ended. So the words are written by a
thread of their own, which may fail or wait as long as it likes; the outputs come to rest meanwhile.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue


class GuardLog:
    """Lines for the file `path`, which is not touched before the first one. `add` returns at once and never fails."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        # Now, not at the first word: a computer on which a controller dies may not have a thread left to give.
        self._writer = threading.Thread(target=self._write, name="guard's log", daemon=True)
        self._writer.start()

    def add(self, line: str) -> None:
        """Have `line` written. One that the disk does not take is tried again with the next."""
        self._lines.put(line)

    def close(self, patience_s: float) -> None:
        """Wait until everything is written, but no longer than `patience_s`."""
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
