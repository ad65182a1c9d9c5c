"""A dose that the balance does not see is not given again: the tube has slipped off the vessel that it is to fill."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from controller.core.run_states import RunState
from controller.rig.description import Rig, required
from controller.runs.runner import Runner
from tests.execution.protocols_for_tests import CATALOGUE
from tests.execution.world import RIG, Controller, Pump, World


def slow_rig() -> Rig:
    """Its kidney moves half a millilitre a minute: 12 mL take more than one dose may last."""
    kidney = required(RIG.organs.kidney, "organs.kidney").model_copy(update={"flow_ul_min": 500.0})
    return RIG.model_copy(update={"organs": RIG.organs.model_copy(update={"kidney": kidney})})


def slipped(rig: Rig = RIG) -> tuple[World, Pump]:
    """A bench whose draw misses the vessel; its balance works."""
    world = World(rig)
    world.mass_jitter_g = 0.002
    pump = world.pumps["reglo.draw"]
    pump.slipped = True
    return world, pump


def held(runs: Runner) -> bool:
    return runs.list()[0].state is RunState.HELD


def says_where_to_look(runs: Runner) -> bool:
    return any("tube" in message and "balance" in message for message in runs.list()[0].messages)


async def draw(controller: Controller, volume: str = "12 mL") -> str:
    return await controller.runs.start("one_draw", {"volume": volume}, "anna", "a test")


@pytest.mark.virtual_time
@pytest.mark.parametrize("every_s", [20.0, 30.0, 60.0])
async def test_F2_F3_a_dose_that_misses_the_vessel_and_is_paused_again_and_again(
    every_s: float, tmp_path: Path
) -> None:
    """Paused after a millilitre each time, no single dose says enough to a counter of whole millilitres."""
    world, pump = slipped()
    controller = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    run = await draw(controller)
    for _ in range(12):
        await asyncio.sleep(every_s)
        if controller.runs.get(run).state is RunState.RUNNING:
            await controller.runs.pause(run, "anna", "a visitor")
        await controller.until(lambda: held(controller.runs) or controller.runs.get(run).state.ended)
        if controller.runs.get(run).state.ended:
            break
        await controller.runs.resume(run, "anna", "the visitor has gone")
    assert says_where_to_look(controller.runs), controller.runs.get(run).messages
    assert pump.moved_ul <= 12_000.0 * 1.05
    await controller.gone()


@pytest.mark.virtual_time
async def test_F2_F3_one_pause_of_a_dose_that_misses_the_vessel_holds_the_run_for_a_person(tmp_path: Path) -> None:
    world, pump = slipped()
    controller = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    run = await draw(controller)
    await asyncio.sleep(90.0)
    await controller.runs.pause(run, "anna", "lunch")
    await controller.until(lambda: held(controller.runs))
    assert says_where_to_look(controller.runs)
    assert any(kind == "run_held" and "tube" in detail for kind, _, detail in controller.alarms)
    loop = controller.ledger.volumes()["loop"]
    assert abs(loop.ul - world.volumes["loop"]) <= 3 * loop.sd_ul, "the books know that they do not know"
    told = len(controller.alarms)
    await controller.runs.resume(run, "anna", "it must be the balance")
    await controller.until(lambda: held(controller.runs), 600.0)
    assert any(kind == "run_held" for kind, _, _ in controller.alarms[told:]), "the rest is not seen either"
    await controller.runs.resume(run, "anna", "the tube is where it was")
    await controller.until(lambda: controller.runs.get(run).state.ended)
    assert pump.moved_ul <= 12_000.0 * 1.05
    await controller.gone()


@pytest.mark.virtual_time
async def test_F2_F3_a_dose_that_misses_the_vessel_and_ended_well_holds_the_run_too(tmp_path: Path) -> None:
    """Its pump counted the full dose; a worn tube would have given less, and the balance has seen nothing."""
    world, pump = slipped()
    controller = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    run = await draw(controller)
    await controller.until(lambda: held(controller.runs))
    assert says_where_to_look(controller.runs)
    loop = controller.ledger.volumes()["loop"]
    assert abs(loop.ul - world.volumes["loop"]) <= 3 * loop.sd_ul, "the books know that they do not know"
    await controller.gone()
    second = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    await second.runs.recover()
    assert held(second.runs), "a restart does not forget it"
    await second.runs.resume(run, "anna", "the tube is where it was")
    await second.until(lambda: second.runs.get(run).state.ended)
    assert pump.moved_ul <= 12_000.0 * 1.05
    await second.gone()


@pytest.mark.virtual_time
async def test_F2_F3_a_dose_that_misses_the_vessel_and_is_stopped_by_hand_is_not_begun_again(tmp_path: Path) -> None:
    world, pump = slipped()
    controller = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    await draw(controller)
    await asyncio.sleep(120.0)
    pump.stop_by_hand()
    await controller.until(lambda: held(controller.runs))
    assert says_where_to_look(controller.runs)
    assert len(pump.doses) == 1
    assert pump.moved_ul <= 12_000.0 * 1.05
    await controller.gone()


@pytest.mark.virtual_time
async def test_F2_F3_portions_that_miss_the_vessel_come_to_no_more_than_was_asked(tmp_path: Path) -> None:
    world, pump = slipped(slow_rig())
    controller = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    run = await draw(controller)
    await controller.until(lambda: held(controller.runs), 6 * 3600.0)
    assert says_where_to_look(controller.runs)
    assert len(pump.doses) == 1
    while not controller.runs.get(run).state.ended:
        if held(controller.runs):
            await controller.runs.resume(run, "anna", "it must be the balance")
        await asyncio.sleep(60.0)
    assert pump.moved_ul <= 12_000.0 * 1.05
    await controller.gone()


@pytest.mark.virtual_time
@pytest.mark.parametrize("rig", [RIG, slow_rig()], ids=["usual", "slow"])
async def test_F2_F3_the_crash_path_says_the_same_and_charges_the_same(rig: Rig, tmp_path: Path) -> None:
    world, pump = slipped(rig)
    controller = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    await draw(controller)
    await asyncio.sleep(120.0 if rig is RIG else 600.0)
    await controller.gone()
    second = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    await second.runs.recover()
    await second.until(lambda: held(second.runs))
    assert says_where_to_look(second.runs)
    await second.gone()
    third = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    await third.runs.recover()
    run = third.runs.list()[0].id
    assert held(third.runs)
    while not third.runs.get(run).state.ended:
        if held(third.runs):
            await third.runs.resume(run, "anna", "it must be the balance")
        await asyncio.sleep(60.0)
    assert pump.moved_ul <= 12_000.0 * 1.05
    await third.gone()


@pytest.mark.virtual_time
async def test_F3_a_well_rig_gives_portions_and_what_a_pause_has_left(tmp_path: Path) -> None:
    world = World(slow_rig())
    world.mass_jitter_g = 0.002
    controller = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    run = await draw(controller)
    await asyncio.sleep(400.0)
    await controller.runs.pause(run, "anna", "lunch")
    await controller.until(lambda: held(controller.runs))
    await controller.runs.resume(run, "anna", "back again")
    await controller.until(lambda: controller.runs.get(run).state.ended, 6 * 3600.0)
    assert controller.runs.get(run).state is RunState.COMPLETE
    assert world.pumps["reglo.draw"].moved_ul == pytest.approx(12_000.0, abs=250.0)
    await controller.gone()
