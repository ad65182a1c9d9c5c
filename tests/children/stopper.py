"""Stop a child process as soon as it is there, and let it go on later: a machine that gives it no processor."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

from controller.children.accounts import family_of
from tests.processes import command_of

LOOK_S = 0.002


@contextmanager
def stopped_at_start(*marks: str, seconds: float) -> Iterator[list[int]]:
    """Stop each new process below this one with one of `marks` in its command, once, for `seconds`; yield those stopped."""
    over, seen, stopped = Event(), set(descendants()), []

    def watch() -> None:
        until: dict[int, float] = {}
        while not over.is_set() or until:
            for pid in set(descendants()) - seen:
                if any(mark in command_of(pid) for mark in marks):
                    seen.add(pid)
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGSTOP)
                        stopped.append(pid)
                        until[pid] = time.monotonic() + seconds
            for pid, at_s in list(until.items()):
                if over.is_set() or time.monotonic() > at_s:
                    del until[pid]
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGCONT)
            time.sleep(LOOK_S)

    thread = Thread(target=watch)
    thread.start()
    try:
        yield stopped
    finally:
        over.set()
        thread.join()


def descendants() -> list[int]:
    """Return the processes below this one."""
    return family_of(os.getpid())[1:]
