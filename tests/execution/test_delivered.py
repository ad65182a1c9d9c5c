"""A10: delivered equals requested within the stated uncertainty, or the run holds and an alarm says so."""

from __future__ import annotations

import asyncio
import contextlib
import math
from pathlib import Path

import pytest

from controller.core.run_states import RunState
from controller.runs.runner import RunnerError
from controller.steps.recovery import Trouble
from controller.transfers.delivery import tolerance
from controller.transfers.routes import Trust, routes_of
from protocols.language import Lab
from sim.virtual_time import run_virtual
from tests.execution.protocols_for_tests import recipe
from tests.execution.world import RIG, Controller, Killed, World

GLUCOSE = routes_of(RIG)["liver.add_glucose"]
PUMP = GLUCOSE.pump


def _catalogue(volume_ul: float):  # type: ignore[no-untyped-def]
    async def small_dose(lab: Lab, params: object) -> None:
        await lab.liver.add_glucose(volume_ul)

    return {"small_dose": recipe(small_dose)}


async def _killed_in_a_dose(
    path: Path, *, requested_ul: float, cut_ul: float, used_ul: float = 0.0, balance_works: bool = True
) -> tuple[World, Controller]:
    """Kill controller and guard after `cut_ul` of the dose, restart, and wait until the run has ended or is held.

    With nothing moved the controller dies as the row `step.act` is written.
    """
    world = World()
    pump = world.pumps[PUMP]
    pump.counted_ul = used_ul
    catalogue = _catalogue(requested_ul)
    doomed = Controller(world, path, catalogue=catalogue)
    append = doomed.journal.append

    def mortal(kind: str, body: object, *, run: str | None = None) -> int:
        seq = append(kind, body, run=run)  # type: ignore[arg-type]
        if kind == "step.act" and cut_ul == 0.0:
            doomed.journal.dead = True
            raise Killed
        return seq

    doomed.journal.append = mortal  # type: ignore[method-assign]
    with contextlib.suppress(Killed):
        await doomed.runs.start("small_dose", {}, "anna", "a test")
    if cut_ul:
        await doomed.until(lambda: bool(pump.doses))
        await asyncio.sleep(cut_ul / GLUCOSE.flow_ul_min * 60.0 - (world.loop.time() - pump.at_s))
        pump.stop_by_hand()  # the guard brings the rig to basal
    while not doomed.journal.dead and not cut_ul:
        await asyncio.sleep(0.1)
    await doomed.gone()
    world.balance_works = balance_works
    await asyncio.sleep(5.0)
    second = Controller(world, path, catalogue=catalogue)
    await second.runs.recover()
    await second.until(lambda: second.runs.list()[0].state in (RunState.HELD, RunState.COMPLETE))
    return world, second


@pytest.mark.parametrize("used_ul", [0.0, 4000.0], ids=["counter-at-zero", "counter-at-4-mL"])
def test_A10_a_dose_killed_as_its_row_is_written_is_given_whole(used_ul: float, tmp_path: Path) -> None:
    """The reproduction: 0.5 mL was requested, nothing was moved, and 10 µL were booked as the whole step."""

    async def scenario() -> None:
        world, second = await _killed_in_a_dose(tmp_path / "j.db", requested_ul=500.0, cut_ul=0.0, used_ul=used_ul)
        assert second.runs.list()[0].state is RunState.COMPLETE, second.runs.list()[0].messages
        assert world.pumps[PUMP].moved_ul == pytest.approx(500.0, abs=70.0)
        await second.gone()

    run_virtual(scenario())


@pytest.mark.parametrize("cut_ul", [120.0, 250.0, 400.0])
def test_A10_a_rest_below_the_minimum_holds_the_run_with_an_alarm(cut_ul: float, tmp_path: Path) -> None:
    """Part of a minimum dose was given: the rest cannot be, and the step is not reported as done."""

    async def scenario() -> None:
        world, second = await _killed_in_a_dose(tmp_path / "j.db", requested_ul=500.0, cut_ul=cut_ul, used_ul=4000.0)
        run = second.runs.list()[0]
        assert run.state is RunState.HELD
        assert not list(second.journal.entries(kinds=("step.done",)))
        assert [kind for kind, _, _ in second.alarms if kind == "run_held"]
        assert "0.500 mL requested" in run.messages[-1]
        assert "resuming accepts" in run.messages[-1]
        moved_ul = world.pumps[PUMP].moved_ul
        await second.runs.resume(run.id, "anna", "I accept it")
        await second.until(lambda: second.runs.list()[0].state is RunState.COMPLETE)
        assert world.pumps[PUMP].moved_ul == moved_ul, "accepted: nothing more is given"
        (accepted,) = second.journal.entries(kinds=("step.accepted",))
        assert accepted.body["problem"] == Trouble.SHORTFALL
        await second.gone()

    run_virtual(scenario())


def test_A10_a_decision_that_was_asked_for_is_still_asked_for_after_a_restart(tmp_path: Path) -> None:
    """Killed between the booking and the hold, or while it is held: no person has accepted anything."""

    async def scenario() -> None:
        world, second = await _killed_in_a_dose(tmp_path / "j.db", requested_ul=500.0, cut_ul=250.0, used_ul=4000.0)
        await second.gone()
        third = Controller(world, tmp_path / "j.db", catalogue=_catalogue(500.0))
        await third.runs.recover()
        await asyncio.sleep(120.0)
        run = third.runs.list()[0]
        assert run.state is RunState.HELD
        await third.runs.resume(run.id, "anna", "I accept it")
        await third.until(lambda: third.runs.list()[0].state is RunState.COMPLETE)
        await third.gone()

    run_virtual(scenario())


def test_A10_a_dose_that_neither_witness_can_tell_of_holds_the_run(tmp_path: Path) -> None:
    """Nothing moved, the balance is dead, and the counter at zero does not exclude a power cut."""

    async def scenario() -> None:
        world, second = await _killed_in_a_dose(
            tmp_path / "j.db", requested_ul=500.0, cut_ul=0.0, used_ul=0.0, balance_works=False
        )
        assert second.runs.list()[0].state is RunState.HELD
        assert world.pumps[PUMP].moved_ul == 0.0
        await second.gone()

    run_virtual(scenario())


def test_A10_with_a_dead_balance_the_unchanged_counter_decides(tmp_path: Path) -> None:
    async def scenario() -> None:
        world, second = await _killed_in_a_dose(
            tmp_path / "j.db", requested_ul=500.0, cut_ul=0.0, used_ul=4000.0, balance_works=False
        )
        assert second.runs.list()[0].state is RunState.COMPLETE, second.runs.list()[0].messages
        assert world.pumps[PUMP].moved_ul == pytest.approx(500.0)
        await second.gone()

    run_virtual(scenario())


def test_A10_a_pump_that_delivers_too_little_holds_the_run(tmp_path: Path) -> None:
    """It ended its dose by itself, its calibration says 2 %, and the balance saw 60 %."""

    async def scenario() -> None:
        world = World()
        world.pumps[PUMP].gain = 0.6
        controller = Controller(world, tmp_path / "j.db", catalogue=_catalogue(2000.0))
        await controller.runs.start("small_dose", {}, "anna", "a test")
        await controller.until(lambda: controller.runs.list()[0].state in (RunState.HELD, RunState.COMPLETE))
        run = controller.runs.list()[0]
        assert run.state is RunState.HELD
        assert "less than requested" in run.messages[-1]
        await controller.gone()

    run_virtual(scenario())


def test_A10_a_pump_that_delivers_too_much_holds_the_run(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World()
        world.pumps[PUMP].gain = 1.5
        controller = Controller(world, tmp_path / "j.db", catalogue=_catalogue(2000.0))
        await controller.runs.start("small_dose", {}, "anna", "a test")
        await controller.until(lambda: controller.runs.list()[0].state in (RunState.HELD, RunState.COMPLETE))
        run = controller.runs.list()[0]
        assert run.state is RunState.HELD
        assert "more than requested" in run.messages[-1]
        await controller.gone()

    run_virtual(scenario())


def test_A10_a_pause_lets_a_small_dose_end(tmp_path: Path) -> None:
    """Stopped in the middle it would leave a rest that cannot be given; it ends by itself within seconds."""

    async def scenario() -> None:
        world = World()
        controller = Controller(world, tmp_path / "j.db", catalogue=_catalogue(600.0))
        run = await controller.runs.start("small_dose", {}, "anna", "a test")
        await controller.until(lambda: bool(world.pumps[PUMP].doses))
        await asyncio.sleep(1.0)
        await controller.runs.pause(run, "anna", "a visitor")
        await controller.until(lambda: controller.runs.get(run).state is RunState.HELD)
        assert world.pumps[PUMP].moved_ul == pytest.approx(600.0)
        await controller.runs.resume(run, "anna", "the visitor has gone")
        await controller.until(lambda: controller.runs.get(run).state is RunState.COMPLETE)
        assert world.pumps[PUMP].moved_ul == pytest.approx(600.0)
        await controller.gone()

    run_virtual(scenario())


@pytest.mark.parametrize("volume_ul", [0.0, -500.0, math.nan, math.inf, 499.0, 1e12])
def test_A10_a_volume_that_no_pump_gives_is_refused_before_anything_moves(volume_ul: float, tmp_path: Path) -> None:
    """By the rehearsal at the start, and where that is left out by the step itself."""

    async def scenario() -> None:
        world = World()
        refusing = Controller(world, tmp_path / "a.db", catalogue=_catalogue(volume_ul))
        with pytest.raises(RunnerError, match="µL"):
            await refusing.runs.start("small_dose", {}, "anna", "a test")
        await refusing.gone()
        holding = Controller(world, tmp_path / "b.db", catalogue=_catalogue(volume_ul), rehearsing=False)
        await holding.runs.start("small_dose", {}, "anna", "a test")
        await holding.until(lambda: holding.runs.list()[0].state is RunState.HELD)
        assert not list(holding.journal.entries(kinds=("step.act",)))
        assert world.pumps[PUMP].moved_ul == 0.0
        await holding.gone()

    run_virtual(scenario())


def test_A10_the_transfer_itself_refuses_what_no_pump_gives() -> None:
    for volume_ul in (0.0, -1.0, math.nan, math.inf, 499.0):
        assert GLUCOSE.refusal(volume_ul)
    assert GLUCOSE.refusal(500.0) == ""
    slow = routes_of(RIG)["kidney.draw"]
    assert slow.refusal(12_000.0) == ""


def test_A10_the_stated_uncertainty_grows_with_the_volume_and_the_calibration() -> None:
    """k = 3: 2 % and 5 µL of the pump, 15 mg of each weighing."""
    limits = tolerance(GLUCOSE, Trust(1.0, 0.02, 5.0, "factory"), 500.0)
    assert limits.pump_ul == pytest.approx(33.5, abs=0.1)
    assert limits.weighing_ul == pytest.approx(63.7, abs=0.2)
    assert tolerance(GLUCOSE, Trust(1.0, 0.08, 5.0, "factory"), 5000.0).pump_ul == pytest.approx(1200.0, abs=1.0)


@pytest.mark.parametrize("scale", [0.85, 1.15])
def test_A10_a_dose_that_an_interlock_stops_ends_as_an_uninterrupted_one_of_its_uncalibrated_pump(
    scale: float, tmp_path: Path
) -> None:
    """Only the counter measures it: 78 % of 12 mL. With the 24 % of its calibration 97 % once counted as given."""

    async def scenario() -> None:
        world = World()
        world.balance_works = False
        route = routes_of(RIG)["kidney.draw"]
        pump = world.pumps[route.pump]
        pump.step_ul, pump.counted_ul, pump.gain = 10.0, 4000.0, scale

        async def one(lab: Lab, params: object) -> None:
            await lab.kidney.draw(12_000.0)

        controller = Controller(world, tmp_path / "j.db", catalogue={"one": recipe(one)})
        await controller.runs.start("one", {}, "anna", "a test")
        await controller.until(lambda: bool(pump.doses))
        await asyncio.sleep(0.78 * 12_000.0 / route.flow_ul_min * 60.0 - (world.loop.time() - pump.at_s))
        pump.stop_by_hand()
        await controller.until(lambda: controller.runs.list()[0].state in (RunState.HELD, RunState.COMPLETE))
        assert controller.runs.list()[0].state is RunState.COMPLETE, controller.runs.list()[0].messages
        assert len(pump.doses) == 2
        assert scale * (12_000.0 - 3 * pump.step_ul) <= pump.moved_ul <= scale * 12_000.0 + 1e-6
        await controller.gone()

    run_virtual(scenario())
