"""Run one guard in this process: its lock, its priority, its log, then the service."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

from controller.guard.liveness import SILENCE_S
from controller.guard.log import GuardLog
from controller.guard.notify import notify
from controller.guard.processes import raise_priority
from controller.guard.service import GuardService
from controller.guard.wire import LOCK, LOG
from drivers.registry import load_third_party
from drivers.transport import claims
from drivers.transport.opener import open_real

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
