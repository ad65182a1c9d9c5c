"""Processes of a trial, forked from a server that has imported everything: else each of the four starts of a trial would
cost a processor two seconds, and a matrix has thousands of them. In all else they are like any other: with their own
memory, files and descriptors, and killed by the same signal.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable
from pathlib import Path

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["choroid.lab", "choroid.kills.host"])


class Process:
    """One process that does `work`; what it says goes to `folder/name.log`, what it is told comes by a pipe."""

    def __init__(self, name: str, work: Callable[[], object], folder: Path) -> None:
        pipe = folder / f"{name}.stdin"
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe)
        self._stdin = os.open(pipe, os.O_RDWR)  # for reading too: else it would wait for the reader
        self._process = SERVER.Process(target=_become, args=(work, folder / f"{name}.log", pipe), name=name)
        self._process.start()

    @property
    def pid(self) -> int | None:
        """Its number."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs; minus the signal's number when a signal ended it."""
        return self._process.exitcode

    def tell(self, line: str) -> None:
        """Give it a line to read."""
        os.write(self._stdin, line.encode() + b"\n")

    def terminate(self, seconds: float) -> None:
        """Ask it to end, and wait so long; raises TimeoutError when it still runs then."""
        self._process.terminate()
        self._process.join(seconds)
        if self._process.is_alive():
            raise TimeoutError(f"process {self._process.name} does not end")

    def end(self) -> None:
        """End it, one way or another."""
        try:
            self.terminate(10.0)
        except TimeoutError:
            self._process.kill()
            self._process.join()
        os.close(self._stdin)


def _become(work: Callable[[], object], log: Path, pipe: Path) -> None:
    """In the new process: have its own standard streams, then do the work."""
    os.dup2(os.open(pipe, os.O_RDONLY), 0)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  (as long as the process lives)
    said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for number in (1, 2):
        os.dup2(said, number)
    work()
