"""After a restart: unknown outcomes, lost power, stepped clocks, changed protocols, held runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from controller.core.run_states import RunState
from controller.runs.runner import Runner
from controller.steps.recovery import PATIENCE, StepProblem, Trouble, advise
from controller.steps.steps import records_of
from drivers.commands import Guarantee
from protocols.language import Lab, ProtocolFunction
from protocols.table import OF_CHAMBERS, TRANSFERS, VERBS
from protocols.verbs import Policy
from tests.execution.protocols_for_tests import CATALOGUE, recipe
from tests.execution.world import Controller, World


def only(runs: Runner) -> RunState:
    return runs.list()[0].state


async def interrupted(path: Path, world: World, protocol: str, at_s: float, **params: str) -> str:
    """A controller that dies `at_s` seconds into a run."""
    controller = Controller(world, path, catalogue=CATALOGUE)
    run = await controller.runs.start(protocol, params, "anna", "a test")
    await asyncio.sleep(at_s)
    await controller.gone()
    return run


@pytest.mark.virtual_time
async def test_F2_a_pump_that_lost_power_leaves_an_interval_and_holds_the_run(tmp_path: Path) -> None:
    world = World()
    pump = world.pumps["reglo.draw"]
    pump.counted_ul = 5000.0
    run = await interrupted(tmp_path / "j.db", world, "one_draw", 65.0, volume="12 mL")
    pump.lose_power()
    moved_ul = pump.moved_ul
    assert 3000 < moved_ul < 5000
    second = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    await second.runs.recover()
    await second.until(lambda: only(second.runs) is RunState.HELD)
    assert any("lost power" in message for message in second.runs.get(run).messages)
    assert any(kind == "run_held" for kind, _, _ in second.alarms)
    row = second.journal.last("moved", run=run)
    assert row is not None
    assert row.body["end"] == "unknown"
    assert row.body["low"] <= moved_ul <= row.body["high"]
    assert row.body["high"] - row.body["low"] < 200.0, "the balance narrows the interval"
    await asyncio.sleep(7200.0)
    assert only(second.runs) is RunState.HELD
    await second.runs.resume(run, "anna", "seen it; go on")
    await second.until(lambda: only(second.runs).ended)
    assert only(second.runs) is RunState.COMPLETE
    assert 11_800.0 <= pump.moved_ul <= 12_001.0
    await second.gone()


@pytest.mark.virtual_time
async def test_F2_with_no_balance_either_the_interval_is_all_that_the_pump_may_have_given(tmp_path: Path) -> None:
    world = World()
    world.balance_works = False
    pump = world.pumps["reglo.draw"]
    pump.counted_ul = 5000.0
    run = await interrupted(tmp_path / "j.db", world, "one_draw", 120.0, volume="12 mL")
    pump.lose_power()
    second = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    await second.runs.recover()
    await second.until(lambda: only(second.runs) is RunState.HELD)
    row = second.journal.last("moved", run=run)
    assert row is not None
    assert (row.body["low"], row.body["high"], row.body["end"]) == (0.0, pytest.approx(12_000.0 * 1.24), "unknown")
    given = len(pump.doses)
    await second.runs.resume(run, "anna", "go on")
    await second.until(lambda: only(second.runs).ended)
    assert len(pump.doses) == given, "all of it may have been given: nothing more is"
    volumes = second.ledger.volumes()
    assert abs(volumes["spent"].ul - world.volumes["spent"]) < 3 * volumes["spent"].sd_ul
    assert volumes["spent"].sd_ul > 2000.0, "the doubt is kept"
    await second.gone()


@pytest.mark.virtual_time
async def test_F2_a_counter_that_began_at_zero_is_not_believed_against_the_balance(tmp_path: Path) -> None:
    """A pump fresh from power-on that loses power again counts from zero to zero: only the balance knows."""
    world = World()
    pump = world.pumps["reglo.draw"]
    run = await interrupted(tmp_path / "j.db", world, "one_draw", 100.0, volume="12 mL")
    pump.lose_power()
    moved_ul = pump.moved_ul
    second = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    await second.runs.recover()
    await second.until(lambda: only(second.runs).ended)
    row, _ = [row for row in second.journal.entries(kinds=("moved",)) if row.run == run]
    assert row.body["source"] == "balance"
    assert row.body["low"] <= moved_ul <= row.body["high"]
    assert pump.moved_ul == pytest.approx(12_000.0, abs=150.0)  # the rest is given (A10)
    await second.gone()


@pytest.mark.virtual_time
async def test_F2_a_vessel_emptied_meanwhile_is_not_taken_for_a_transfer(tmp_path: Path) -> None:
    world = World()
    await interrupted(tmp_path / "j.db", world, "one_draw", 150.0, volume="12 mL")
    world.advance()
    world.volumes["spent"] -= 4500.0  # a person took a sample while the controller was down
    second = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    await second.runs.recover()
    await second.until(lambda: only(second.runs) is RunState.HELD)
    assert any("not known for certain" in message for message in second.runs.list()[0].messages)
    await second.gone()


@pytest.mark.virtual_time
async def test_E4_a_pump_still_running_is_waited_for(tmp_path: Path) -> None:
    world = World()
    pump = world.pumps["reglo.draw"]
    await interrupted(tmp_path / "j.db", world, "one_draw", 30.0, volume="12 mL")
    second = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    await second.runs.recover()
    await second.until(lambda: only(second.runs).ended)
    assert only(second.runs) is RunState.COMPLETE
    assert len(pump.doses) == 1
    assert pump.moved_ul == pytest.approx(12_000.0)
    await second.gone()


@pytest.mark.virtual_time
async def test_E4_a_pump_that_cannot_end_its_dose_is_stopped_at_once(tmp_path: Path) -> None:
    world = World()
    pump = world.pumps["reglo.draw"]
    pump.guarantee = Guarantee.HOST
    await interrupted(tmp_path / "j.db", world, "one_draw", 30.0, volume="12 mL")
    world.advance()
    assert pump.flow_ul_min > 0
    pump.left_ul = float("inf")  # the controller timed the dose, and is gone
    before_ul = pump.moved_ul
    second = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    await second.runs.recover()
    await second.until(lambda: pump.flow_ul_min == 0.0, within_s=5.0)
    assert pump.moved_ul - before_ul < 5.0 * 4000.0 / 60.0
    await second.gone()


@pytest.mark.virtual_time
async def test_E4_a_return_whose_valve_fell_shut_is_stopped_and_finished_with_the_valve_open(tmp_path: Path) -> None:
    world = World()
    pump = world.pumps["reglo.return"]
    await interrupted(tmp_path / "j.db", world, "one_return", 200.0)
    assert pump.flow_ul_min > 0
    world.advance()
    world.valves["relay.return_valve"].on = False  # what the guard does
    await asyncio.sleep(20.0)
    assert pump.flow_ul_min > 0, "it turns against a shut valve and counts"
    second = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    await second.runs.recover()
    await second.until(lambda: only(second.runs) in (RunState.HELD, RunState.COMPLETE))
    if only(second.runs) is RunState.HELD:
        await second.runs.resume(second.runs.list()[0].id, "anna", "looked at it")
        await second.until(lambda: only(second.runs).ended)
    assert pump.moved_ul <= 8001.0
    await second.gone()


@pytest.mark.virtual_time
@pytest.mark.parametrize("step_s", [3600.0, -3600.0])
async def test_E7_a_clock_step_changes_no_dose(step_s: float, tmp_path: Path) -> None:
    world = World()
    pump = world.pumps["reglo.draw"]
    controller = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    run = await controller.runs.start("one_draw", {"volume": "12 mL"}, "anna", "a test")
    await asyncio.sleep(60.0)
    world.clock_step_s = step_s
    await controller.until(lambda: controller.runs.get(run).state.ended)
    assert pump.moved_ul == pytest.approx(12_000.0)
    assert len(pump.doses) == 1
    assert controller.runs.get(run).state is RunState.COMPLETE
    await controller.gone()


@pytest.mark.virtual_time
@pytest.mark.parametrize("step_s", [3600.0, -3600.0])
async def test_E7_a_clock_step_over_a_restart_changes_no_dose(step_s: float, tmp_path: Path) -> None:
    world = World()
    pump = world.pumps["reglo.draw"]
    await interrupted(tmp_path / "j.db", world, "one_draw", 60.0, volume="12 mL")
    world.clock_step_s = step_s
    second = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    await second.runs.recover()
    await second.until(lambda: only(second.runs).ended)
    assert pump.moved_ul == pytest.approx(12_000.0)
    assert len(pump.doses) == 1
    await second.gone()


@pytest.mark.virtual_time
@pytest.mark.parametrize("step_s", [0.0, 3600.0, -3600.0])
async def test_E7_a_sleep_keeps_its_length_when_the_clock_steps(step_s: float, tmp_path: Path) -> None:
    world = World()
    controller = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    run = await controller.runs.start("a_nap", {}, "anna", "a test")
    await asyncio.sleep(1000.0)
    world.clock_step_s = step_s
    await controller.until(lambda: controller.runs.get(run).state.ended, 10_000.0)
    assert world.loop.time() == pytest.approx(7200.0, abs=2.0)
    await controller.gone()


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("step_s", "ends_s"),
    [(0.0, 7200.0), (3600.0, 3600.0), (-3600.0, 2000.0 + 7200.0)],
    ids=["no step", "an hour on", "an hour back: never longer than the whole sleep"],
)
async def test_a_sleep_keeps_its_deadline_over_a_restart(step_s: float, ends_s: float, tmp_path: Path) -> None:
    world = World()
    await interrupted(tmp_path / "j.db", world, "a_nap", 1000.0)
    world.clock_step_s = step_s
    await asyncio.sleep(1000.0)
    second = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    await second.runs.recover()
    await second.until(lambda: only(second.runs).ended, 20_000.0)
    assert world.loop.time() == pytest.approx(ends_s, abs=3.0)
    await second.gone()


@pytest.mark.virtual_time
async def test_E3_a_held_run_is_still_held_after_a_restart(tmp_path: Path) -> None:
    world = World()
    controller = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    run = await controller.runs.start("one_draw", {"volume": "12 mL"}, "anna", "a test")
    await asyncio.sleep(60.0)
    await controller.runs.pause(run, "anna", "lunch")
    await controller.until(lambda: controller.runs.get(run).state is RunState.HELD)
    await controller.gone()
    pump = world.pumps["reglo.draw"]
    moved_ul = pump.moved_ul
    second = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    await second.runs.recover()
    await asyncio.sleep(3600.0)
    assert only(second.runs) is RunState.HELD
    assert pump.moved_ul == moved_ul
    await second.runs.resume(run, "anna", "back")
    await second.until(lambda: only(second.runs).ended)
    assert pump.moved_ul == pytest.approx(12_000.0, abs=150.0)
    await second.gone()


@pytest.mark.virtual_time
async def test_E3_killed_while_pausing_ends_up_held_with_what_moved_on_record(tmp_path: Path) -> None:
    world = World()
    controller = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    run = await controller.runs.start("one_draw", {"volume": "12 mL"}, "anna", "a test")
    await asyncio.sleep(60.0)
    await controller.runs.pause(run, "anna", "lunch")
    await controller.gone()
    second = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    await second.runs.recover()
    await second.until(lambda: only(second.runs) is RunState.HELD)
    world.advance()
    spent = second.ledger.volumes()["spent"]
    assert spent.ul == pytest.approx(world.volumes["spent"], abs=4 * spent.sd_ul + 5)
    await second.gone()


@pytest.mark.virtual_time
async def test_killed_while_aborting_is_aborted_after_the_restart(tmp_path: Path) -> None:
    world = World()
    controller = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    run = await controller.runs.start("one_draw", {"volume": "12 mL"}, "anna", "a test")
    await asyncio.sleep(60.0)
    await controller.runs.abort(run, "anna", "no")
    await controller.gone()
    second = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    await second.runs.recover()
    await second.until(lambda: only(second.runs).ended)
    assert only(second.runs) is RunState.ABORTED
    steps = records_of(second.journal.entries(run=run))
    assert all(step.open_act is None for step in steps.values()), "no dose is left without an outcome (F2)"
    await second.gone()


@pytest.mark.virtual_time
async def test_a_question_in_other_words_is_the_same_step(tmp_path: Path) -> None:
    """A release that rewords its questions does not hold the runs that were asked the old ones."""

    def asking(words: str) -> ProtocolFunction:
        async def asks(lab: Lab, params: Mapping[str, float]) -> None:
            await lab.ask(words)
            await lab.kidney.draw(4_000.0)

        return asks

    world = World()
    controller = Controller(world, tmp_path / "j.db", catalogue={"asks": recipe(asking("old words"))})
    run = await controller.runs.start("asks", {}, "anna", "a test")
    await controller.until(lambda: only(controller.runs) is RunState.HELD)
    await controller.runs.resume(run, "anna", "done")
    await asyncio.sleep(30.0)
    await controller.gone()
    second = Controller(world, tmp_path / "j.db", catalogue={"asks": recipe(asking("New words"))})
    await second.runs.recover()
    await second.until(lambda: only(second.runs).ended)
    assert only(second.runs) is RunState.COMPLETE
    assert world.pumps["reglo.draw"].moved_ul == pytest.approx(4_000.0, rel=0.03)
    await second.gone()


@pytest.mark.virtual_time
async def test_a_changed_protocol_is_held_and_never_run(tmp_path: Path) -> None:
    world = World()
    run = await interrupted(tmp_path / "j.db", world, "one_draw", 60.0, volume="12 mL")

    async def other(lab: Lab, params: Mapping[str, float]) -> None:
        raise AssertionError("the new text was run")

    changed = {**CATALOGUE, "one_draw": recipe(other, CATALOGUE["one_draw"].params, source="1" * 64)}
    second = Controller(world, tmp_path / "j.db", catalogue=changed)
    await second.runs.recover()
    await second.until(lambda: only(second.runs) is RunState.HELD)
    assert any("is not what it was" in message for message in second.runs.get(run).messages)
    row = second.journal.last("moved", run=run)
    assert row is not None, "what the pump delivered meanwhile is on record all the same"
    await second.runs.resume(run, "anna", "try anyway")
    await asyncio.sleep(10.0)
    assert only(second.runs) is RunState.HELD
    await second.runs.abort(run, "anna", "start again")
    await second.until(lambda: only(second.runs) is RunState.ABORTED)
    await second.gone()


@pytest.mark.virtual_time
async def test_a_protocol_that_does_not_repeat_itself_is_held(tmp_path: Path) -> None:
    world = World()
    calls: list[float] = []

    async def fickle(lab: Lab, params: Mapping[str, float]) -> None:
        calls.append(1.0)
        await lab.sleep(100.0 * len(calls))
        await lab.kidney.draw(2000.0)

    catalogue = {"fickle": recipe(fickle)}
    controller = Controller(world, tmp_path / "j.db", catalogue=catalogue)
    await controller.runs.start("fickle", {}, "anna", "a test")
    await asyncio.sleep(50.0)
    await controller.gone()
    second = Controller(world, tmp_path / "j.db", catalogue=catalogue)
    await second.runs.recover()
    await second.until(lambda: only(second.runs) is RunState.HELD)
    assert any("does not repeat itself" in message for message in second.runs.list()[0].messages)
    assert world.pumps["reglo.draw"].doses == []
    await second.gone()


@pytest.mark.virtual_time
async def test_a_protocol_that_fails_is_held_and_can_be_aborted(tmp_path: Path) -> None:
    async def broken(lab: Lab, params: Mapping[str, float]) -> None:
        await lab.kidney.draw(-5.0)

    controller = Controller(World(), tmp_path / "j.db", catalogue={"broken": recipe(broken)}, rehearsing=False)
    run = await controller.runs.start("broken", {}, "anna", "a test")
    await controller.until(lambda: controller.runs.get(run).state is RunState.HELD)
    assert any("kidney.draw(-5 µL)" in message for message in controller.runs.get(run).messages)
    await controller.runs.abort(run, "anna", "repair it first")
    await controller.until(lambda: controller.runs.get(run).state is RunState.ABORTED)
    await controller.gone()


@pytest.mark.virtual_time
async def test_two_verbs_at_once_are_refused(tmp_path: Path) -> None:
    async def hasty(lab: Lab, params: Mapping[str, float]) -> None:
        await asyncio.gather(lab.kidney.draw(2000.0), lab.gut.feed(2000.0))

    world = World()
    controller = Controller(world, tmp_path / "j.db", catalogue={"hasty": recipe(hasty)})
    run = await controller.runs.start("hasty", {}, "anna", "a test")
    await controller.until(lambda: controller.runs.get(run).state is RunState.HELD)
    assert any("one verb at a time" in message for message in controller.runs.get(run).messages)
    await controller.runs.abort(run, "anna", "repair it first")
    await controller.until(lambda: controller.runs.get(run).state.ended)
    await controller.gone()


@pytest.mark.virtual_time
async def test_ask_holds_until_a_person_resumes_also_over_a_restart(tmp_path: Path) -> None:
    async def asking(lab: Lab, params: Mapping[str, float]) -> None:
        await lab.ask("the filter is due. Next: change it")
        await lab.note("changed", {})

    world = World()
    catalogue = {"asking": recipe(asking)}
    controller = Controller(world, tmp_path / "j.db", catalogue=catalogue)
    await controller.runs.start("asking", {}, "anna", "a test")
    await controller.until(lambda: only(controller.runs) is RunState.HELD)
    await controller.gone()
    second = Controller(world, tmp_path / "j.db", catalogue=catalogue)
    await second.runs.recover()
    await asyncio.sleep(600.0)
    assert only(second.runs) is RunState.HELD
    await second.runs.resume(second.runs.list()[0].id, "anna", "changed it")
    await second.until(lambda: only(second.runs).ended)
    assert second.journal.last("note.changed") is not None
    await second.gone()


@pytest.mark.virtual_time
async def test_E4_a_question_that_was_told_and_not_yet_held_for_when_the_controller_died_is_asked_again(
    tmp_path: Path,
) -> None:
    async def asking(lab: Lab, params: Mapping[str, float]) -> None:
        await lab.ask("is the bottle new?")
        await lab.note("asked", {})

    world, catalogue = World(), {"asking": recipe(asking)}
    reference = Controller(World(), tmp_path / "reference.db", catalogue=catalogue)
    await reference.runs.start("asking", {}, "anna", "a test")
    await reference.until(lambda: only(reference.runs) is RunState.HELD)
    told = next(row.seq for row in reference.journal.entries(kinds=("run.message",)))
    skipped = reference.journal.next_seq - 1 - reference.journal.rows  # rows that were not counted
    await reference.gone()

    doomed = Controller(world, tmp_path / "j.db", die_at=told - skipped, catalogue=catalogue)
    run = await doomed.runs.start("asking", {}, "anna", "a test")
    while not doomed.journal.dead:
        await asyncio.sleep(0.5)
    await doomed.gone()
    second = Controller(world, tmp_path / "j.db", catalogue=catalogue)
    await second.runs.recover()
    await second.until(lambda: only(second.runs) is RunState.HELD)
    assert second.journal.last("note.asked") is None
    await second.runs.resume(run, "anna", "it is")
    await second.until(lambda: only(second.runs).ended)
    assert second.journal.last("note.asked") is not None
    await second.gone()


def test_E8_the_policy_waits_for_what_passes_and_holds_for_the_rest() -> None:
    stale = StepProblem(
        Trouble.REFUSED, "reglo.draw", ("interlock temperature: t_chamber.temperature stale: 20 s old",)
    )
    assert [advise(stale, tries).after_s for tries in range(6)] == [*PATIENCE[Trouble.REFUSED], None]
    room = StepProblem(Trouble.REFUSED, "reglo.draw", ("spent could rise to 41.00 mL, above its ceiling of 40 mL",))
    assert advise(room, 0).hold
    both = StepProblem(Trouble.REFUSED, "reglo.draw", (*stale.reasons, *room.reasons))
    assert advise(both, 0).hold, "one reason that stands is enough"
    bubble = StepProblem(
        Trouble.REFUSED, "reglo.return", ("interlock over_pressure_filter: p_filter.pressure 82 is above 80",)
    )
    assert not advise(bubble, 0).hold
    clot = StepProblem(Trouble.REFUSED, "reglo.return", (bubble.reasons[0] + "; latched, reset it with a reason",))
    assert advise(clot, 0).hold
    for trouble in (Trouble.UNKNOWN, Trouble.OVERTIME):
        assert advise(StepProblem(trouble, "reglo.draw"), 0).hold
    for trouble in Trouble:
        last = advise(StepProblem(trouble, "reglo.draw", ("why",)), 1000)
        assert last.hold
        assert all(word in last.message for word in ("reglo.draw", "why", "Likely cause:", "Next:"))


def test_E8_every_verb_declares_its_policy() -> None:
    assert {name for name, verb in VERBS.items() if verb.policy is Policy.RESUME} == {*TRANSFERS, *OF_CHAMBERS}
    assert {"kidney.draw", "kidney.dialyse", "gut.feed", "liver.add_base"} <= set(TRANSFERS)
