"""A Python protocol under `choroid run`: uploaded, reviewed by roles, killed in a dose, blocked."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import Bench, until

DOSE_UL = 500.0
TEXT = f'''"""A dose, and then a wait that blocks, unless a person says otherwise: a plan assumes "no"."""

import time

from protocols.answers import AnswerForm

NAME = "blocking"
TITLE = "Draws, then blocks"
PARAMS = ()


async def protocol(lab, params):
    drawn = await lab.kidney.draw({DOSE_UL})
    await lab.note("drawn", {{"ul": drawn.ul}})
    blocks = await lab.ask("Block?", AnswerForm(kind="choice", choices=("no", "yes")))
    while blocks == "yes":
        time.sleep(1)
'''


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.end()


@pytest.mark.long
def test_an_uploaded_protocol_survives_a_kill_in_a_dose_and_is_held_when_it_blocks(
    bench: Bench, tmp_path: Path
) -> None:
    controller = bench.run()
    anna = bench.told("user", "add", "anna", "--role", "operator")["token"]
    ben = bench.told("user", "add", "ben", "--role", "engineer")["token"]
    file = tmp_path / "blocking.py"
    file.write_text(TEXT)
    shared = bench.command("protocol", "submit", str(file))
    assert (shared.returncode, ")” does not tell which person submits" in shared.stderr) == (1, True)
    version = bench.told("protocol", "submit", str(file), token=anna)["sha256"]
    own = bench.command("protocol", "accept", version, token=anna)
    assert own.returncode == 1
    assert "operator may not do this" in own.stderr
    early = bench.command("protocol", "start", "blocking", token=anna)
    assert "no protocol is called “blocking”" in early.stderr
    assert bench.told("protocol", "accept", version, token=ben)["state"] == "reviewed"
    assert bench.told("protocol", "release", version, token=ben)["state"] == "released"
    run = bench.told("protocol", "start", "blocking", token=anna)["id"]

    until(lambda: bool(bench.rows("act.outcome")), "the draw runs, and that is recorded", seconds=60)
    time.sleep(1.0)
    os.kill(controller.pid, signal.SIGKILL)
    controller.wait()
    bench.run()
    until(lambda: bool(bench.rows("note.drawn")), "the run goes on after the dose", seconds=90)
    ((_, note),) = bench.rows("note.drawn")
    assert note["ul"] == pytest.approx(DOSE_UL, rel=0.1)
    booked = [body for _, body in bench.rows("moved") if body["line"] == "draw"]
    assert sum(body["ul"] for body in booked) == pytest.approx(DOSE_UL, rel=0.1)
    until(lambda: bench.run_state(run) == "held", "the question is asked")
    bench.told("protocol", "answer", "yes", token=anna)
    until(
        lambda: any("not asked" in each for each in bench.get(f"/api/runs/{run}")["messages"]),
        "the blocked run is held",
        seconds=60,
    )
    until(lambda: bench.run_state(run) == "held", "no step of it runs")
    view = bench.get(f"/api/runs/{run}")
    assert "the protocol has not asked for a verb for 20 s, at " in view["messages"][-1]
    assert f"{version}.py:{TEXT[: TEXT.index('time.sleep')].count(chr(10)) + 1}" in view["messages"][-1]
    assert "Next: await a verb in the loop" in view["messages"][-1]
    (start,) = (body for _, body in bench.rows("run.start"))
    assert (start["user"], start["version_sha256"]) == ("anna", version)
    alarms = bench.get("/api/alarms")["alarms"]
    assert any(alarm["kind"] == "run_held" for alarm in alarms)
    bench.told("protocol", "abort", "--reason", "enough seen", token=anna)
    until(lambda: bench.run_state(run) == "aborted", "the run is aborted")
