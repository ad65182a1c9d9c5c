"""The emergency stop of a real controller: with many idle connections, by signal, and over a restart (A9)."""

from __future__ import annotations

import json
import os
import signal
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.gate.latch import Latch, StopRecord
from tests.processes import Bench, until


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path, array=True)
    yield made
    made.end()


def test_A9_a_stop_by_page_and_by_signal_with_many_idle_connections_stands_over_a_kill(bench: Bench) -> None:
    controller = bench.run()
    endpoint = json.loads((bench.data / "endpoint.json").read_text())
    host, _, port = endpoint["url"].removeprefix("http://").rpartition(":")
    idle = [socket.create_connection((host, int(port))) for _ in range(300)]
    try:
        post(endpoint, "/api/estop", {"reason": "smoke"})
        assert Latch(bench.data).read() == StopRecord("command line", "smoke")
        post(endpoint, "/api/estop/reset", {"reason": "only toast"})
        assert Latch(bench.data).read() is None
        with urllib.request.urlopen(endpoint["health"], timeout=60) as answer:
            assert json.load(answer)["ok"] is True
        os.kill(controller.pid, signal.SIGUSR1)
        until(lambda: Latch(bench.data).read() is not None, "the signal is a stop")
        until(lambda: len(bench.rows("safety.estop")) == 2, "it is in the journal")
        assert bench.rows("safety.estop")[-1][1]["user"] == "signal"
        assert controller.poll() is None
    finally:
        for one in idle:
            one.close()
    os.kill(controller.pid, signal.SIGKILL)
    controller.wait()
    (bench.data / "endpoint.json").unlink(missing_ok=True)
    bench.run()
    active = {alarm["id"] for alarm in bench.get("/api/alarms")["alarms"]}
    assert any(alarm.startswith("emergency_stop:") for alarm in active)
    post(json.loads((bench.data / "endpoint.json").read_text()), "/api/estop/reset", {"reason": "seen to"})
    assert Latch(bench.data).read() is None


def post(endpoint: dict[str, str], path: str, body: dict[str, str]) -> None:
    request = urllib.request.Request(
        endpoint["url"] + path,
        json.dumps(body).encode(),
        {"Authorization": f"Bearer {endpoint['token']}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 200
