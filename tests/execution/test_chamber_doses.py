"""Doses of single chambers behind selectors: where they go, what is booked, and what the selectors do."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from controller.core.run_states import RunState
from controller.journal.journal import Journal
from controller.ledger.ledger import Ledger
from controller.recipes.catalogue import shipped
from controller.recipes.file import RecipeError
from controller.recipes.on_rig import check_on
from controller.runs.runner import RunnerError
from controller.safety.terms import Intent
from drivers.commands import Level
from protocols.registry import Recipe
from sim.virtual_time import ScaledLoop
from tests.execution.plate import PLATE, WELLS, PlateWorld, of_kind, recipe_of
from tests.execution.two_media import TWO_LINES
from tests.execution.world import Controller, Killed, StepClock
from tests.protocols.in_process import load

pytestmark = pytest.mark.virtual_time

CHANGE = """
  - for_each: chamber
    do:
      - aspirate: {from: chamber, volume: chamber.volume * 15 %, as: out}
      - dispense: {to: chamber, volume: out}
"""


async def ended(controller: Controller, run: str, *states: RunState) -> None:
    """Wait until a run has ended, or has come to one of `states`."""
    await controller.until(lambda: (state := controller.runs.get(run).state).ended or state in states)


async def started(controller: Controller, recipe: Recipe) -> str:
    return await controller.runs.start(recipe, {}, user="anna", reason="test")


async def test_each_chamber_receives_its_own_dose_and_the_selectors_rest(tmp_path: Path) -> None:
    world = PlateWorld()
    controller = Controller(world, tmp_path / "journal.db")
    run = await started(controller, recipe_of(tmp_path, CHANGE))
    await ended(controller, run)
    assert controller.runs.get(run).state is RunState.COMPLETE
    assert world.at_rest
    assert not world.turned_under_flow
    volumes = controller.ledger.volumes()
    for well in WELLS:
        assert abs(world.volumes[well] - 1000.0) < 2.0
        assert abs(volumes[well].ul - world.volumes[well]) < 3.0 * volumes[well].sd_ul
    assert world.selectors["giver.valve"].moves == [level for port in range(1, 13) for level in (float(port), 0.0)]
    moved = of_kind(controller, "moved")
    assert [body["ports"] for body in moved[:2]] == [{"takeoff": 1}, {"supply": 1}]
    assert [body["line"] for body in moved[:2]] == ["take", "dose"]
    act = next(body for body in of_kind(controller, "act") if body["actuator"] == "reglo.dose")
    assert act["positions"] == {"giver.valve": 1.0}
    await controller.gone()
    journal = Journal(tmp_path / "journal.db", StepClock(world), durable=False)
    again = Ledger(PLATE, journal, StepClock(world)).volumes()
    journal.close()
    assert again["w07"].ul == pytest.approx(volumes["w07"].ul, abs=0.1)


async def test_a_selector_that_does_not_turn_holds_the_run_before_anything_moves(tmp_path: Path) -> None:
    world = PlateWorld()
    world.selectors["taker.valve"].stuck = True
    controller = Controller(world, tmp_path / "journal.db")
    run = await started(controller, recipe_of(tmp_path, CHANGE))
    await ended(controller, run, RunState.HELD)
    view = controller.runs.get(run)
    assert view.state is RunState.HELD
    assert "taker.valve" in view.messages[-1]
    assert world.entered == {}
    assert not of_kind(controller, "moved")
    world.selectors["taker.valve"].stuck = False
    await controller.runs.resume(run, "anna", "freed")
    await ended(controller, run)
    assert controller.runs.get(run).state is RunState.COMPLETE
    assert abs(world.volumes["w01"] - 1000.0) < 2.0
    await controller.gone()


async def test_a_selector_that_is_turned_by_hand_stops_its_pump(tmp_path: Path) -> None:
    world = PlateWorld()
    controller = Controller(world, tmp_path / "journal.db")
    run = await started(controller, recipe_of(tmp_path, "\n  - dispense: {to: w03, volume: 300 uL}\n"))
    await controller.until(lambda: world.pumps["reglo.dose"].flow_ul_min > 0)
    world.advance()
    world.selectors["giver.valve"].level = 5.0
    await controller.until(lambda: world.selectors["giver.valve"].level == 0.0)
    world.turned_under_flow.clear()
    assert world.pumps["reglo.dose"].flow_ul_min == 0.0
    assert world.entered.get("w05", 0.0) < 100.0  # two polls, and the stop
    await ended(controller, run, RunState.HELD)
    assert any("giver.valve" in detail or source == "giver.valve" for _, source, detail in controller.alarms)
    await controller.gone()


async def test_a_chamber_that_cannot_be_dosed_is_left_out_and_the_others_go_on(tmp_path: Path) -> None:
    world = PlateWorld()
    world.blocked = {("medium", "w05")}
    controller = Controller(world, tmp_path / "journal.db")
    run = await started(controller, recipe_of(tmp_path, CHANGE))
    await ended(controller, run, RunState.HELD)
    assert controller.runs.get(run).state is RunState.COMPLETE, controller.runs.get(run).messages
    assert [source for kind, source, _ in controller.alarms if kind == "chamber_left_out"] == ["w05"]
    assert [body["chamber"] for body in of_kind(controller, "note.chamber_left_out")] == ["w05"]
    assert abs(world.volumes["w12"] - 1000.0) < 2.0
    assert world.volumes["w05"] == pytest.approx(850.0, abs=2.0)
    assert world.at_rest
    await controller.gone()


async def test_a_selector_does_not_turn_while_its_pump_runs(tmp_path: Path) -> None:
    world = PlateWorld()
    controller = Controller(world, tmp_path / "journal.db")
    run = await started(controller, recipe_of(tmp_path, "\n  - dispense: {to: w03, volume: 300 uL}\n"))
    await controller.until(lambda: world.pumps["reglo.dose"].flow_ul_min > 0)
    outcome = await controller.gate.submit(Intent("giver.valve", Level(7.0), "ben", "a test"))
    assert not outcome.accepted
    assert "reglo.dose" in outcome.reasons[0]
    assert world.selectors["giver.valve"].level == 3.0
    await ended(controller, run)
    assert not world.turned_under_flow
    assert world.entered["w03"] == pytest.approx(300.0, abs=1.0)
    await controller.gone()


async def test_an_abort_in_the_middle_of_a_dose_brings_the_selector_to_rest(tmp_path: Path) -> None:
    world = PlateWorld()
    controller = Controller(world, tmp_path / "journal.db")
    run = await started(controller, recipe_of(tmp_path, "\n  - dispense: {to: w03, volume: 300 uL}\n"))
    await controller.until(lambda: world.pumps["reglo.dose"].flow_ul_min > 0)
    await controller.runs.abort(run, "anna", "enough")
    await ended(controller, run)
    assert world.at_rest
    assert not world.turned_under_flow
    volume = controller.ledger.volumes()["w03"]
    assert abs(volume.ul - world.volumes["w03"]) < 3.0 * volume.sd_ul + 1.0
    await controller.gone()


async def test_a_dose_above_the_ceiling_of_its_chamber_is_refused_at_the_start(tmp_path: Path) -> None:
    controller = Controller(PlateWorld(), tmp_path / "journal.db")
    with pytest.raises(RunnerError, match="“w03” could rise"):
        await started(controller, recipe_of(tmp_path, "\n  - dispense: {to: w03, volume: 450 uL}\n"))
    await controller.gone()


@pytest.mark.parametrize("row", range(2, 25))
async def test_a_kill_at_any_row_books_each_dose_once(tmp_path: Path, row: int) -> None:
    """Killed before the selector turns, between turn and pump, in the dose, after it: the wells receive what was asked."""
    world = PlateWorld()
    steps = "\n  - aspirate: {from: w02, volume: 200 uL}\n  - dispense: {to: w02, volume: 200 uL}\n"
    recipe = recipe_of(tmp_path, steps)
    first = Controller(world, tmp_path / "journal.db", die_at=row)
    try:
        run = await started(first, recipe)
        await first.until(lambda: first.journal.dead or first.runs.get(run).state.ended)
    except BaseException as error:
        if not isinstance(error, Killed):
            raise
    await first.gone()
    second = Controller(world, tmp_path / "journal.db", catalogue={"mine": recipe}, recipes=tmp_path)
    await second.runs.recover()
    await second.until(lambda: all(view.state.ended or view.state is RunState.HELD for view in second.runs.list()))
    for view in second.runs.list():
        assert view.state is RunState.COMPLETE, view.messages
        short_ul = 10.0  # what is left of a dose that was cut short may be less than the pump's minimum
        assert world.volumes["w02"] == pytest.approx(1000.0, abs=short_ul)
        assert world.entered.get("waste", 0.0) == pytest.approx(200.0, abs=short_ul)
    assert world.at_rest
    assert not world.turned_under_flow
    volume = second.ledger.volumes()["w02"]
    assert abs(volume.ul - world.volumes["w02"]) < 3.0 * volume.sd_ul + 2.0
    await second.gone()


async def test_change_wells_goes_on_in_the_middle_of_its_for_each_after_a_kill(tmp_path: Path) -> None:
    world = PlateWorld()
    first = Controller(world, tmp_path / "journal.db", catalogue=shipped())
    run = await first.runs.start("change-wells", {"share": "20 %"}, user="anna", reason="test")
    await first.until(lambda: world.entered.get("w05", 0.0) < -150.0)
    await first.gone()
    second = Controller(world, tmp_path / "journal.db", catalogue=shipped())
    await second.runs.recover()
    await second.until(lambda: len(of_kind(second, "note.well_changed")) == len(WELLS))
    await second.runs.stop(run, "anna", "enough")
    await ended(second, run)
    for well in WELLS:
        assert world.volumes[well] == pytest.approx(1000.0, abs=12.0)
    assert world.volumes["waste"] == pytest.approx(12 * 200.0, abs=30.0)
    assert world.at_rest
    assert not world.turned_under_flow
    await second.gone()


GROUP = """
  - for_each: {group: edge}
    do:
      - aspirate: {from: chamber, volume: 60 uL, as: out}
      - if: {condition: known(out), then: [{note: {kind: seen, text: "{out}"}}]}
  - for_each: {chambers: [w02], do: [{dispense: {to: chamber, volume: chamber.capacity * 5 %}}]}
"""


async def test_a_group_and_a_list_of_chambers(tmp_path: Path) -> None:
    world = PlateWorld()
    controller = Controller(world, tmp_path / "journal.db")
    run = await started(controller, recipe_of(tmp_path, GROUP))
    await ended(controller, run)
    assert controller.runs.get(run).state is RunState.COMPLETE, controller.runs.get(run).messages
    changed = {well: round(world.volumes[well] - 1000.0) for well in WELLS if abs(world.volumes[well] - 1000.0) > 1.0}
    assert changed == {"w01": -60, "w06": -60, "w07": -60, "w12": -60, "w02": 100}
    assert len(of_kind(controller, "note.seen")) == 4
    await controller.gone()


async def test_chambers_with_lines_of_their_own_are_dosed_at_the_same_time(tmp_path: Path) -> None:
    """Without a selector the path is found as well; the doses of two chambers overlap."""
    world = PlateWorld(TWO_LINES)
    controller = Controller(world, tmp_path / "journal.db")
    steps = """
  - for_each: chamber
    do:
      - dispense: {to: chamber, volume: 200 uL}
      - wait: 10 min
      - aspirate: {from: chamber, volume: 100 uL}
"""
    run = await started(controller, recipe_of(tmp_path, steps))
    begun_s = world.loop.time()
    await ended(controller, run)
    assert controller.runs.get(run).state is RunState.COMPLETE, controller.runs.get(run).messages
    assert world.loop.time() - begun_s < 1.5 * 600.0
    assert [world.volumes[name] for name in ("w1", "w2")] == pytest.approx([1100.0, 1100.0], abs=1.0)
    assert all("ports" not in body for body in of_kind(controller, "moved"))
    await controller.gone()


@pytest.mark.parametrize(
    ("steps", "what"),
    [
        ("\n  - for_each: {group: batch_9}\n    do: [{wait: 1 min}]\n", "no group “batch_9”"),
        ("\n  - for_each: {chambers: [w99], do: [{wait: 1 min}]}\n", "no chamber “w99”"),
        ("\n  - dispense: {to: w99, volume: 1 mL}\n", "dispense w99: this rig has no line for it"),
        ("\n  - dispense: {to: w01, from: poison, volume: 1 mL}\n", "dispense w01 poison: this rig has no line for it"),
    ],
)
async def test_what_a_rig_lacks_for_a_dose_is_said_with_its_line(tmp_path: Path, steps: str, what: str) -> None:
    with pytest.raises(RecipeError, match=what):
        check_on(recipe_of(tmp_path, steps), PLATE, {})


def test_a_name_of_the_chamber_is_known_in_a_for_each_only(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"nothing here is called “chamber.volume”"):
        recipe_of(tmp_path, "\n  - dispense: {to: w01, volume: chamber.volume * 10 %}\n")


PYTHON = """
NAME = "by-hand"
TITLE = "Doses from Python"
PARAMS = ()
async def protocol(lab, params):
    for name in lab.chambers.group("edge"):
        well = lab.chambers[name]
        before_ul = await well.volume_ul()
        await well.aspirate(0.1 * before_ul)
        moved = await well.dispense(well.facts.target_ul - 0.9 * before_ul)
        await lab.note("dosed", {"well": name, "ul": moved.ul})
"""


async def test_a_python_protocol_doses_chambers(tmp_path: Path) -> None:
    path = tmp_path / "by_hand.py"
    path.write_text(PYTHON, encoding="utf-8")
    world = PlateWorld()
    controller = Controller(world, tmp_path / "journal.db")
    run = await started(controller, load(path))
    await ended(controller, run)
    assert controller.runs.get(run).state is RunState.COMPLETE, controller.runs.get(run).messages
    assert [body["well"] for body in of_kind(controller, "note.dosed")] == ["w01", "w06", "w07", "w12"]
    assert world.volumes["w07"] == pytest.approx(1000.0, abs=1.0)
    await controller.gone()


async def test_an_emergency_stop_in_a_dose_stops_the_pump_before_the_selector_turns(tmp_path: Path) -> None:
    world = PlateWorld()
    controller = Controller(world, tmp_path / "journal.db")
    run = await started(controller, recipe_of(tmp_path, "\n  - dispense: {to: w03, volume: 300 uL}\n"))
    await controller.until(lambda: world.pumps["reglo.dose"].flow_ul_min > 0)
    await controller.gate.estop("anna", "smoke")
    await controller.until(lambda: world.at_rest, within_s=60.0)
    assert not world.turned_under_flow
    controller.gate.reset("anna", "no smoke")
    await ended(controller, run, RunState.HELD)
    if controller.runs.get(run).state is RunState.HELD:
        await controller.runs.resume(run, "anna", "looked at it")
        await ended(controller, run)
    assert world.entered["w03"] == pytest.approx(300.0, abs=10.0)
    assert set(world.entered) == {"medium", "w03"}
    await controller.gone()


async def test_a_pause_in_a_dose_rests_the_selector_and_the_rest_is_given_later(tmp_path: Path) -> None:
    world = PlateWorld()
    controller = Controller(world, tmp_path / "journal.db")
    run = await started(controller, recipe_of(tmp_path, "\n  - dispense: {to: w03, volume: 300 uL}\n"))
    await controller.until(lambda: world.entered.get("w03", 0.0) > 100.0)
    await controller.runs.pause(run, "anna", "lunch")
    await ended(controller, run, RunState.HELD)
    assert world.at_rest
    assert world.entered["w03"] < 250.0
    await controller.runs.resume(run, "anna", "back")
    await ended(controller, run)
    doubt_ul = 40.0  # a dose that was cut short counts with its upper bound
    assert world.entered == pytest.approx({"medium": -300.0, "w03": 300.0}, abs=doubt_ul)
    assert not world.turned_under_flow
    await controller.gone()


async def test_a_selector_that_is_not_at_rest_at_the_start_is_brought_there(tmp_path: Path) -> None:
    world = PlateWorld()
    world.selectors["giver.valve"].level = 4.0
    controller = Controller(world, tmp_path / "journal.db")
    await controller.until(lambda: world.at_rest, within_s=60.0)
    assert not world.turned_under_flow
    await controller.gone()


def test_a_python_protocol_in_a_process_of_its_own_doses_chambers(tmp_path: Path) -> None:
    folder = tmp_path / "recipes"
    folder.mkdir()
    (folder / "by-hand.py").write_text(PYTHON, encoding="utf-8")

    async def work() -> None:
        world = PlateWorld()
        controller = Controller(world, tmp_path / "journal.db", catalogue={}, recipes=folder)
        run = await controller.runs.start("by-hand", {}, user="anna", reason="test")
        await ended(controller, run, RunState.HELD)
        assert controller.runs.get(run).state is RunState.COMPLETE, controller.runs.get(run).messages
        assert world.volumes["w07"] == pytest.approx(1000.0, abs=1.0)
        assert set(world.entered) == {"medium", "waste", "w01", "w06", "w07", "w12"}
        await controller.gone()

    with asyncio.Runner(loop_factory=lambda: ScaledLoop(20.0)) as runner:
        runner.run(work())


@pytest.mark.parametrize(("point", "value"), [("flow.flow", 0.0), ("flow.flow", -1000.0), ("flow.air", 1.0)])
async def test_a_dose_in_which_no_medium_was_seen_is_in_doubt(tmp_path: Path, point: str, value: float) -> None:
    """The pump counts its turns with an empty bottle as well; the flow sensor in its line tells."""
    world = PlateWorld()
    world.readings |= {"flow.flow": ("uL/min", 1000.0), "flow.air": ("1", 0.0)}
    world.readings[point] = (world.readings[point][0], value)
    controller = Controller(world, tmp_path / "journal.db")
    steps = "\n  - for_each: {chambers: [w01, w02], do: [{dispense: {to: chamber, volume: 150 uL}}]}\n"
    run = await started(controller, recipe_of(tmp_path, steps))
    await ended(controller, run)
    assert [source for kind, source, _ in controller.alarms if kind == "chamber_left_out"] == ["w01", "w02"]
    moved = of_kind(controller, "moved")
    assert [body["end"] for body in moved] == ["unknown", "unknown"]
    assert all(point in body["doubt"][0] and body["low"] == 0.0 for body in moved)
    assert all(("turns backwards" in body["doubt"][0]) is (value < 0.0) for body in moved)
    await controller.gone()


async def test_a_dose_whose_medium_was_seen_is_certain(tmp_path: Path) -> None:
    world = PlateWorld()
    world.readings |= {"flow.flow": ("uL/min", 1000.0), "flow.air": ("1", 0.0)}
    controller = Controller(world, tmp_path / "journal.db")
    run = await started(controller, recipe_of(tmp_path, "\n  - dispense: {to: w01, volume: 150 uL}\n"))
    await ended(controller, run)
    assert [body["end"] for body in of_kind(controller, "moved")] == ["done"]
    await controller.gone()
