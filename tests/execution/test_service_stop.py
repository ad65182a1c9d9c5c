"""A service stop (SIGTERM) in a dose of the pump's minimum: the dose ends by itself, and the run goes on (A10)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from controller.core.run_states import RunState
from controller.process.controller import Controller
from controller.rig.description import required
from drivers.commands import PumpStatus
from sim.lab import SimulatedLab
from tests.execution.test_whole_stack import controlled, until
from tests.execution.world import RIG

RECIPE = "recipe: 1\nname: small-dose\ntitle: One small dose\nsteps:\n  - liver.add_glucose: 0.5 mL\n"
DOSE_S = 500.0 / required(RIG.organs.liver, "organs.liver").flow_ul_min * 60.0
ENDS = "the controller ends"
PUMP = RIG.lines["glucose"].pump or ""


def pumping(controller: Controller) -> bool:
    view = controller.store.actuators[PUMP]
    return isinstance(view.status, PumpStatus) and view.status.running


def moved_ul(lab: SimulatedLab) -> float:
    return lab.plant.truth().moved_ul["glucose"]


async def stopped_at(lab: SimulatedLab, data: Path, share: float) -> tuple[float, float]:
    """Stop the controller when `share` of the dose has been given; return how long that takes (s), and what was moved."""
    (data / "recipes").mkdir(exist_ok=True)
    (data / "recipes" / "small-dose.yaml").write_text(RECIPE)
    loop = asyncio.get_running_loop()
    async with controlled(lab, data) as first:
        await first.runs.start("small-dose", {}, "anna", "a test")
        await until(lambda: moved_ul(lab) > 0.0, every_s=0.05)
        await asyncio.sleep(share * DOSE_S)
        begun_s = loop.time()
    return loop.time() - begun_s, moved_ul(lab)


@pytest.mark.virtual_time
@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
async def test_A10_a_service_stop_lets_a_minimum_dose_end_and_the_run_completes(share: float, tmp_path: Path) -> None:
    lab = SimulatedLab(RIG, seed=3)
    took_s, moved = await stopped_at(lab, tmp_path, share)
    assert moved == pytest.approx(500.0, abs=60.0)
    assert took_s < 15.0
    async with controlled(lab, tmp_path) as second:
        run = second.runs.list()[0].id
        await until(lambda: second.runs.get(run).state in (RunState.COMPLETE, RunState.HELD))
        view = second.runs.get(run)
        assert view.state is RunState.COMPLETE, view.messages
        assert moved_ul(lab) == pytest.approx(moved, abs=1.0), "nothing is given twice"


@pytest.mark.virtual_time
async def test_A9_an_emergency_stop_meanwhile_ends_the_dose_at_once(tmp_path: Path) -> None:
    lab = SimulatedLab(RIG, seed=3)
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "small-dose.yaml").write_text(RECIPE)
    async with controlled(lab, tmp_path) as controller:
        await controller.runs.start("small-dose", {}, "anna", "a test")
        await until(lambda: moved_ul(lab) > 0.0, every_s=0.05)
        await asyncio.sleep(0.2 * DOSE_S)
        closing = asyncio.create_task(controller.close())
        await asyncio.sleep(0.3 * DOSE_S)
        ended = [row.body["actuator"] for row in controller.journal.entries(kinds=("act",)) if row.body["why"] == ENDS]
        assert PUMP not in ended
        assert {"reglo.heart", "relay.return_valve"} <= set(ended), "nothing else waits for the dose"
        before = moved_ul(lab)
        await controller.emergency_stop("anna", "smoke")
        await closing
        assert moved_ul(lab) - before < 60.0
        assert moved_ul(lab) < 400.0
