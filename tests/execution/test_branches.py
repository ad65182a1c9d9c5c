"""Branches at the same time: fed back to each after a crash, held and ended as one run, in turns through one vessel."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from choroid.simulation.gantt import gantt
from choroid.simulation.plan import as_text, plan
from controller.core.run_states import RunState
from controller.core.state import Volume
from controller.recipes.catalogue import find
from controller.recipes.file import RecipeError, read_recipe
from controller.runs.paper import Rehearsed
from controller.runs.rehearsal import rehearse
from controller.runs.runner import Runner, RunnerError
from controller.transfers.routes import routes_of
from protocols.host import ProtocolError
from protocols.language import Lab
from protocols.registry import Recipe
from sim.virtual_time import run_virtual
from tests.execution.protocols_for_tests import recipe
from tests.execution.world import BENCH, EPOCH, RIG, Controller, Killed, World

HEAD = "recipe: 1\nname: abreast\ntitle: A test\n"
YAML = (
    HEAD
    + """parameters:
  volume: {default: 3 mL, min: 1 mL, max: 6 mL, help: how much}
steps:
  - kidney.draw: {volume: volume, as: drawn}
  - together:
      feeding:
        - repeat:
            times: 2
            count: turn
            steps:
              - gut.feed: 600 uL
              - together:
                  resting: [wait: 40 s]
                  looking:
                    - lung.oxygen: seen
                    - note: {kind: looked, values: {oxygen: seen, turn: turn}}
        - set: {fed: 1200 uL}
      emptying:
        - wait: 10 s
        - kidney.discard: {volume: 900 uL, as: gone}
        - repeat:
            times: 3
            steps:
              - lung.ph: acidity
              - note: {kind: watched, values: {ph: acidity, left: spent.volume}}
              - wait: 25 s
  - note: {kind: both, values: {fed: fed, gone: gone}}
  - kidney.give_back: drawn + fed - gone
"""
)
MOVED = {"kidney.draw": 3000.0, "gut.feed": 1200.0, "kidney.discard": 900.0, "kidney.give_back": 3300.0}
ROUTES = routes_of(RIG)
STEPS = Counter(
    {
        "kidney.draw": 1,
        "together": 3,
        "gut.feed": 2,
        "sleep": 6,
        "measure": 5,
        "note": 6,
        "kidney.discard": 1,
        "kidney.give_back": 1,
    }
)


def written(folder: Path, text: str = YAML) -> Recipe:
    path = folder / "abreast.yaml"
    path.write_text(text, encoding="utf-8")
    return read_recipe(path, find=find)


async def python(lab: Lab, params: Mapping[str, float]) -> None:
    """The same as the recipe, in Python."""
    drawn = await lab.kidney.draw(3000.0)

    async def looking(turn: int) -> None:
        seen = await lab.lung.oxygen()
        await lab.note("looked", {"oxygen": seen.value, "turn": float(turn)})

    async def feeding() -> float:
        for turn in (1, 2):
            await lab.gut.feed(600.0)
            await lab.together(lab.sleep(40.0), looking(turn), names=("resting", "looking"))
        return 1200.0

    async def emptying() -> float:
        await lab.sleep(10.0)
        gone = await lab.kidney.discard(900.0)
        for _ in range(3):
            acidity = await lab.lung.ph()
            await lab.note("watched", {"ph": acidity.value, "left": lab.volumes()["spent"].ul})
            await lab.sleep(25.0)
        return gone.ul

    fed, gone_ul = await lab.together(feeding(), emptying(), names=("feeding", "emptying"))
    await lab.note("both", {"fed": fed, "gone": gone_ul})
    await lab.kidney.give_back(drawn.ul + fed - gone_ul)


def only(runs: Runner) -> RunState:
    return runs.list()[0].state


async def _to_the_end(controller: Controller) -> None:
    await controller.until(lambda: only(controller.runs).ended)
    assert only(controller.runs) is RunState.COMPLETE


def _checked(controller: Controller) -> None:
    world = controller.world
    world.advance()
    view = controller.runs.list()[0]
    assert Counter(step.verb for step in view.progress) == STEPS
    assert [step.n for step in view.progress] == list(range(1, len(view.progress) + 1))
    for verb, moved_ul in MOVED.items():
        asked = [step.args["volume_ul"] for step in view.progress if step.verb == verb]
        assert sum(asked) == pytest.approx(moved_ul, abs=200.0)  # the return is of what was measured
        route = ROUTES[verb]
        pump = world.pumps[route.pump]
        min_ul = sum(asked) - route.min_ul - 150.0
        assert min_ul <= pump.moved_ul <= sum(asked) + 2.0, f"{verb}: {pump.moved_ul} of {asked} µL"
        assert len({dose.dose_id for dose in pump.doses}) == len(pump.doses)
    for vessel, volume in controller.ledger.volumes().items():
        assert abs(volume.ul - world.volumes[vessel]) <= 4 * volume.sd_ul + (320.0 if vessel == "loop" else 20.0)
    notes = Counter(row.kind for row in controller.journal.entries() if row.kind.startswith("note."))
    assert notes == {"note.looked": 2, "note.watched": 3, "note.both": 1}
    assert not world.valves["relay.return_valve"].on
    controller.journal.verify()


async def _undisturbed(recipe: Recipe, path: Path) -> tuple[int, list[tuple[float, str, str]]]:
    controller = Controller(World(), path)
    await controller.runs.start(recipe, {}, "anna", "reference")
    await _to_the_end(controller)
    _checked(controller)
    rows = [(row.at_s, row.kind, repr(row.body)) for row in controller.journal.entries() if row.kind != "run.start"]
    await controller.gone()
    return controller.journal.rows, rows


async def _killed(recipe: Recipe, path: Path, die_at: int, *, before: bool, downtime_s: float) -> None:
    world, catalogue = World(), {recipe.name: recipe}
    doomed = Controller(world, path, die_at=die_at, before=before, catalogue=catalogue)
    with contextlib.suppress(Killed):
        await doomed.runs.start(recipe.name, {}, "anna", "to be killed")
    while not doomed.journal.dead:
        await asyncio.sleep(0.5)
    await doomed.gone()
    await asyncio.sleep(downtime_s)
    second = Controller(world, path, catalogue=catalogue)
    await second.runs.recover()
    if not second.runs.list():  # killed before the run was on record
        assert not any(pump.doses for pump in world.pumps.values())
    else:
        await _to_the_end(second)
        _checked(second)
    await second.gone()


@pytest.mark.long
@pytest.mark.parametrize(("before", "downtime_s"), [(True, 400.0), (False, 3.0)], ids=["before-late", "after-at-once"])
def test_E4_F2_two_branches_killed_at_every_journal_boundary(before: bool, downtime_s: float, tmp_path: Path) -> None:
    made = written(tmp_path)
    rows, _ = run_virtual(_undisturbed(made, tmp_path / "reference.db"))
    for die_at in range(2, rows + before):
        try:
            run_virtual(_killed(made, tmp_path / f"{die_at}.db", die_at, before=before, downtime_s=downtime_s))
        except BaseException as error:
            error.add_note(f"killed {'before' if before else 'after'} row {die_at} of {rows}")
            raise


def test_branches_of_a_recipe_leave_the_journal_of_the_same_python(tmp_path: Path) -> None:
    _, by_yaml = run_virtual(_undisturbed(written(tmp_path), tmp_path / "yaml.db"))
    _, by_python = run_virtual(_undisturbed(recipe(python), tmp_path / "python.db"))
    assert by_yaml == by_python


@pytest.mark.virtual_time
async def test_doses_through_one_vessel_take_turns_and_none_is_refused(tmp_path: Path) -> None:
    async def both(lab: Lab, params: Mapping[str, float]) -> None:
        await lab.together(lab.kidney.draw(12_000.0), lab.liver.add_glucose(1000.0), lab.kidney.mass())

    world = World()
    controller = Controller(world, tmp_path / "j.db")
    await controller.runs.start(recipe(both), {}, "anna", "a test")
    await _to_the_end(controller)
    rows = [row for row in controller.journal.entries() if row.kind in ("step.act", "moved", "step.done")]
    assert [(row.kind, row.body["n"]) for row in rows] == [
        ("step.act", 2),
        ("moved", 2),
        ("step.done", 2),
        ("step.act", 3),
        ("moved", 3),
        ("step.done", 3),
        ("step.done", 4),
        ("step.done", 1),
    ]
    assert not list(controller.journal.entries(kinds=("step.refused", "run.message")))
    mass = rows[6].body["result"]["interval"]["value"]
    assert mass == pytest.approx(world.mass_g, abs=0.1)  # weighed when both doses were over
    await controller.gone()


@pytest.mark.parametrize("command", ["pause", "stop", "abort"])
def test_E2_a_command_at_any_moment_is_for_every_branch(command: str, tmp_path: Path) -> None:
    async def commanded(number: int, at_s: float) -> None:
        world = World()
        controller = Controller(world, tmp_path / f"{number}.db")
        run = await controller.runs.start(written(tmp_path), {}, "anna", "a test")
        await asyncio.sleep(at_s)
        await getattr(controller.runs, command)(run, "anna", "a test")
        wanted = {"pause": RunState.HELD, "stop": RunState.STOPPED, "abort": RunState.ABORTED}[command]
        await controller.until(lambda: only(controller.runs) is wanted, 300.0)
        for device in (*world.pumps.values(), *world.valves.values()):
            status = await device.status()
            assert device is world.pumps["reglo.heart"] or not getattr(status, "running", getattr(status, "on", None))
        rows = controller.journal.rows
        await asyncio.sleep(600.0)
        acts = [row.kind for row in controller.journal.entries(after=rows) if row.kind in ("act", "step", "step.act")]
        assert not acts, "something went on"
        if command == "pause":
            await controller.runs.resume(run, "anna", "go on")
            await _to_the_end(controller)
            _checked(controller)
        await controller.gone()

    for number, at_s in enumerate(range(3, 230, 19)):
        try:
            run_virtual(commanded(number, at_s + 0.3))
        except BaseException as error:
            error.add_note(f"{command} at {at_s} s")
            raise


@pytest.mark.virtual_time
async def test_an_error_in_a_branch_brings_the_other_to_rest_and_holds_the_run(tmp_path: Path) -> None:
    async def faulty(lab: Lab, params: Mapping[str, float]) -> None:
        async def wrong() -> None:
            await lab.sleep(60.0)
            raise ValueError("a slip in the protocol")

        await lab.together(lab.kidney.draw(12_000.0), wrong())

    world = World()
    controller = Controller(world, tmp_path / "j.db")
    run = await controller.runs.start(recipe(faulty), {}, "anna", "a test")
    await controller.until(lambda: only(controller.runs) is RunState.HELD)
    pump = world.pumps["reglo.draw"]
    assert pump.flow_ul_min == 0.0
    assert 1000.0 < pump.moved_ul < 5000.0
    assert "a slip in the protocol" in controller.runs.get(run).messages[-1]
    row = controller.journal.last("moved")
    assert row is not None
    assert row.body["ul"] == pytest.approx(pump.moved_ul, abs=80.0)
    await controller.runs.abort(run, "anna", "it is wrong")
    await controller.until(lambda: only(controller.runs) is RunState.ABORTED)
    await controller.gone()


@pytest.mark.virtual_time
async def test_a_question_in_a_branch_holds_them_all_and_two_are_answered_one_by_one(tmp_path: Path) -> None:
    async def asking(lab: Lab, params: Mapping[str, float]) -> None:
        await lab.together(lab.ask("first"), lab.kidney.draw(6000.0), lab.ask("second"))

    world = World()
    controller = Controller(world, tmp_path / "j.db")
    run = await controller.runs.start(recipe(asking), {}, "anna", "a test")
    for question in ("first", "second"):
        await controller.until(lambda: only(controller.runs) is RunState.HELD)
        assert question in controller.runs.get(run).messages[-1]
        assert world.pumps["reglo.draw"].flow_ul_min == 0.0
        await controller.runs.resume(run, "anna", "done")
        await asyncio.sleep(1.0)
    await _to_the_end(controller)
    world.advance()
    assert world.pumps["reglo.draw"].moved_ul == pytest.approx(6000.0, abs=2.0)
    await controller.gone()


@pytest.mark.virtual_time
async def test_a_verb_of_a_branch_that_is_not_awaited_is_refused_as_ever(tmp_path: Path) -> None:
    async def careless(lab: Lab, params: Mapping[str, float]) -> None:
        async def twice() -> None:
            await asyncio.gather(lab.sleep(10.0), lab.sleep(20.0))

        await lab.together(twice(), lab.sleep(5.0))

    controller = Controller(World(), tmp_path / "j.db")
    run = await controller.runs.start(recipe(careless), {}, "anna", "a test")
    await controller.until(lambda: only(controller.runs) is RunState.HELD)
    assert "another verb was at work" in controller.runs.get(run).messages[-1]
    await controller.gone()


@pytest.mark.virtual_time
async def test_branches_have_names_of_their_own(tmp_path: Path) -> None:
    async def misnamed(lab: Lab, params: Mapping[str, float]) -> None:
        with pytest.raises(ProtocolError, match="its own name"):
            await lab.together(lab.sleep(1.0), lab.sleep(2.0), names=("one", "one"))
        assert await lab.together() == []

    controller = Controller(World(), tmp_path / "j.db")
    await controller.runs.start(recipe(misnamed), {}, "anna", "a test")
    await _to_the_end(controller)
    await controller.gone()


@pytest.mark.virtual_time
async def test_end_in_a_branch_ends_the_recipe_when_the_others_are_through(tmp_path: Path) -> None:
    made = written(
        tmp_path,
        HEAD
        + """steps:
  - together:
      short: [end]
      long: [wait: 60 s, note: {kind: through}]
  - note: {kind: never}
""",
    )
    controller = Controller(World(), tmp_path / "j.db")
    await controller.runs.start(made, {}, "anna", "a test")
    await _to_the_end(controller)
    assert controller.journal.last("note.through") is not None
    assert controller.journal.last("note.never") is None
    await controller.gone()


@pytest.mark.parametrize(
    ("steps", "line", "says"),
    [
        ("  - together:\n      one: [wait: 1 s]\n", 5, "two branches or more"),
        ("  - together\n", 5, "two branches or more"),
        ("  - together:\n      one: [wait: 1 s]\n      Two: [wait: 1 s]\n", 7, "“Two” cannot be a name"),
        ("  - together:\n      one: [wait: 1 s]\n      two: []\n", 7, "there are no steps"),
        (
            "  - together:\n      one:\n        - kidney.mass: m\n      two:\n        - kidney.mass: m\n",
            8,
            "the branches “one” and “two” both save “m”",
        ),
        (
            "  - together:\n      one:\n        - kidney.mass: m\n      two:\n        - note: {kind: x, values: {m: m}}\n",
            9,
            "“m”",
        ),
    ],
)
def test_what_is_wrong_with_branches_is_told_by_line(steps: str, line: int, says: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        written(tmp_path, HEAD + "steps:\n" + steps)
    problem = caught.value.problems[0]
    assert (problem.line, says in str(problem)) == (line, True), str(problem)


@pytest.mark.virtual_time
async def test_a_rehearsal_sees_branches_side_by_side_and_refuses_what_does_not_fit(tmp_path: Path) -> None:
    async def rehearsed(text: str, hours: float = 24.0) -> Rehearsed:
        volumes = {name: Volume(vessel.volume_ul, 50.0) for name, vessel in RIG.vessels.items()}
        made = written(tmp_path, text)
        params = {param.key: param.default for param in made.params}
        return await rehearse(made, RIG, params, volumes=volumes, now=EPOCH, hours=hours)

    out = await rehearsed(YAML)
    assert (out.ended, out.breaches) == (True, [])
    assert Counter(event.verb for event in out.events) == STEPS - Counter({"together": 3})
    begun = [event.begin_s for event in out.events if event.ul]
    moves = sorted((event for event in out.events if event.ul), key=lambda event: event.begin_s)
    assert all(one.end_s <= other.begin_s for one, other in pairwise(moves)), begun
    assert {event.branch for event in out.events} == {"", "feeding", "emptying", "feeding/resting", "feeding/looking"}
    assert out.seconds == max(event.end_s for event in out.events)
    waiting = [event for event in out.events if event.verb == "sleep"]
    assert any(
        one.begin_s < other.end_s and other.begin_s < one.end_s
        for one in waiting
        for other in waiting
        if one is not other
    )

    endless = "steps:\n  - together:\n      one: [wait: 30 h]\n      two: [wait: 1 h, kidney.draw: 1 mL]\n"
    out = await rehearsed(HEAD + endless)
    assert (out.ended, out.breaches) == (False, [])
    assert [event.verb for event in out.events if event.ul] == ["kidney.draw"]  # the other still goes on

    too_much = (
        "steps:\n  - together:\n      one: [wait: 1 h]\n      two: [repeat: {times: 9, steps: [kidney.draw: 15 mL]}]\n"
    )
    out = await rehearsed(HEAD + too_much)
    assert len(out.breaches) == 1
    assert "kidney.draw" in out.breaches[0]


def test_the_plan_and_its_picture_show_each_branch(tmp_path: Path) -> None:
    written(tmp_path)
    picture = tmp_path / "plan.svg"
    found = plan(BENCH, protocol=str(tmp_path / "abreast.yaml"), params={}, hours=0.5, seed=1, svg=picture)
    assert found["feasible"], found["refusals"]
    text = as_text(found)
    assert "together: feeding, emptying" in text
    assert "[feeding] feed: " in text
    assert "[emptying] discard: " in text
    drawn = picture.read_text()
    assert all(lane in drawn for lane in ("feeding: gut.feed", "emptying: kidney.discard", "feeding/looking: measure"))


def test_a_picture_keeps_the_lanes_of_a_branch_together() -> None:
    steps = [
        {"verb": "sleep", "begin_s": 0.0, "end_s": 5.0, "branch": "b"},
        {"verb": "note", "begin_s": 0.0, "end_s": 1.0, "branch": "a"},
        {"verb": "measure", "begin_s": 1.0, "end_s": 2.0, "branch": "b"},
        {"verb": "note", "begin_s": 5.0, "end_s": 6.0},
    ]
    drawn = gantt("a test", steps, span_s=10.0)
    names = [name for name in ("note", "a: note", "b: sleep", "b: measure") if f">{name}</text>" in drawn]
    assert names == ["note", "a: note", "b: sleep", "b: measure"]
    assert [drawn.index(f">{name}</text>") for name in names] == sorted(
        drawn.index(f">{name}</text>") for name in names
    )


async def _started_twice(path: Path) -> None:
    world = World()
    controller = Controller(world, path, catalogue={"python": recipe(python)})
    starts = [controller.runs.start("python", {}, user, "at the same moment") for user in ("anna", "ben")]
    first, second = await asyncio.gather(*starts, return_exceptions=True)
    assert isinstance(first, str)
    assert isinstance(second, RunnerError)
    assert "it was started before" in str(second)
    assert [view.id for view in controller.runs.list()] == [first]
    assert len(list(controller.journal.entries(kinds=("run.start",)))) == 1
    await _to_the_end(controller)
    draw = world.pumps[RIG.lines["draw"].pump or ""]
    assert sum(dose.volume_ul for dose in draw.doses) == pytest.approx(3000.0)
    await controller.gone()


def test_E4_two_starts_at_once_are_one_run(tmp_path: Path) -> None:
    """The rehearsal of branches lets others to the loop, and a second start came between the look and the run."""
    run_virtual(_started_twice(tmp_path / "j.db"))
