"""Run one guard in this process: its lock, its priority, its log, then the service.

The log is written if the disk permits, without ever delaying the guard: a full or hanging disk may be the very reason why
the controller has ended. A separate thread therefore writes the log; it may fail or wait while the outputs come to rest. It
writes the guard's other file too.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import IO

from controller.guard.liveness import SILENCE_S
from controller.guard.notify import notify
from controller.guard.processes import raise_priority
from controller.guard.service import GuardService
from controller.guard.wire import LOCK, LOG
from drivers.registry import load_third_party
from drivers.transport import claims
from drivers.transport.opener import open_real


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


EXIT_BUSY = 3
LAST_WORDS_S = 5.0
"""Maximum time that the guard waits at its end for a disk that does not take its log (s)."""
STAND_BY_S = 0.5


def run(plan: Path, *, own: bool, silence_s: float | None = None) -> int:
    """Watch until the end. Return the exit status (:mod:`controller.guard.__main__`).

    A guard that no controller owns waits until no other guard watches the same data directory.
    """
    data = plan.parent
    lock = _only_guard(data, wait=not own)
    if lock is None:
        print("another guard watches this data directory", file=sys.stderr)
        return EXIT_BUSY
    load_third_party()
    claims.introduce("guard", data)
    granted = raise_priority()
    logging.disable(logging.CRITICAL)  # the guard has its own log
    log = GuardLog(data / LOG)

    async def watch() -> int:
        service = GuardService(
            plan,
            own=own,
            opener=open_real,
            write=log.add if own else _both(log),
            keep=log.keep,
            silence_s=silence_s or SILENCE_S,
        )
        return await service.run(ready=lambda: service.tell(f"process {os.getpid()} is ready ({granted})"))

    status = asyncio.run(watch())
    log.close(LAST_WORDS_S)
    lock.close()
    return status


def _both(log: GuardLog) -> Callable[[str], None]:
    """Return a function that also writes to standard error, which a service manager keeps."""

    def tell(line: str) -> None:
        log.add(line)
        try:
            print(line, file=sys.stderr, flush=True)
        except OSError:
            return  # standard error is closed

    return tell


def _only_guard(data: Path, *, wait: bool) -> IO[bytes] | None:
    """Take the guard's lock; None if another guard holds it. With `wait`, stand by until that one has ended."""
    file = (data / LOCK).open("ab")
    reported = False
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                file.close()
                return None
        else:
            return file
        if not reported:
            reported = True
            notify("READY=1\nSTATUS=standing by: another guard watches")
            print("standing by: another guard watches", file=sys.stderr, flush=True)
        signal.sigtimedwait((), STAND_BY_S)  # SIGTERM ends the process at once: it watches nothing yet
        notify("WATCHDOG=1")
