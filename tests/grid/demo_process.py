"""`choroid grid demo` as a process, with small measurements and a board that is graded within seconds."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.grid.small_board import NAME, small_board
from tests.grid.world import policy_file

ROOT = Path(__file__).resolve().parents[2]
WITHIN_S = 1500.0
"""On a fresh checkout the simulator is compiled first, on a loaded machine slowly."""


class GridDemoProcess:
    """A running demo; what it prints is in `out`."""

    def __init__(self, data: Path, *more: str) -> None:
        self.data = data
        self._log = data / "out.log"
        words = ("-m", "choroid", "grid", "demo", "--port", "0", "--board", NAME)
        given = ("--data", str(data), "--policy", str(policy_file(data)))
        with self._log.open("wb") as log:
            self._process = subprocess.Popen([sys.executable, *words, *given, *more], cwd=ROOT, stdout=log, stderr=log)

    @property
    def out(self) -> str:
        return self._log.read_text()

    @property
    def logs(self) -> str:
        return "\n".join(f"{path.name}: {path.read_text()[-1500:]}" for path in sorted((self.data / "logs").iterdir()))

    def until(self, text: str) -> str:
        """Wait until it has printed a text; return the line."""
        deadline = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline:
            for line in self.out.splitlines():
                if text in line:
                    return line
            assert self._process.poll() is None, self.out
            time.sleep(0.1)
        raise AssertionError(f"no “{text}” in {self.out}\n{self.logs}")

    def interrupt(self) -> int:
        """Press Ctrl-C; return its status."""
        self._process.send_signal(signal.SIGINT)
        return self._process.wait(60)

    def left(self) -> list[str]:
        """Return the command lines of processes that name its data folder."""
        found = []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                line = entry.read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if str(self.data) in line:
                found.append(line)
        return found


@contextmanager
def demo_process(data: Path, *more: str) -> Iterator[GridDemoProcess]:
    small_board(data / "hub")
    running = GridDemoProcess(data, *more)
    try:
        yield running
    finally:
        running.interrupt()
