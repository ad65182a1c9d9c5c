"""Run in the copy: the added verb is used by recipes and Python protocols; it is planned, rehearsed and run."""

from __future__ import annotations

from pathlib import Path

import pytest

from choroid.simulation.plan import plan
from controller.core.run_states import RunState
from controller.recipes.catalogue import of_file
from controller.rig.loading import load_rig
from controller.runs.runner import RunnerError
from sim.lab import SimulatedLab
from tests.execution.test_whole_stack import controlled, until
from tests.execution.world import BENCH, RIG
from tests.protocols.make_verbs import DOCS, PAGE

VERB, VALVE = "immune.vent", "relay.return_valve"
RECIPE = """recipe: 1
name: venting
title: Vent the sterile filter
parameters:
  long: {default: 5 s, min: 1 s, max: 20 s, help: how long}
steps:
  - immune.vent: long
"""
PYTHON = """
NAME = "venting"
TITLE = "Vent the sterile filter"
PARAMS = ()
async def protocol(lab, params):
    await lab.immune.vent(5.0)
"""


def test_it_is_in_the_documentation_and_on_the_page() -> None:
    assert f"| `{VERB}` | **`time`** (s, 0 to 20) |" in DOCS.read_text(encoding="utf-8")
    assert f'"{VERB}": "Vent the sterile filter"' in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "text"), [("venting.yaml", RECIPE), ("venting.py", PYTHON)])
def test_it_is_planned(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    found = plan(BENCH, protocol=str(path), params={}, hours=0.1, seed=1)
    assert found["feasible"], found["refusals"]
    assert [step["verb"] for step in found["steps"]] == [VERB]


@pytest.mark.virtual_time
async def test_it_is_run_by_a_simulated_laboratory(tmp_path: Path) -> None:
    path = tmp_path / "venting.yaml"
    path.write_text(RECIPE, encoding="utf-8")
    lab = SimulatedLab(RIG, seed=1)
    async with controlled(lab, tmp_path) as controller:
        run = await controller.runs.start(of_file(path), {"long": "8 s"}, "anna", "a test")
        await until(lambda: controller.runs.get(run).state is RunState.COMPLETE)
        (step,) = (row for row in controller.journal.entries(kinds=("step",), run=run))
        (done,) = (row for row in controller.journal.entries(kinds=("step.done",), run=run))
        acts = [row for row in controller.journal.entries(kinds=("act",)) if row.body["by"] == f"run:{run}"]
    assert (step.body["verb"], step.body["args"], step.body["policy"]) == (VERB, {"seconds": 8.0}, "redo")
    assert done.at_s - step.at_s == pytest.approx(8.0, abs=1.0)
    assert [row.body["command"] for row in acts if row.body["actuator"] == VALVE] == [["switch", True, 8.0]]
    await lab.close()


@pytest.mark.virtual_time
async def test_a_rehearsal_finds_that_a_rig_has_no_valve(tmp_path: Path) -> None:
    path = tmp_path / "venting.yaml"
    path.write_text(RECIPE, encoding="utf-8")
    without = tmp_path / "rig.yaml"
    without.write_text(
        BENCH.read_text(encoding="utf-8").replace(f"p_filter.pressure, valve: {VALVE}", "p_filter.pressure")
    )
    lab = SimulatedLab(RIG, seed=1)
    async with controlled(lab, tmp_path, rig=load_rig(without)) as controller:
        with pytest.raises(RunnerError, match="the rig has no valve behind a sterile filter"):
            await controller.runs.start(of_file(path), {}, "anna", "a test")
    await lab.close()
