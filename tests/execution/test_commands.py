"""Pause, resume, stop, abort; refusals; messages to a person."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from controller.core.run_states import IllegalTransition, RunState
from controller.runs.runner import RunnerError
from sim.virtual_time import run_virtual
from tests.execution.protocols_for_tests import ASKED_UL, CATALOGUE
from tests.execution.world import Controller, World

ONCE_UL = {"draw": 150.0, "return": 150.0, "discard": 150.0, "feed": 650.0, "glucose": 650.0, "base": 650.0}
"""By line: what may be missing after one interruption (weighing, and what is below the pump's least dose)."""


def at_rest(world: World) -> bool:
    world.advance()
    transfers = [pump for pump in world.pumps.values() if pump.name != "heart"]
    return not any(pump.flow_ul_min for pump in transfers) and not any(valve.on for valve in world.valves.values())


async def _paused(path: Path, at_s: float) -> None:
    world = World()
    controller = Controller(world, path, catalogue=CATALOGUE)
    run = await controller.runs.start("everything", {}, "anna", "a test")
    await asyncio.sleep(at_s)
    await controller.runs.pause(run, "anna", "a visitor")
    assert controller.runs.get(run).state is RunState.HOLDING
    await controller.until(lambda: controller.runs.get(run).state is RunState.HELD, 120.0)
    assert at_rest(world)
    moved_ul = {name: pump.moved_ul for name, pump in world.pumps.items() if pump.name != "heart"}
    step = controller.runs.get(run).step
    await asyncio.sleep(300.0)
    assert controller.runs.get(run).state is RunState.HELD, "nothing leaves held by itself (E3)"
    assert moved_ul == {name: pump.moved_ul for name, pump in world.pumps.items() if pump.name != "heart"}
    assert controller.runs.get(run).step == step
    spent = controller.ledger.volumes()["spent"]
    assert abs(spent.ul - world.volumes["spent"]) <= 4 * spent.sd_ul + 5, (
        "what moved before the pause is on record (F3)"
    )
    await controller.runs.resume(run, "ben", "the visitor has gone")
    await controller.until(lambda: controller.runs.get(run).state.ended)
    assert controller.runs.get(run).state is RunState.COMPLETE, controller.runs.get(run).messages
    for line, missing_ul in ONCE_UL.items():
        pump = world.pumps[world.rig.lines[line].pump or ""]
        assert ASKED_UL[line] - missing_ul <= pump.moved_ul <= ASKED_UL[line] + 1.0, line
    await controller.gone()


def test_E2_E3_F3_paused_at_any_moment_and_resumed(tmp_path: Path) -> None:
    for number, at_s in enumerate(range(2, 640, 19)):
        try:
            run_virtual(_paused(tmp_path / f"{number}.db", float(at_s)))
        except BaseException as error:
            error.add_note(f"paused at {at_s} s")
            raise


async def _aborted(path: Path, at_s: float) -> None:
    world = World()
    controller = Controller(world, path, catalogue=CATALOGUE)
    run = await controller.runs.start("everything", {}, "anna", "a test")
    await asyncio.sleep(at_s)
    await controller.runs.abort(run, "anna", "enough")
    await controller.until(lambda: controller.runs.get(run).state.ended, 120.0)
    assert controller.runs.get(run).state is RunState.ABORTED
    assert at_rest(world)
    moved_ul = {name: pump.moved_ul for name, pump in world.pumps.items() if pump.name != "heart"}
    spent = controller.ledger.volumes()["spent"]
    assert abs(spent.ul - world.volumes["spent"]) <= 4 * spent.sd_ul + 5
    await asyncio.sleep(600.0)
    assert moved_ul == {name: pump.moved_ul for name, pump in world.pumps.items() if pump.name != "heart"}
    with pytest.raises(IllegalTransition, match="aborted"):
        await controller.runs.resume(run, "anna", "changed my mind")
    await controller.gone()
    again = Controller(world, path, catalogue=CATALOGUE)
    await again.runs.recover()
    assert again.runs.list() == [], "an aborted run is not taken up again"
    await again.gone()


def test_aborted_at_any_moment(tmp_path: Path) -> None:
    for number, at_s in enumerate(range(3, 640, 41)):
        try:
            run_virtual(_aborted(tmp_path / f"{number}.db", float(at_s)))
        except BaseException as error:
            error.add_note(f"aborted at {at_s} s")
            raise


@pytest.mark.virtual_time
async def test_stop_lets_the_transfer_end(tmp_path: Path) -> None:
    world = World()
    controller = Controller(world, tmp_path / "journal.db", catalogue=CATALOGUE)
    run = await controller.runs.start("everything", {}, "anna", "a test")
    await asyncio.sleep(30.0)
    await controller.runs.stop(run, "anna", "end of day")
    await controller.until(lambda: controller.runs.get(run).state.ended)
    assert controller.runs.get(run).state is RunState.STOPPED
    assert world.pumps["reglo.draw"].moved_ul == pytest.approx(ASKED_UL["draw"])
    assert controller.runs.get(run).step == 1
    await controller.gone()


@pytest.mark.virtual_time
async def test_abort_while_held_and_pause_twice(tmp_path: Path) -> None:
    world = World()
    controller = Controller(world, tmp_path / "journal.db", catalogue=CATALOGUE)
    run = await controller.runs.start("a_nap", {}, "anna", "a test")
    await controller.runs.pause(run, "anna", "one")
    with pytest.raises(IllegalTransition, match="holding"):
        await controller.runs.pause(run, "anna", "two")
    await controller.until(lambda: controller.runs.get(run).state is RunState.HELD)
    with pytest.raises(IllegalTransition, match="held"):
        await controller.runs.pause(run, "anna", "three")
    await controller.runs.abort(run, "anna", "enough")
    await controller.until(lambda: controller.runs.get(run).state is RunState.ABORTED)
    await controller.gone()


@pytest.mark.virtual_time
async def test_one_run_at_a_time_and_unknown_names(tmp_path: Path) -> None:
    controller = Controller(World(), tmp_path / "journal.db", catalogue=CATALOGUE)
    run = await controller.runs.start("a_nap", {}, "anna", "a test")
    with pytest.raises(RunnerError, match=f"{run} .* is running"):
        await controller.runs.start("a_nap", {}, "ben", "me too")
    with pytest.raises(RunnerError, match="no run is called"):
        await controller.runs.pause("run-999", "ben", "which?")
    await controller.runs.abort(run, "anna", "enough")
    await controller.until(lambda: controller.runs.get(run).state.ended)
    with pytest.raises(KeyError, match="no protocol"):
        await controller.runs.start("nonsense", {}, "ben", "a slip")
    await controller.gone()


@pytest.mark.virtual_time
async def test_who_and_why_are_in_the_journal_D4(tmp_path: Path) -> None:
    controller = Controller(World(), tmp_path / "journal.db", catalogue=CATALOGUE)
    run = await controller.runs.start("a_nap", {}, "anna", "the night")
    await controller.runs.pause(run, "ben", "a visitor")
    await controller.until(lambda: controller.runs.get(run).state is RunState.HELD)
    await controller.runs.abort(run, "carl", "too late")
    await controller.until(lambda: controller.runs.get(run).state.ended)
    states = [entry.body for entry in controller.journal.entries(run=run, kinds=("run.state",))]
    assert [(row["from"], row["to"]) for row in states] == [
        ("idle", "running"),
        ("running", "holding"),
        ("holding", "held"),
        ("held", "aborting"),
        ("aborting", "aborted"),
    ]
    assert (states[1]["user"], states[1]["reason"]) == ("ben", "a visitor")
    assert (states[3]["user"], states[3]["reason"]) == ("carl", "too late")
    start = next(controller.journal.entries(kinds=("run.start",)))
    assert (start.body["user"], start.body["reason"]) == ("anna", "the night")
    await controller.gone()


@pytest.mark.virtual_time
async def test_a_refusal_that_stands_holds_the_run_and_resume_tries_again(tmp_path: Path) -> None:
    world = World()
    world.volumes["loop"] = 24_000.0
    controller = Controller(world, tmp_path / "journal.db", catalogue=CATALOGUE, rehearsing=False)
    controller.ledger.reconcile("loop", 24_000.0, 50.0, user="anna", reason="read off the scale")
    run = await controller.runs.start("one_draw", {"volume": "12 mL"}, "anna", "a test")
    await controller.until(lambda: controller.runs.get(run).state is RunState.HELD)
    view = controller.runs.get(run)
    assert any("below its floor, 15 mL" in message and "Next:" in message for message in view.messages)
    assert ("run_held", run) in [(kind, source) for kind, source, _ in controller.alarms]
    assert world.pumps["reglo.draw"].doses == []
    world.volumes["loop"] = 40_000.0
    controller.ledger.reconcile("loop", 40_000.0, 50.0, user="anna", reason="refilled")
    await asyncio.sleep(5.0)
    await controller.runs.resume(run, "anna", "there is enough now")
    await controller.until(lambda: controller.runs.get(run).state.ended)
    assert controller.runs.get(run).state is RunState.COMPLETE
    assert world.pumps["reglo.draw"].moved_ul == pytest.approx(12_000.0)
    await controller.gone()


@pytest.mark.virtual_time
async def test_a_refusal_that_passes_is_waited_out(tmp_path: Path) -> None:
    world = World()
    controller = Controller(world, tmp_path / "journal.db", catalogue=CATALOGUE)
    controller.volumes_known = False
    await asyncio.sleep(2.0)
    run = await controller.runs.start("one_draw", {"volume": "2 mL"}, "anna", "a test")
    await asyncio.sleep(9.0)
    assert world.pumps["reglo.draw"].doses == []
    controller.volumes_known = True
    await controller.until(lambda: controller.runs.get(run).state.ended)
    assert controller.runs.get(run).state is RunState.COMPLETE
    assert world.pumps["reglo.draw"].moved_ul == pytest.approx(2000.0)
    await controller.gone()


@pytest.mark.virtual_time
async def test_an_emergency_stop_in_a_transfer_holds_the_run(tmp_path: Path) -> None:
    world = World()
    controller = Controller(world, tmp_path / "journal.db", catalogue=CATALOGUE)
    run = await controller.runs.start("one_draw", {"volume": "12 mL"}, "anna", "a test")
    await asyncio.sleep(60.0)
    await controller.gate.estop("ben", "smoke")
    await controller.until(lambda: controller.runs.get(run).state is RunState.HELD)
    before_ul = world.pumps["reglo.draw"].moved_ul
    assert 3000 < before_ul < 5000
    assert any("emergency stop" in message for message in controller.runs.get(run).messages)
    controller.gate.reset("ben", "only toast")
    await controller.runs.resume(run, "ben", "all clear")
    await controller.until(lambda: controller.runs.get(run).state.ended)
    assert world.pumps["reglo.draw"].moved_ul == pytest.approx(12_000.0, abs=200.0)
    assert world.pumps["reglo.draw"].moved_ul <= 12_001.0
    await controller.gone()


@pytest.mark.virtual_time
async def test_a_pump_that_is_stopped_by_hand_gets_the_rest_then_a_person_is_asked(tmp_path: Path) -> None:
    world = World()
    controller = Controller(world, tmp_path / "journal.db", catalogue=CATALOGUE)
    pump = world.pumps["reglo.draw"]
    run = await controller.runs.start("one_draw", {"volume": "12 mL"}, "anna", "a test")
    for number in range(1, 4):
        await controller.until(lambda n=number: len(pump.doses) == n)  # type: ignore[misc]
        await asyncio.sleep(15.0)
        pump.stop_by_hand()
    await controller.until(lambda: controller.runs.get(run).state is RunState.HELD)
    assert any("stopped before its volume" in message for message in controller.runs.get(run).messages)
    await controller.runs.resume(run, "anna", "hands off now")
    await controller.until(lambda: controller.runs.get(run).state.ended)
    assert pump.moved_ul == pytest.approx(12_000.0, abs=400.0)
    assert pump.moved_ul <= 12_001.0
    await controller.gone()


@pytest.mark.virtual_time
async def test_a_pump_that_does_not_start_is_not_given_the_dose_twice_A4(tmp_path: Path) -> None:
    world = World()
    pump = world.pumps["dose_glucose.pump"]
    controller = Controller(world, tmp_path / "journal.db", catalogue=CATALOGUE)
    run = await controller.runs.start("one_dose", {}, "anna", "a test")
    await asyncio.sleep(10.0)
    pump.silent = True
    await asyncio.sleep(200.0)
    pump.silent = False
    await controller.until(lambda: controller.runs.get(run).state in (RunState.HELD, RunState.COMPLETE))
    if controller.runs.get(run).state is RunState.HELD:
        await controller.runs.resume(run, "anna", "its cable was loose")
        await controller.until(lambda: controller.runs.get(run).state.ended)
    assert 5000.0 - 650.0 <= pump.moved_ul <= 5001.0
    await controller.gone()


@pytest.mark.virtual_time
async def test_F4_worn_tubing_raises_an_alarm_and_the_ledger_keeps_to_the_balance(tmp_path: Path) -> None:
    world = World()
    world.pumps["reglo.draw"].gain = 0.6
    controller = Controller(world, tmp_path / "journal.db", catalogue=CATALOGUE)
    run = await controller.runs.start("one_draw", {"volume": "10 mL"}, "anna", "a test")
    await controller.until(lambda: controller.runs.get(run).state is RunState.HELD)
    assert "10.000 mL requested" in controller.runs.get(run).messages[-1]  # it is no transfer of 10 mL (A10)
    await controller.runs.resume(run, "anna", "I accept it")
    await controller.until(lambda: controller.runs.get(run).state.ended)
    assert [(kind, source) for kind, source, _ in controller.alarms] == [
        ("pump_drift", "reglo.draw"),
        ("run_held", run),
    ]
    assert "40.0% less" in controller.alarms[0][2]
    note = controller.journal.last("note.drawn")
    assert note is not None
    assert note.body["ul"] == pytest.approx(6000.0, abs=50.0)
    assert note.body["low"] < 6000.0 < note.body["high"]
    await controller.gone()


@pytest.mark.virtual_time
async def test_F4_a_leak_is_seen_by_the_balance(tmp_path: Path) -> None:
    world = World()
    controller = Controller(world, tmp_path / "journal.db", catalogue=CATALOGUE)
    world.mass_error_g = 0.7  # something dripped in
    run = await controller.runs.start("one_draw", {"volume": "3 mL"}, "anna", "a test")
    await controller.until(lambda: controller.runs.get(run).state.ended)
    assert ("balance_drift", "spent") in [(kind, source) for kind, source, _ in controller.alarms]
    assert controller.ledger.totals.unaccounted_ul == pytest.approx(700.0, abs=60.0)
    await controller.gone()


@pytest.mark.virtual_time
async def test_without_a_balance_the_pump_is_believed_within_its_calibration(tmp_path: Path) -> None:
    world = World()
    world.balance_works = False
    controller = Controller(world, tmp_path / "journal.db", catalogue=CATALOGUE)
    run = await controller.runs.start("one_draw", {"volume": "10 mL"}, "anna", "a test")
    await controller.until(lambda: controller.runs.get(run).state.ended)
    note = controller.journal.last("note.drawn")
    assert note is not None
    assert note.body["low"] < 9000 < 10_000 == note.body["ul"] < 11_000 < note.body["high"]
    await controller.gone()
