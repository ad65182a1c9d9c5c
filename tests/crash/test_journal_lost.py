"""A journal that disappears under `choroid run`, one that is damaged before its start, and a disk whose fsyncs take seconds:
real processes, real sockets, real time.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes import Bench, until
from verification.bench.slow_disk import DELAY, bench_slow_disk, slow_fsync


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.end()


def health(bench: Bench) -> dict[str, Any]:
    endpoint = json.loads((bench.data / "endpoint.json").read_text())
    try:
        with urllib.request.urlopen(endpoint["url"] + "/health", timeout=5) as reply:
            answer: dict[str, Any] = json.load(reply)
    except urllib.error.HTTPError as failing:
        answer = json.load(failing)
    return answer


def lost(bench: Bench) -> bool:
    try:
        return not health(bench)["ok"]
    except (OSError, ValueError, KeyError):
        return False


def heart(bench: Bench) -> bool:
    state = bench.get("/api/state")
    return bool((state["actuators"]["reglo.heart"]["status"] or {}).get("on"))


@pytest.mark.long
def test_F7_A11_a_journal_that_is_removed_under_choroid_run_fails_health_at_once_and_repair_brings_it_back(
    bench: Bench,
) -> None:
    """Health once stayed ok, doses went on, and a restart began with a blank journal and no alarm."""
    controller = bench.run()
    settings = ("--set", "batch=2 mL", "--set", "min_batch=2 mL", "--set", "cycles=1")
    run_id = bench.protocol("start", "recycle", *settings)["id"]
    until(lambda: bool(bench.rows("act.outcome")), "the draw runs, and that is recorded", seconds=120)
    for path in bench.data.glob("journal.db*"):
        path.unlink()  # as `rm journal.db*` does: head and owner as well
    until(lambda: lost(bench), "health says so")
    assert "was removed" in health(bench)["reasons"][0]
    until(lambda: "journal_lost" in {alarm["kind"] for alarm in bench.get("/api/alarms")["alarms"]}, "an alarm stands")
    assert list(bench.data.glob("degraded-*.jsonl"))

    controller.send_signal(signal.SIGKILL)
    controller.wait()
    (bench.data / "endpoint.json").unlink()
    again = bench.start("run", str(bench.rig), "--data", str(bench.data), "--port", "0", "--no-restart")
    until(lambda: (bench.data / "endpoint.json").exists() and lost(bench), "it runs in degraded mode", seconds=90)
    until(lambda: heart(bench), "the heart turns")
    assert not (bench.data / "journal.db").exists(), "no blank journal was begun"
    again.send_signal(signal.SIGTERM)
    again.wait()

    words = [sys.executable, "-m", "choroid", "repair", str(bench.data), "--json"]
    looked = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert looked.returncode == 1, looked.stderr
    found = json.loads(looked.stdout)
    assert found["missing_rows"] == 0, "the rescued copy has every row"
    assert found["open_runs"]
    done = subprocess.run([*words, "--apply"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    bench.run()
    until(lambda: bench.run_state(run_id) == "held", "the run is held for a person", seconds=90)


@pytest.mark.long
def test_R2_an_fsync_of_seconds_delays_doses_and_not_the_control_loop() -> None:
    """The guard once killed such a controller: the loop had stood for 4.8 s."""
    figures = bench_slow_disk(fsync_s=1.5, for_s=20.0)
    assert figures["doses"] >= 1
    assert figures["dose_waited_min_s"] >= 1.5
    assert figures["lag_max_ms"] < 1000.0, figures
    assert figures["journal_problem"] is None


def test_the_shim_that_makes_fsync_slow_does_so(tmp_path: Path) -> None:
    environment = {**os.environ, "LD_PRELOAD": str(slow_fsync(tmp_path)), DELAY: "0.7"}
    text = (
        "import os, sys, time\n"
        "file = open(sys.argv[1], 'w')\n"
        "for sync in (os.fsync, os.fdatasync):\n"
        "    begun = time.monotonic(); sync(file.fileno()); print(time.monotonic() - begun)\n"
    )
    words = [sys.executable, "-c", text, str(tmp_path / "file")]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=30, check=True)
    assert all(float(line) >= 0.7 for line in done.stdout.split())
