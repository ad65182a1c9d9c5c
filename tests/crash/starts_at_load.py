"""Start controllers on a machine that is much too busy: no false diagnosis, and an emergency stop is kept (B2, B3).

`python -m tests.crash.starts_at_load --starts 50 --load 40`. Some rigs are started together, next to processes that compute
without end, until the load is reached. Each is stopped by its emergency stop, killed with its guard, and started again. The
labs stand for hardware, which no load slows down: they run before all others, which takes root.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from controller.gate.latch import Latch
from tests.processes import Bench, lives

EXPECTED = {"emergency_stop", "not_commissioned", "restart_unsure"}
"""Alarms that tell the truth here."""
STARTED_S = 1800.0
"""Time in which a start must be over; a busy machine needs minutes."""
SETTLED_S = 20.0
"""Time after a start in which a false diagnosis would come."""


@contextlib.contextmanager
def computing(processes: int) -> Iterator[None]:
    """Load the machine with processes that compute without end, at the usual priority."""
    words = [sys.executable, "-c", "while True: pass"]
    busy = [subprocess.Popen(words) for _ in range(processes)]
    try:
        yield
    finally:
        for each in busy:
            each.kill()
            each.wait()


class Starts:
    """What the starts of one rig gave."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.bench = Bench(folder)
        try:
            for thread in Path(f"/proc/{self.bench.lab.pid}/task").iterdir():
                os.sched_setscheduler(int(thread.name), os.SCHED_RR, os.sched_param(1))
        except PermissionError as error:
            print(
                f"{folder.name}: the simulated devices run at ordinary priority ({error}), so they may answer late at this"
                " load, which hardware does not. Next: run this as root",
                file=sys.stderr,
            )
        self.took_s: list[float] = []
        self.faults: list[str] = []

    def twice(self) -> None:
        """Start, stop in an emergency, kill, start again."""
        self._start()
        controller = self._pid()
        os.kill(controller, signal.SIGUSR1)
        self._wait(lambda: Latch(self.bench.data).read() is not None, "the signal is an emergency stop")
        for pid in (controller, *self._guards()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._wait(lambda: not lives(controller), "it is dead")
        (self.bench.data / "endpoint.json").unlink(missing_ok=True)
        self._start()
        alarms = {alarm["kind"] for alarm in self._get("/api/alarms")["alarms"]}
        if "emergency_stop" not in alarms or Latch(self.bench.data).read() is None:
            self.faults.append(f"the emergency stop is lost; alarms: {sorted(alarms)}")

    def judge(self) -> None:
        """Judge what the journal and the standard error say."""
        for _, body in self.bench.rows("alarm.raised"):
            if body["alarm"].partition(":")[0] not in EXPECTED:
                self.faults.append(f"alarm {body['alarm']}: {body['detail']}")
        self.faults += [f"data in {each}" for each in self.bench.data.glob("degraded-*")]
        for line in (self.folder / "run.log").read_text(errors="replace").splitlines():
            if not line.startswith(("Choroid: rig ", "nothing starts this controller")):
                self.faults.append(f"standard error: {line}")

    def _start(self) -> None:
        begun = time.monotonic()
        self.bench.start("run", str(self.bench.rig), "--data", str(self.bench.data), "--port", "0", "--no-restart")
        self._wait(self._answers, "its page answers")
        self.took_s.append(time.monotonic() - begun)
        time.sleep(SETTLED_S)

    def _answers(self) -> bool:
        try:
            return bool(self._get("/api/alarms"))
        except (OSError, ValueError):
            return False

    def _get(self, path: str) -> dict[str, Any]:
        return self.bench.get(path, seconds=120)

    def _pid(self) -> int:
        return int(json.loads((self.bench.data / "endpoint.json").read_text())["pid"])

    def _guards(self) -> list[int]:
        found = []
        for about in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                command = (about / "cmdline").read_bytes()
                if b"controller.guard" in command and str(self.bench.data).encode() in command:
                    found.append(int(about.name))
        return found

    def _wait(self, true: Callable[[], bool], what: str) -> None:
        due = time.monotonic() + STARTED_S
        while not true():
            if time.monotonic() > due:
                raise TimeoutError(f"not within {STARTED_S:g} s: {what}")
            time.sleep(1.0)


def measure(folder: Path, starts: int, load: int, together: int) -> dict[str, Any]:
    """Return how long the starts took, the load, and every fault."""
    took: list[float] = []
    loads: list[float] = []
    faults: Counter[str] = Counter()

    def one(rig: Starts) -> None:
        try:
            rig.twice()
        except (OSError, ValueError, TimeoutError) as error:
            rig.faults.append(f"{type(error).__name__}: {error}")
        loads.append(os.getloadavg()[0])

    folders = [folder / str(number) for number in range(starts // 2)]
    for first in range(0, len(folders), together):
        rigs = [Starts(each) for each in folders[first : first + together]]
        try:
            with computing(max(load - len(rigs), 0)), ThreadPoolExecutor(len(rigs)) as threads:
                list(threads.map(one, rigs))
            for rig in rigs:
                rig.judge()
                took += rig.took_s
                faults.update(rig.faults)
        finally:
            for rig in rigs:
                rig.bench.end()
        print(f"{len(took)} starts, load {loads[-1]:.0f}, faults: {dict(faults)}", file=sys.stderr, flush=True)
    return {
        "starts": len(took),
        "median_s": statistics.median(took) if took else None,
        "max_s": max(took, default=None),
        "load_average": round(max(loads), 1),
        "faults": faults,
    }


def main() -> int:
    """Print the figures as JSON; return 1 when there is a fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=50)
    parser.add_argument("--load", type=int, default=40)
    parser.add_argument("--together", type=int, default=10, help="rigs that are started at the same time")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="choroid-starts-") as folder:
        answer = measure(Path(folder), arguments.starts, arguments.load, arguments.together)
    print(json.dumps(answer, indent=1))
    return 1 if answer["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
