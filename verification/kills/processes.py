"""Processes of a trial, forked from a server that has imported everything: else each of the four starts of a trial would
cost a processor two seconds, and a matrix has thousands of them. In all else they are like any other: with their own
memory, files and descriptors, and killed by the same signal.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path

from controller.children.patience import ChildSilent, Patience

GRACE_S = 10.0
POLL_S = 0.02
ASKED_WITHIN_S = 15.0
"""Longest time that one question to the processes of a trial takes (s)."""
os.environ["PYTHONSAFEPATH"] = (
    "1"  # for the server: keeps stray modules in the working directory out (choroid.common.child)
)
SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["choroid.simulation.lab", "verification.kills.host"])

_ONE_AT_A_TIME = threading.Lock()
"""Each start polls all processes, and of two threads that wait for one only the first receives its exit status."""


class Process:
    """One process that executes `work`; its output goes to `folder/name.log`, its input comes by a pipe."""

    def __init__(self, name: str, work: Callable[[], object], folder: Path) -> None:
        pipe = folder / f"{name}.stdin"
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe)
        self._stdin = os.open(pipe, os.O_RDWR)  # also for reading: otherwise it would wait for the reader
        self._process = SERVER.Process(target=_become, args=(work, folder / f"{name}.log", pipe), name=name)
        with _ONE_AT_A_TIME:
            self._process.start()

    @property
    def pid(self) -> int | None:
        """Process id."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs; minus the signal's number when a signal ended it."""
        with _ONE_AT_A_TIME:
            return self._process.exitcode

    def tell(self, line: str) -> None:
        """Write a line to its input."""
        os.write(self._stdin, line.encode() + b"\n")

    def terminate(self, seconds: float) -> bool:
        """Send SIGTERM; return whether it has ended when it could run for `seconds`."""
        return self._ended(signal.SIGTERM, seconds)

    def end(self) -> None:
        """End the process, by SIGKILL if necessary."""
        if not self.terminate(GRACE_S):
            self._ended(signal.SIGKILL, GRACE_S)
        os.close(self._stdin)

    def _ended(self, by: signal.Signals, seconds: float) -> bool:
        """Return whether it has ended when it could run for `seconds` after the signal; an ended one gets none, since its
        number may be reused.
        """
        if self.returncode is None and self.pid is not None:
            os.kill(self.pid, by)
        return comes_true(lambda: self.returncode is not None, seconds, self._alive, every_s=POLL_S)

    def _alive(self) -> list[int]:
        return [self.pid] if self.pid is not None and self.returncode is None else []


def comes_true(
    true: Callable[[], bool], within_s: float, pids: Callable[[], Collection[int]], *, every_s: float = 0.05
) -> bool:
    """Ask `true()` again and again; return whether it came true before `pids` could run for `within_s` without that."""
    patience = Patience(lambda: [os.getpid(), *pids()], within_s, max_look_s=ASKED_WITHIN_S)
    try:
        while not true():
            patience.update()
            time.sleep(every_s)  # noqa: TID251  (real processes)
    except ChildSilent:
        return False
    return True


def _become(work: Callable[[], object], log: Path, pipe: Path) -> None:
    """Set up standard streams in the new process, then execute the work."""
    os.dup2(os.open(pipe, os.O_RDONLY), 0)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  (as long as the process lives)
    said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for number in (1, 2):
        os.dup2(said, number)
    work()
