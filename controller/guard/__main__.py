"""Run the guard: `python -P -m controller.guard PLAN [--own] [--detach] [--silence S]`.

PLAN is the file that :class:`controller.guard.plan.GuardPlan` was written to, in the data directory; socket and log lie
beside it. Exit status: 0 the controller ended in order, or the guard was told to end and the rig is at rest; 1 the rig was
brought to rest; 2 not all of it could be; 3 another guard watches (with --own).
"""

from __future__ import annotations

import argparse
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
from controller.guard.processes import stand_out
from controller.guard.service import GuardService
from controller.guard.wire import LOCK, LOG
from controller.notify import notify
from drivers.registry import load_third_party
from drivers.transport.opener import open_real

EXIT_BUSY = 3
LAST_WORDS_S = 5.0
"""How long the guard waits at its end for a disk that does not take its log (s)."""
STAND_BY_S = 0.5


def main(words: list[str] | None = None) -> int:
    """Run one guard; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -P -m controller.guard", description=__doc__)
    parser.add_argument("plan", type=Path, help="the guard's plan, in the data directory")
    parser.add_argument("--own", action="store_true", help="a controller started this guard; end with it")
    parser.add_argument("--detach", action="store_true", help="leave the parent's process tree")
    parser.add_argument("--silence", type=float, default=SILENCE_S, help="a controller silent for so long (s) hangs")
    arguments = parser.parse_args(words)
    if arguments.detach and os.fork():
        return 0  # a guard that is nobody's child is not killed with a family
    data = arguments.plan.parent
    lock = _only_guard(data, wait=not arguments.own)
    if lock is None:
        print("another guard watches this data directory", file=sys.stderr)
        return EXIT_BUSY
    load_third_party()
    granted = stand_out()
    logging.disable(logging.CRITICAL)  # its own log tells it all
    log = GuardLog(data / LOG)
    tell = log.add if arguments.own else _both(log)
    status = asyncio.run(_guard(arguments, tell, granted))
    log.close(LAST_WORDS_S)
    lock.close()
    return status


async def _guard(arguments: argparse.Namespace, tell: Callable[[str], None], granted: str) -> int:
    service = GuardService(
        arguments.plan, own=arguments.own, opener=open_real, tell=tell, silence_s=arguments.silence
    )
    return await service.run(ready=lambda: service.tell(f"process {os.getpid()} is ready ({granted})"))


def _both(log: GuardLog) -> Callable[[str], None]:
    """Say everything on standard error as well: a service manager keeps that."""

    def tell(line: str) -> None:
        log.add(line)
        try:
            print(line, file=sys.stderr, flush=True)
        except OSError:
            return  # nobody reads it

    return tell


def _only_guard(data: Path, *, wait: bool) -> IO[bytes] | None:
    """Take the guard's lock; None when another guard has it. With `wait`, stand by until that one is gone."""
    file = (data / LOCK).open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if not wait:
            file.close()
            return None
    else:
        return file
    notify("READY=1\nSTATUS=standing by: another guard watches")
    print("standing by: another guard watches", file=sys.stderr, flush=True)
    while True:
        # Woken now and then, so that a watchdog hears of it; nothing is watched meanwhile, so SIGTERM may end it at once.
        signal.sigtimedwait((), STAND_BY_S)
        notify("WATCHDOG=1")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        return file


if __name__ == "__main__":
    sys.exit(main())
