"""One transfer pump that no longer answers: runs that do not use it go on, and those that do can be ended."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from controller.core.run_states import RunState
from controller.runs.run import REST_WITHIN_S
from controller.transfers.devices import SILENCE_S
from protocols.registry import PROTOCOLS
from tests.execution.protocols_for_tests import CATALOGUE
from tests.execution.world import Controller, World

DEAD = "dose_base.pump"
PROTOCOLS_TOO = {**PROTOCOLS, **CATALOGUE}


async def begun(world: World, path: Path, protocol: str, after_s: float, **params: str) -> tuple[Controller, str]:
    controller = Controller(world, path, catalogue=PROTOCOLS_TOO)
    run = await controller.runs.start(protocol, params, "anna", "a test")
    await asyncio.sleep(after_s)
    return controller, run


@pytest.mark.virtual_time
async def test_E2_a_dead_pump_that_a_run_has_not_used_delays_neither_hold_nor_abort(tmp_path: Path) -> None:
    world = World()
    controller, run = await begun(world, tmp_path / "j.db", "exchange", 60.0)
    world.pumps[DEAD].silent = True
    await controller.runs.pause(run, "anna", "a visitor")
    await controller.until(lambda: controller.runs.get(run).state is RunState.HELD, 120.0)
    assert any((kind, source) == ("command_failed", DEAD) for kind, source, _ in controller.alarms)
    await controller.runs.resume(run, "anna", "the visitor has gone")
    await asyncio.sleep(60.0)
    await controller.runs.abort(run, "anna", "enough")
    await controller.until(lambda: controller.runs.get(run).state is RunState.ABORTED, 120.0)
    end = controller.journal.last("run.state", run=run)
    assert end is not None
    assert "not_seen_at_rest" not in end.body, "what it has used stands"
    again = await controller.runs.start("one_draw", {"volume": "2 mL"}, "anna", "there is need")
    await controller.until(lambda: controller.runs.get(again).state is RunState.COMPLETE)
    await controller.gone()


@pytest.mark.virtual_time
@pytest.mark.parametrize("restart", [False, True], ids=["", "over a restart"])
async def test_E2_a_run_whose_own_pump_is_dead_stays_holding_and_can_be_aborted(restart: bool, tmp_path: Path) -> None:
    world = World()
    controller, run = await begun(world, tmp_path / "j.db", "one_draw", 60.0)
    pump = world.pumps["reglo.draw"]
    pump.silent = True
    await controller.runs.pause(run, "anna", "a visitor")
    await asyncio.sleep(3600.0)
    assert controller.runs.get(run).state is RunState.HOLDING, "no reading shows that it stands"
    assert any("cannot be seen to be at rest" in message for message in controller.runs.get(run).messages)
    if restart:
        await controller.gone()
        controller = Controller(world, tmp_path / "j.db", catalogue=PROTOCOLS_TOO)
        await controller.runs.recover()
    await controller.runs.abort(run, "anna", "it is broken")
    bound_s = REST_WITHIN_S + 3 * SILENCE_S
    await controller.until(lambda: controller.runs.get(run).state is RunState.ABORTED, bound_s)
    end = controller.journal.last("run.state", run=run)
    assert end is not None
    assert end.body["not_seen_at_rest"] == "reglo.draw"
    assert any("not seen at rest" in message for message in controller.runs.get(run).messages)
    assert any((kind, source) == ("command_failed", "reglo.draw") for kind, source, _ in controller.alarms)
    moved = controller.journal.last("moved", run=run)
    assert moved is not None
    assert moved.body["low"] <= pump.moved_ul <= moved.body["high"], "the balance tells what came of its dose (F2)"
    assert (await controller.runs.start("a_nap", {}, "anna", "the next one")).startswith("run-")
    pump.silent = False
    pump.left_ul, pump.flow_ul_min = 5000.0, 4000.0
    await asyncio.sleep(120.0)
    assert pump.flow_ul_min == 0.0, "the stop of the gate is still pending"
    await controller.gone()


@pytest.mark.virtual_time
async def test_E2_a_pump_that_answers_again_lets_the_hold_come_about(tmp_path: Path) -> None:
    world = World()
    controller, run = await begun(world, tmp_path / "j.db", "one_draw", 60.0)
    pump = world.pumps["reglo.draw"]
    pump.silent = True
    await controller.runs.pause(run, "anna", "a visitor")
    await asyncio.sleep(600.0)
    pump.silent = False
    await controller.until(lambda: controller.runs.get(run).state is RunState.HELD, 300.0)
    await controller.runs.resume(run, "anna", "its cable was loose")
    await controller.until(lambda: controller.runs.get(run).state.ended)
    assert controller.runs.get(run).state is RunState.COMPLETE
    assert 12_000.0 - 600.0 <= pump.moved_ul <= 12_001.0
    await controller.gone()
