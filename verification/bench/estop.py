# ruff: noqa: TID251  (real processes, in real time)
"""Duration of an emergency stop with hostile sockets at the web server: by the API, by the guard, by a signal.

A real lab, controller, guard and electrode engine on loopback. “Begun” is the time until the stop is in force: it
is latched, the first command has gone out on every link, and everything else is refused. “Confirmed” is the time
until every output and the stimulation have been read back; the devices' own lines take most of it.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from choroid.common.child import python
from choroid.common.examples import bench_rig
from choroid.common.failure import UserError
from choroid.running.guarding import stop as stop_by_guard
from controller.gate.latch import NAME

SOCKETS = 1000
STOPS = 60
START_S = 120.0
PAUSE_S = 0.3
GOAL_MS = 200.0
PATIENCE_S = 30.0
LOG = "bench.log"
LOG_LINES = 30


def bench_estop(sockets: int = SOCKETS, stops: int = STOPS) -> dict[str, Any]:
    """Return the milliseconds of `stops` stops by each path, without and with `sockets` hostile ones: median, p99,
    maximum.
    """
    with tempfile.TemporaryDirectory(prefix="choroid-estop-") as folder, _running(Path(folder)) as rig:
        figures: dict[str, Any] = {"hostile_sockets": sockets, "stops": stops}
        figures |= _figures("quiet_", rig, stops)
        with _hostile(rig.host, sockets):
            figures |= _figures("hostile_", rig, stops)
            figures["hostile_health_ok"] = rig.healthy()
        return figures | {"unconfirmed": rig.unconfirmed, "goal_p99_ms": GOAL_MS}


class _Rig:
    """A running controller, found by its files in the data folder."""

    def __init__(self, data: Path) -> None:
        self.data = data
        said = json.loads((data / "endpoint.json").read_text(encoding="utf-8"))
        self.host = said["url"].removeprefix("http://")
        self._health = said["health"].removeprefix("http://").removesuffix("/health")
        self._token = said["token"]
        self._pid = said["pid"]
        self.unconfirmed = 0
        """Stops by the API that were in force, and answered, before every device had confirmed."""

    def post(self, path: str, body: dict[str, str]) -> dict[str, Any]:
        connection = http.client.HTTPConnection(self.host, timeout=PATIENCE_S)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        connection.request("POST", path, json.dumps(body), headers)
        answer = connection.getresponse()
        said = answer.read()
        connection.close()
        if answer.status != 200:
            raise RuntimeError(f"{path} answered {answer.status}: {said.decode(errors='replace')}")
        found: dict[str, Any] = json.loads(said)
        return found

    def log_end(self) -> str:
        """Return the last lines of the lab's and the controller's log."""
        return "\n".join(
            (self.data.parent / LOG).read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:]
        )

    def reset(self) -> None:
        self.post("/api/estop/reset", {"reason": "choroid verify bench estop"})
        time.sleep(PAUSE_S)  # the heart starts to turn again

    def by_api(self) -> None:
        self.unconfirmed += not self.post("/api/estop", {"reason": "choroid verify bench estop"})["confirmed"]

    def by_guard(self) -> None:
        stop_by_guard(self.data, reason="choroid verify bench estop")

    def by_signal(self) -> None:
        os.kill(self._pid, signal.SIGUSR1)

    def healthy(self) -> bool:
        connection = http.client.HTTPConnection(self._health, timeout=PATIENCE_S)
        connection.request("GET", "/health")
        answer = connection.getresponse()
        connection.close()
        return answer.status == 200


def _figures(prefix: str, rig: _Rig, stops: int) -> dict[str, float]:
    figures: dict[str, float] = {}
    for way, press in (("api", rig.by_api), ("guard", rig.by_guard), ("signal", rig.by_signal)):
        rig.reset()
        begun_ms, confirmed_ms = [], []
        for number in range(1, stops + 1):
            at_s = time.perf_counter()
            try:
                with ThreadPoolExecutor(1) as pool:
                    pressing = pool.submit(press)
                    _until((rig.data / NAME).exists, PATIENCE_S, 0.001)
                    begun_ms.append((time.perf_counter() - at_s) * 1e3)
                    pressing.result()
                confirmed_ms.append((time.perf_counter() - at_s) * 1e3)
                rig.reset()
            except (OSError, RuntimeError, http.client.HTTPException) as error:
                raise UserError(
                    f"{prefix}{way}: stop {number} of {stops} or its reset failed after {time.perf_counter() - at_s:.1f} s"
                    f" ({type(error).__name__}: {error}). Load: {os.getloadavg()[0]:.1f}. The log of lab and controller"
                    f" ends:\n{rig.log_end()}"
                ) from error
        figures |= _spread(f"{prefix}{way}_begun", begun_ms)
        if way != "signal":  # a signal gets no answer
            figures |= _spread(f"{prefix}{way}_confirmed", confirmed_ms)
    return figures


def _spread(name: str, taken_ms: list[float]) -> dict[str, float]:
    return {
        f"{name}_p50_ms": round(statistics.median(taken_ms), 1),
        f"{name}_p99_ms": round(statistics.quantiles(taken_ms, n=100, method="inclusive")[98], 1),
        f"{name}_max_ms": round(max(taken_ms), 1),
    }


@contextmanager
def _running(folder: Path) -> Iterator[_Rig]:
    served, data = folder / "lab.yaml", folder / "data"
    lab = _child(folder, "lab", "serve", str(bench_rig()), "--write", str(served))
    try:
        _until(served.exists, START_S)
        controller = _child(folder, "run", str(served), "--data", str(data), "--port", "0")
        try:
            _until((data / "endpoint.json").exists, START_S)
            _until((data / "nerves.json").exists, START_S)
            yield _Rig(data)
        finally:
            controller.terminate()
            controller.wait()
    finally:
        lab.terminate()
        lab.wait()


@contextmanager
def _hostile(host: str, sockets: int) -> Iterator[None]:
    address, _, port = host.rpartition(":")
    command = [sys.executable, "-P", "-m", "verification.bench.hostile", address, port, str(sockets)]
    hostile = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603  (our own module)
    assert hostile.stdout is not None  # noqa: S101  (a pipe was asked for)
    try:
        hostile.stdout.readline()
        yield
    finally:
        hostile.communicate()


def _child(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    with (folder / LOG).open("ab") as log:
        return subprocess.Popen(python("choroid", *words), stdout=log, stderr=log)  # noqa: S603  (our own)


def _until(true: Callable[[], bool], within_s: float, every_s: float = 0.05) -> None:
    end_s = time.perf_counter() + within_s
    while not true():
        if time.perf_counter() > end_s:
            raise TimeoutError("a process of the benchmark did not do its part")
        time.sleep(every_s)
