"""`kill -9` of a real controller against a real lab, in the middle of a transfer: real processes, real sockets, real time."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from tests.processes import Bench, until, waited_s

BATCH_UL = 2000.0
GAIN_SPREAD = 0.10
"""The simulated pump's calibration error is a few percent; twice the dose would be 100 %."""


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.end()


@pytest.mark.long
def test_E4_A1_killed_in_a_transfer_no_double_dose(bench: Bench) -> None:
    controller = bench.run()
    run_id = bench.protocol("start", "recycle", "--set", "batch=2 mL", "--set", "min_batch=2 mL", "--set", "cycles=1")[
        "id"
    ]
    until(lambda: bool(bench.rows("act.outcome")), "the draw runs, and that is recorded", seconds=120)
    time.sleep(3.0)  # some 0.2 mL of 2 mL have moved
    lab_waited_s = waited_s(bench.lab.pid)
    os.kill(controller.pid, signal.SIGKILL)
    killed_at = time.time()
    controller.wait()

    # A1: the guard has everything that does not end by itself in its basal state within two seconds.
    guard_log = bench.data / "guard.log"
    until(lambda: guard_log.exists() and "done after" in guard_log.read_text(), "the guard acted")
    lines = guard_log.read_text().splitlines()
    done_at = datetime.fromisoformat(lines[-1].split(" ")[0]).timestamp()
    assert done_at - killed_at - (waited_s(bench.lab.pid) - lab_waited_s) < 2.0, lines
    assert any("reglo.heart circulates" in line for line in lines), lines
    assert any(re.search(r"relay.heater is at its basal state: SwitchStatus\(on=False\)", line) for line in lines), (
        lines
    )
    assert not any("FAILED" in line for line in lines), lines

    # The pump's finite volume ends by itself; no controller runs to stop it.
    time.sleep(BATCH_UL / 4000.0 * 60.0)

    bench.run()
    until(lambda: bool(bench.rows("moved")), "the interrupted draw is resolved", seconds=60)
    moved = [body for _, body in bench.rows("moved") if body["line"] == "draw"]
    assert len(moved) == 1
    assert abs(moved[0]["ul"] - BATCH_UL) < GAIN_SPREAD * BATCH_UL, moved
    doses = [body["command"] for _, body in bench.rows("act") if body["command"][0] == "dispense"]
    assert len(doses) == 1, "the dose was given once and never again"
    assert moved[0]["source"].startswith("balance"), "the balance says that nothing was drawn twice"
    until(lambda: bench.run_state(run_id) == "running", "the run goes on")
    states = [body["to"] for _, body in bench.rows("run.state")]
    assert "restarting" in states

    # A person can still pause and abort it.
    assert bench.protocol("pause")["state"] in {"holding", "held"}
    until(lambda: bench.run_state(run_id) == "held", "the run is held")
    bench.protocol("abort", "--reason", "enough seen")
    until(lambda: bench.run_state(run_id) == "aborted", "the run is aborted")
