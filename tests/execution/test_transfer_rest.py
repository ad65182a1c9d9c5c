"""Transfer pumps and valves at rest: which are stopped, which are reported, and what a pause does to a dose near its end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest

from controller.core.run_states import RunState
from controller.safety.terms import Intent
from controller.steps.steps import Act, StepRecord, records_of
from controller.transfers.routes import Trust
from controller.transfers.transfers import Transfers
from drivers.commands import Command, Dispense, Quality, Stop, Switch
from tests.execution.protocols_for_tests import CATALOGUE
from tests.execution.world import Controller, World

pytestmark = pytest.mark.virtual_time
FEED, GLUCOSE, BASE = "dose_fresh.pump", "dose_glucose.pump", "dose_base.pump"
RETURN, VALVE = "reglo.return", "relay.return_valve"


@dataclass
class Bench:
    """A controller without a run, and transfers that a test commands itself."""

    world: World
    controller: Controller
    transfers: Transfers

    async def dose(self, pump: str, ul: float = 30_000.0) -> None:
        outcome = await self.controller.gate.submit(
            Intent(pump, Dispense(ul, 3000.0, f"test {pump}"), "test", "a test")
        )
        assert outcome.error is None, outcome
        assert outcome.accepted, outcome

    async def open_valve(self) -> None:
        outcome = await self.controller.gate.submit(Intent(VALVE, Switch(True), "test", "a test"))
        assert outcome.accepted, outcome
        assert self.world.valves[VALVE].on

    def runs(self, pump: str) -> bool:
        self.world.advance()
        return self.world.pumps[pump].flow_ul_min != 0.0


async def bench(path: Path) -> Bench:
    world = World()
    controller = Controller(world, path, catalogue=CATALOGUE)
    await asyncio.sleep(2.0)
    transfers = Transfers(
        world.rig,
        gate=controller.gate,
        store=controller.store,
        ledger=controller.ledger,
        journal=controller.journal,
        alarm=controller.alarm,
        trust=lambda pump: Trust(1.25 if pump == FEED else 1.0, 0.02, 5.0, "test"),
    )
    return Bench(world, controller, transfers)


async def test_E2_a_running_pump_and_an_open_valve_are_brought_to_rest(tmp_path: Path) -> None:
    at = await bench(tmp_path / "j.db")
    await at.dose(GLUCOSE, 3000.0)
    await at.open_valve()
    assert await at.transfers.rest("test", "a test") == []
    assert not at.runs(GLUCOSE)
    assert not at.world.valves[VALVE].on
    assert at.runs("reglo.heart"), "the heart is no transfer"
    await at.controller.gone()


async def test_E2_only_the_pumps_of_the_verbs_that_a_run_has_used_are_stopped(tmp_path: Path) -> None:
    at = await bench(tmp_path / "j.db")
    await at.dose(GLUCOSE, 3000.0)
    await at.open_valve()
    assert await at.transfers.rest("test", "a test", ["gut.feed"]) == []
    assert at.runs(GLUCOSE)
    assert at.world.valves[VALVE].on
    assert await at.transfers.rest("test", "a test", ["liver.add_glucose", "kidney.give_back"]) == []
    assert not at.runs(GLUCOSE)
    assert not at.world.valves[VALVE].on
    await at.controller.gone()


async def test_E2_a_pump_that_does_not_stop_or_does_not_answer_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = await bench(tmp_path / "j.db")
    glucose = at.world.pumps[GLUCOSE]
    apply = glucose.apply

    async def stuck(command: Command) -> None:
        if not isinstance(command, Stop):
            await apply(command)

    monkeypatch.setattr(glucose, "apply", stuck)
    await at.dose(GLUCOSE, 9000.0)
    at.world.pumps[BASE].silent = True
    assert sorted(await at.transfers.rest("test", "a test")) == [BASE, GLUCOSE]
    await at.controller.gone()


async def test_E2_pumps_and_valves_that_are_left_are_commanded_to_rest_once(tmp_path: Path) -> None:
    at = await bench(tmp_path / "j.db")
    await at.dose(GLUCOSE, 3000.0)
    await at.open_valve()
    await at.transfers.leave("test", "a test", [GLUCOSE])
    assert not at.runs(GLUCOSE)
    assert at.world.valves[VALVE].on
    await at.transfers.leave("test", "a test", [VALVE])
    assert not at.world.valves[VALVE].on
    await at.controller.gone()


async def test_the_gain_of_a_route_and_the_minimum_doses_of_pumps_without_a_valve(tmp_path: Path) -> None:
    at = await bench(tmp_path / "j.db")
    assert at.transfers.gain(at.transfers.routes["gut.feed"]) == 1.25
    assert at.transfers.gain(at.transfers.routes["liver.add_glucose"]) == 1.0
    minimum_ul = at.transfers.min_doses_ul
    assert minimum_ul[GLUCOSE] == 500.0
    assert RETURN not in minimum_ul, "its valve must be closed behind it"
    await at.controller.gone()


async def test_F2_what_a_pump_still_gives_belongs_to_the_dose_that_was_left_open(tmp_path: Path) -> None:
    at = await bench(tmp_path / "j.db")
    closed, left = StepRecord(1, "gut.feed", {}, "1"), StepRecord(2, "liver.add_glucose", {}, "2")
    left.open_act = Act(2, 1, "glucose", 3000.0, 3000.0, 0.0, None, 0.0)
    at.transfers.left_open([closed, left])
    assert "glucose" in at.transfers.open_lines
    assert "feed" not in at.transfers.open_lines
    await at.controller.gone()


# --- in a run -----------------------------------------------------------------------------------------------


async def drawing(path: Path, left_s: float) -> tuple[World, Controller, str]:
    """A run in a draw of 12 mL that lasts three minutes, `left_s` seconds before its end."""
    world = World()
    controller = Controller(world, path, catalogue=CATALOGUE)
    run = await controller.runs.start("one_draw", {"volume": "12 mL"}, "anna", "a test")
    pump = world.pumps["reglo.draw"]
    await controller.until(lambda: bool(pump.doses))
    pump.advance()
    await asyncio.sleep(pump.left_ul / pump.flow_ul_min * 60.0 - left_s)
    return world, controller, run


@pytest.mark.parametrize(("left_s", "moved_ul"), [(6.0, 11_600.0), (0.5, 12_000.0), (20.0, 10_667.0)])
async def test_A10_a_pause_stops_a_dose_whose_remainder_can_be_given_later(
    left_s: float, moved_ul: float, tmp_path: Path
) -> None:
    """Six seconds before its end 400 µL are missing, which its pump gives (50 µL or more); half a second before, 33 µL."""
    world, controller, run = await drawing(tmp_path / "j.db", left_s)
    pump = world.pumps["reglo.draw"]
    await controller.runs.pause(run, "anna", "a visitor")
    await controller.until(lambda: controller.runs.get(run).state is RunState.HELD)
    assert pump.moved_ul == pytest.approx(moved_ul, abs=140.0)
    (step,) = records_of(controller.journal.entries(run=run)).values()
    (part,) = step.parts
    assert part.low <= pump.moved_ul <= part.high, "as the next process reads it"
    assert controller.runs.get(run).messages == (), "a pause is no fault of the pump"
    assert (part.counted, part.counter_step) == (pump.counted_ul // 1000.0 * 1000.0, 1000.0)
    await controller.runs.resume(run, "anna", "the visitor has left")
    await controller.until(lambda: controller.runs.get(run).state.ended)
    assert 11_800.0 <= pump.moved_ul <= 12_001.0
    await controller.gone()


async def test_A10_an_abort_stops_a_dose_at_once(tmp_path: Path) -> None:
    world, controller, run = await drawing(tmp_path / "j.db", 0.5)
    await controller.runs.abort(run, "anna", "enough")
    await controller.until(lambda: controller.runs.get(run).state is RunState.ABORTED)
    assert world.pumps["reglo.draw"].moved_ul < 11_999.0
    await controller.gone()


async def test_E2_a_pump_that_goes_on_after_its_stop_is_an_alarm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, controller, run = await drawing(tmp_path / "j.db", 120.0)
    pump = world.pumps["reglo.draw"]
    apply = pump.apply

    async def stuck(command: Command) -> None:
        if not isinstance(command, Stop):
            await apply(command)

    monkeypatch.setattr(pump, "apply", stuck)
    await controller.runs.pause(run, "anna", "a visitor")
    await controller.until(lambda: controller.runs.get(run).state is RunState.HELD, 600.0)
    assert any(
        "by hand" in text
        for kind, where, text in controller.alarms
        if (kind, where) == ("command_failed", "reglo.draw")
    )
    moved = controller.journal.last("moved", run=run)
    assert moved is not None
    assert moved.body["low"] <= 12_000.0 <= moved.body["high"]
    await controller.gone()


async def test_E8_a_pump_that_runs_too_long_is_stopped_and_the_run_is_held(tmp_path: Path) -> None:
    """Its tubing slips: the gate stops it, what it has moved is weighed, and nothing is learned of its calibration."""
    world, controller, run = await drawing(tmp_path / "j.db", 175.0)
    pump = world.pumps["reglo.draw"]
    pump.advance()
    pump.flow_ul_min /= 3.0
    await controller.until(lambda: controller.runs.get(run).state is RunState.HELD)
    assert not pump.flow_ul_min
    assert "longer than its volume takes" in controller.runs.get(run).messages[-1]
    moved = controller.journal.last("moved", run=run)
    assert moved is not None
    assert moved.body["end"] == "overtime"
    assert "nominal_ul" not in moved.body
    assert not [kind for kind, _, _ in controller.alarms if kind == "pump_drift"]
    assert moved.body["low"] <= pump.moved_ul <= moved.body["high"]
    assert pump.moved_ul < 7000.0
    await controller.runs.resume(run, "anna", "new tubing")
    await controller.until(lambda: controller.runs.get(run).state.ended)
    assert pump.moved_ul == pytest.approx(12_000.0, abs=200.0)
    await controller.gone()


async def test_A4_a_pump_that_runs_already_is_stopped_and_gets_its_dose_afterwards(tmp_path: Path) -> None:
    at = await bench(tmp_path / "j.db")
    pump = at.world.pumps[GLUCOSE]
    pump.left_ul, pump.flow_ul_min = 1e6, 100.0  # by a person at its panel
    run = await at.controller.runs.start("one_dose", {}, "anna", "a test")
    await at.controller.until(lambda: at.controller.runs.get(run).state.ended)
    assert at.controller.runs.get(run).state is RunState.COMPLETE
    assert [round(dose.volume_ul) for dose in pump.doses] == [5000]
    assert any("running before the dose" in str(entry.body) for entry in at.controller.journal.entries())
    await at.controller.gone()


async def test_I2_a_stuck_balance_is_an_alarm_and_the_dose_is_known_by_its_pump(tmp_path: Path) -> None:
    world = World()
    world.stuck_g = world.mass_g
    controller = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    controller_run = await controller.runs.start("one_draw", {"volume": "12 mL"}, "anna", "a test")
    await controller.until(lambda: controller.runs.get(controller_run).state in (RunState.COMPLETE, RunState.HELD))
    assert any((kind, where) == ("balance_drift", "balance.mass") for kind, where, _ in controller.alarms)
    moved = controller.journal.last("moved", run=controller_run)
    assert moved is not None
    assert moved.body["high"] >= 12_000.0
    await controller.gone()


async def test_F2_with_a_stuck_balance_a_paused_pump_accounts_for_the_time_that_it_ran(tmp_path: Path) -> None:
    world = World()
    world.stuck_g = world.mass_g
    pump = world.pumps["reglo.draw"]
    pump.counted_ul = 50_000.0
    controller = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    await asyncio.sleep(600.0)
    run = await controller.runs.start("one_draw", {"volume": "12 mL"}, "anna", "a test")
    await controller.until(lambda: bool(pump.doses))
    await asyncio.sleep(48.0)
    await controller.runs.pause(run, "anna", "a visitor")
    await controller.until(lambda: controller.runs.get(run).state is RunState.HELD)
    moved = controller.journal.last("moved", run=run)
    assert moved is not None
    assert moved.body["counted"] == 3000.0
    assert moved.body["high"] < 12_000.0
    await controller.gone()


async def test_F2_without_a_balance_the_counter_is_read_after_each_dose(tmp_path: Path) -> None:
    world = World()
    world.balance_works = False
    controller = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    run = await controller.runs.start("one_draw", {"volume": "12 mL"}, "anna", "a test")
    await controller.until(lambda: controller.runs.get(run).state.ended)
    moved = controller.journal.last("moved", run=run)
    assert moved is not None
    assert moved.body["source"] == "command"
    assert moved.body["counted"] >= 11_000.0, "in whole millilitres"
    await controller.gone()


async def test_F2_a_balance_that_answers_only_after_a_dose_does_not_judge_it(tmp_path: Path) -> None:
    world = World()
    world.balance_works = False
    controller = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    run = await controller.runs.start("one_draw", {"volume": "12 mL"}, "anna", "a test")
    await controller.until(lambda: bool(world.pumps["reglo.draw"].doses))
    world.balance_works = True
    await controller.until(lambda: controller.runs.get(run).state in (RunState.COMPLETE, RunState.HELD))
    assert controller.runs.get(run).state is RunState.COMPLETE, controller.runs.get(run).messages
    moved = controller.journal.last("moved", run=run)
    assert moved is not None
    assert moved.body["source"] == "command"
    await controller.gone()


async def test_the_highest_good_pressure_before_the_filter_is_kept_with_a_return(tmp_path: Path) -> None:
    world = World()
    controller = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    run = await controller.runs.start("one_return", {}, "anna", "a test")
    pump = world.pumps[RETURN]
    await controller.until(lambda: bool(pump.doses))
    assert world.valves[VALVE].on, "open before its pump begins"
    for kpa in (20.0, 31.0, 25.0):
        world.readings["p_filter.pressure"] = ("kPa", kpa)
        await asyncio.sleep(6.0)
    del world.readings["p_filter.pressure"]
    controller.store.read("p_filter.pressure", 70.0, "kPa", Quality.SUSPECT, world.loop.time())
    await asyncio.sleep(5.0)
    world.readings["p_filter.pressure"] = ("kPa", 25.0)
    await controller.until(lambda: controller.runs.get(run).state.ended)
    assert not world.valves[VALVE].on, "closed behind it"
    draw, back = controller.journal.entries(kinds=("moved",))
    assert "peak_kpa" not in draw.body
    assert back.body["peak_kpa"] == pytest.approx(31.0, abs=0.01)
    assert pump.moved_ul == pytest.approx(8000.0, abs=100.0)
    await controller.gone()
