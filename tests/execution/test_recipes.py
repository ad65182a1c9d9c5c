"""Recipe files at work: the journal of a Python protocol, policies, nesting, schedules, and a file that is edited."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from controller.core.run_states import RunState
from controller.recipes.catalogue import find
from controller.recipes.file import RecipeError, read_recipe
from controller.runs.runner import RunnerError
from protocols.registry import Recipe
from sim.virtual_time import run_virtual
from tests.execution.protocols_for_tests import ASKED_UL, CATALOGUE
from tests.execution.world import Controller, World

SLOW_S = 600.0
"""Between two looks at the bench where nothing moves for days."""
HEAD = "recipe: 1\nname: mine\ntitle: A test\n"
EVERYTHING = (
    HEAD
    + f"""steps:
  - kidney.draw: {{volume: {ASKED_UL["draw"] / 1000} mL, as: drawn}}
  - liver.ph: {{settle: 10 s, as: ph}}
  - estimate: medium
  - note: {{kind: seen, values: {{ph: ph, lactate: medium.spent.lactate, drawn: drawn}}}}
  - kidney.discard: {ASKED_UL["discard"]} uL
  - gut.feed: {ASKED_UL["feed"]} uL
  - liver.add_glucose: {ASKED_UL["glucose"]} uL
  - liver.add_base: {ASKED_UL["base"]} uL
  - wait: 90 s
  - kidney.give_back: {ASKED_UL["return"] / 1000} mL
"""
)


def recipe_of(folder: Path, body: str, name: str = "mine") -> Recipe:
    path = folder / f"{name}.yaml"
    path.write_text(body if body.startswith("recipe:") else HEAD.replace("mine", name) + body, encoding="utf-8")
    return read_recipe(path, find=find)


async def to_an_end(controller: Controller, run: str, *, within_s: float = 1e7) -> RunState:
    await controller.until(lambda: controller.runs.get(run).state in (*_ENDED, RunState.HELD), within_s)
    return controller.runs.get(run).state


_ENDED = (RunState.COMPLETE, RunState.STOPPED, RunState.ABORTED)


async def ran(controller: Controller, recipe: Recipe, **params: str) -> str:
    run = await controller.runs.start(recipe, params, "anna", "a test")
    await to_an_end(controller, run)
    return run


def notes(controller: Controller, kind: str) -> list[dict[str, Any]]:
    return [dict(entry.body) for entry in controller.journal.entries(kinds=(f"note.{kind}",))]


def test_a_recipe_writes_the_journal_of_the_same_python(tmp_path: Path) -> None:
    async def rows(recipe: Recipe, path: Path) -> list[tuple[Any, ...]]:
        controller = Controller(World(), path)
        run = await ran(controller, recipe)
        assert controller.runs.get(run).state is RunState.COMPLETE
        found = [(row.at_s, row.kind, dict(row.body)) for row in controller.journal.entries()]
        await controller.gone()
        return found

    python = CATALOGUE["everything"]
    by_python = run_virtual(rows(python, tmp_path / "python.db"))
    by_yaml = run_virtual(rows(recipe_of(tmp_path, EVERYTHING), tmp_path / "yaml.db"))
    cut = next(i for i, row in enumerate(by_python) if row[1] == "step" and row[2]["verb"] == "sleep_until")
    differ = [i for i, (one, other) in enumerate(zip(by_python[:cut], by_yaml, strict=False)) if one != other]
    assert [by_python[i][1] for i in differ] == ["run.start"]
    one, other = by_python[differ[0]][2], by_yaml[differ[0]][2]
    assert {key for key in one if one[key] != other[key]} == {"protocol", "source_sha256"}
    assert cut > 50


@pytest.mark.virtual_time
async def test_a_recipe_edited_under_way_is_held_until_the_old_text_is_back(tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path, "steps:\n  - wait: 1 min\n  - gut.feed: 2 mL\n")
    path = tmp_path / "mine.yaml"
    world = World()
    controller = Controller(world, tmp_path / "j.db")
    run = await controller.runs.start(recipe, {}, "anna", "a test")
    await asyncio.sleep(10.0)
    kept = path.read_text()
    path.write_text(kept.replace("2 mL", "9 mL"))
    assert await to_an_end(controller, run) is RunState.HELD
    message = controller.runs.get(run).messages[-1]
    assert "mine.yaml was changed or removed while its run is under way" in message
    assert "put the old text back and resume, or abort the run and start it again" in message
    assert world.pumps["dose_fresh.pump"].doses == []
    await controller.runs.resume(run, "anna", "too early")
    await asyncio.sleep(5.0)
    assert controller.runs.get(run).state is RunState.HELD
    path.write_text(kept)
    await controller.runs.resume(run, "anna", "the old text is back")
    assert await to_an_end(controller, run) is RunState.COMPLETE
    assert world.pumps["dose_fresh.pump"].moved_ul == pytest.approx(2000.0)
    await controller.gone()


@pytest.mark.virtual_time
async def test_E4_a_recipe_of_ones_own_is_taken_up_by_name_and_held_when_it_changed(tmp_path: Path) -> None:
    folder = tmp_path / "recipes"
    folder.mkdir()
    recipe_of(folder, "steps:\n  - gut.feed: 2 mL\n  - wait: 10 min\n  - kidney.discard: 2 mL\n")
    world = World()

    def controller() -> Controller:
        return Controller(world, tmp_path / "j.db", catalogue={}, recipes=folder)

    first = controller()
    assert "mine" in first.runs.catalogue
    run = await first.runs.start("mine", {}, "anna", "a test")
    await asyncio.sleep(120.0)
    await first.gone()
    kept = (folder / "mine.yaml").read_text()
    (folder / "mine.yaml").write_text(kept.replace("10 min", "11 min"))
    second = controller()
    await second.runs.recover()
    assert await to_an_end(second, run) is RunState.HELD
    assert "is not what it was" in second.runs.get(run).messages[-1]
    await second.gone()
    (folder / "mine.yaml").write_text(kept)
    third = controller()
    await third.runs.recover()
    await asyncio.sleep(1.0)
    await third.runs.resume(run, "anna", "the old text is back")
    assert await to_an_end(third, run) is RunState.COMPLETE
    assert [step.verb for step in third.runs.get(run).progress] == ["gut.feed", "sleep", "kidney.discard"]
    assert world.pumps["dose_fresh.pump"].moved_ul == pytest.approx(2000.0)
    await third.gone()


@pytest.mark.virtual_time
async def test_a_rig_without_the_sensor_is_told_before_anything_moves(tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path, "steps:\n  - gut.feed: 2 mL\n  - measure: {point: ph_spnt.ph, as: x}\n")
    controller = Controller(World(), tmp_path / "j.db")
    with pytest.raises(RecipeError, match=r"mine\.yaml:6: measure: the rig has no device “ph_spnt”"):
        await controller.runs.start(recipe, {}, "anna", "a test")
    assert controller.journal.last("run.start") is None
    await controller.gone()


@pytest.mark.virtual_time
@pytest.mark.parametrize(("oxygen", "then"), [(90.0, "high"), (30.0, "low")])
async def test_if_and_set_and_end(oxygen: float, then: str, tmp_path: Path) -> None:
    recipe = recipe_of(
        tmp_path,
        """parameters:
  enough: {default: 50 %, min: 10 %, max: 90 %, help: oxygen}
steps:
  - lung.oxygen: oxygen
  - set: {half: 0.5 * oxygen.low}
  - if:
      condition: oxygen > enough
      then: [{note: {kind: high, values: {oxygen: oxygen, half: half}}}, end]
      else: [{note: {kind: low, values: {oxygen: oxygen}}}]
  - note: {kind: after}
""",
    )
    world = World()
    world.readings["do_loop.oxygen"] = ("%", oxygen)
    controller = Controller(world, tmp_path / "j.db")
    await ran(controller, recipe)
    assert notes(controller, then)[0]["oxygen"] == pytest.approx(oxygen, abs=0.1)
    assert len(notes(controller, "after")) == (then == "low")
    await controller.gone()


@pytest.mark.virtual_time
@pytest.mark.parametrize("policy", ["ask", "go_on", "end"])
async def test_a_missing_reading_follows_the_policy(policy: str, tmp_path: Path) -> None:
    recipe = recipe_of(
        tmp_path,
        f"""policies: {{missing: {policy}}}
steps:
  - lung.oxygen: oxygen
  - if: {{condition: oxygen > 50 %, then: [{{gut.feed: 2 mL}}]}}
  - note: {{kind: after, values: {{oxygen: oxygen}}}}
""",
    )
    world = World()
    del world.readings["do_loop.oxygen"]
    controller = Controller(world, tmp_path / "j.db")
    run = await ran(controller, recipe)
    if policy == "ask":
        assert controller.runs.get(run).state is RunState.HELD
        assert "“oxygen” could not be measured" in controller.runs.get(run).messages[-1]
        await controller.runs.resume(run, "anna", "I looked")
        await controller.until(lambda: controller.runs.get(run).state is RunState.COMPLETE)
    assert controller.runs.get(run).state is RunState.COMPLETE
    assert [note["oxygen"] for note in notes(controller, "after")] == ([] if policy == "end" else [None])
    assert world.pumps["dose_fresh.pump"].doses == []
    await controller.gone()


@pytest.mark.virtual_time
@pytest.mark.parametrize("on_timeout", ["ask", "go_on", "end"])
async def test_wait_until_ends_with_its_condition_or_its_timeout(on_timeout: str, tmp_path: Path) -> None:
    recipe = recipe_of(
        tmp_path,
        f"""steps:
  - wait_until: {{read: lung.oxygen, until: value > 80 %, every: 1 min, timeout: 30 min, on_timeout: {on_timeout}}}
  - note: {{kind: after}}
""",
    )
    world = World()
    world.readings["do_loop.oxygen"] = ("%", 40.0)
    controller = Controller(world, tmp_path / "j.db")
    run = await controller.runs.start(recipe, {}, "anna", "a test")
    if on_timeout == "go_on":  # it comes true in time
        await asyncio.sleep(600.0)
        world.readings["do_loop.oxygen"] = ("%", 85.0)
        assert await to_an_end(controller, run) is RunState.COMPLETE
        assert 600.0 < world.loop.time() < 720.0
    else:
        state = await to_an_end(controller, run)
        assert state is (RunState.HELD if on_timeout == "ask" else RunState.COMPLETE)
        assert 1700.0 < world.loop.time() < 2600.0
    assert len(notes(controller, "after")) == (on_timeout == "go_on")
    await controller.gone()


@pytest.mark.virtual_time
async def test_a_recipe_calls_others_with_their_own_names_and_limits(tmp_path: Path) -> None:
    recipe_of(
        tmp_path,
        """parameters:
  volume: {default: 1 mL, min: 0.6 mL, max: 3 mL, help: fresh}
steps:
  - gut.feed: {volume: volume, as: fed}
  - note: {kind: inner, values: {volume: volume}}
  - end
  - note: {kind: never}
""",
        "inner",
    )
    outer = recipe_of(
        tmp_path,
        """parameters:
  volume: {default: 2 mL, min: 1 mL, max: 9 mL, help: fresh}
steps:
  - call: {recipe: inner.yaml, with: {volume: volume}}
  - call: inner.yaml
  - call: {recipe: exchange, with: {volume: 4 mL, cycles: 1}}
  - note: {kind: outer, values: {volume: volume}}
""",
    )
    world = World()
    controller = Controller(world, tmp_path / "j.db")
    run = await ran(controller, outer)
    assert controller.runs.get(run).state is RunState.COMPLETE
    assert [note["volume"] for note in notes(controller, "inner")] == [2000.0, 1000.0]
    assert notes(controller, "outer")[0]["volume"] == 2000.0
    assert len(notes(controller, "exchange")) == 1
    assert notes(controller, "never") == []
    with pytest.raises(RunnerError, match="volume = 8000 uL is out of range"):
        await ran(controller, outer, volume="8 mL")  # more than the inner one takes
    await controller.gone()


@pytest.mark.virtual_time
async def test_every_six_hours_and_what_is_missed_is_left_out(tmp_path: Path) -> None:
    recipe = recipe_of(
        tmp_path,
        """steps:
  - wait: 1 h
  - repeat:
      times: 5
      every: 6 h
      count: turn
      steps:
        - note: {kind: turn}
""",
    )
    world = World()
    controller = Controller(world, tmp_path / "j.db", tick_s=SLOW_S)
    run = await controller.runs.start(recipe, {}, "anna", "a test")
    await asyncio.sleep(8 * 3600.0)
    await controller.runs.pause(run, "anna", "away")
    await asyncio.sleep(14 * 3600.0)  # the turns at 13 h and 19 h pass
    await controller.runs.resume(run, "anna", "back")
    await controller.until(lambda: controller.runs.get(run).state.ended, 1e6)
    at_h = [round(entry.at_s / 3600.0, 1) for entry in controller.journal.entries(kinds=("note.turn",))]
    assert at_h == [1.0, 7.0, 25.0, 31.0, 37.0]
    await controller.gone()


@pytest.mark.virtual_time
@pytest.mark.parametrize("step_h", [-1.0, 1.0])
async def test_E7_every_six_hours_is_six_hours_whatever_the_clock_does(step_h: float, tmp_path: Path) -> None:
    """The clock steps after the first turn, through both changes of daylight saving and over a restart."""
    folder = tmp_path / "recipes"
    folder.mkdir()
    recipe_of(folder, "steps: [repeat: {times: 6, every: 6 h, steps: [note: {kind: turn}]}]\n")
    for number, day in enumerate((87, 297)):  # 2026-03-29 and 2026-10-25, when Europe's clocks change
        world = World()
        world.clock_step_s = day * 86_400.0 - 9 * 3600.0 - world.loop.time()
        path = tmp_path / f"{number}.db"
        begun_s = world.loop.time()
        first = Controller(world, path, catalogue={}, recipes=folder, tick_s=SLOW_S)
        run = await first.runs.start("mine", {}, "anna", "a test")
        await asyncio.sleep(3600.0)
        world.clock_step_s += step_h * 3600.0
        while len(notes(first, "turn")) < 3:
            await asyncio.sleep(SLOW_S)
        at_h = [(row.at_s - begun_s) / 3600.0 for row in first.journal.entries(kinds=("note.turn",))]
        assert at_h == pytest.approx([0.0, 6.0, 12.0], abs=0.01)
        await first.gone()
        await asyncio.sleep(600.0)
        second = Controller(world, path, catalogue={}, recipes=folder, tick_s=SLOW_S)
        await second.runs.recover()
        while not second.runs.get(run).state.ended:
            await asyncio.sleep(SLOW_S)
        rows = list(second.journal.entries(run=run, kinds=("note.turn",)))
        apart_h = [(later.at_s - sooner.at_s) / 3600.0 for sooner, later in pairwise(rows)]
        assert len(rows) == 6
        # Only UTC ran through the restart, from the last row before it: the step was long before that.
        assert apart_h[2:] == pytest.approx([6.0] * 3, abs=0.01)
        await second.gone()


def daily(folder: Path, at: str = "09:00", zone: str = "Europe/Berlin", times: int = 4) -> Recipe:
    return recipe_of(
        folder,
        f"""steps:
  - repeat:
      times: {times}
      daily_at: "{at}"
      zone: {zone}
      steps:
        - note: {{kind: turn}}
""",
    )


async def turns_at(controller: Controller, run: str) -> list[str]:
    await controller.until(lambda: controller.runs.get(run).state.ended, 1e7)
    return [entry.utc[:16] for entry in controller.journal.entries(run=run, kinds=("note.turn",))]


@pytest.mark.virtual_time
async def test_E7_daily_at_nine_through_daylight_saving(tmp_path: Path) -> None:
    world = World()
    world.clock_step_s = 86 * 86_400.0 + 12 * 3600.0  # 2026-03-28T12:00Z; the clocks go forward on the 29th
    controller = Controller(world, tmp_path / "j.db", tick_s=SLOW_S)
    run = await controller.runs.start(daily(tmp_path), {}, "anna", "a test")
    assert await turns_at(controller, run) == [f"2026-03-{day}T07:00" for day in (29, 30, 31)] + ["2026-04-01T07:00"]
    await controller.gone()


@pytest.mark.virtual_time
async def test_E7_a_time_that_comes_twice_or_never_is_kept_once(tmp_path: Path) -> None:
    for days, expected in (
        (86.5, ["2026-03-29T01:30", "2026-03-30T00:30"]),  # 02:30 is left out: 03:30 CEST
        (296.5, ["2026-10-25T00:30", "2026-10-26T01:30"]),  # 02:30 comes twice: the first counts
    ):
        world = World()
        world.clock_step_s = days * 86_400.0 - world.loop.time()
        controller = Controller(world, tmp_path / f"{days}.db", tick_s=SLOW_S)
        run = await controller.runs.start(daily(tmp_path, "02:30", times=2), {}, "anna", "a test")
        assert await turns_at(controller, run) == expected
        await controller.gone()


@pytest.mark.virtual_time
@pytest.mark.parametrize("step_h", [-1.0, 1.0, 23.9, -30.0, 24.0 * 30])
async def test_E7_a_clock_that_steps_gives_no_turn_twice_and_none_too_late(step_h: float, tmp_path: Path) -> None:
    """The clock steps right after the first turn, and back after the second: four turns, 11 to 37 h apart."""
    world = World()
    controller = Controller(world, tmp_path / "j.db", tick_s=SLOW_S)
    run = await controller.runs.start(daily(tmp_path, zone="UTC"), {}, "anna", "a test")
    for step_s in (step_h * 3600.0, -step_h * 3600.0):
        turns_before = len(notes(controller, "turn"))
        while len(notes(controller, "turn")) == turns_before:
            await asyncio.sleep(60.0)
        world.clock_step_s += step_s
    await controller.until(lambda: controller.runs.get(run).state.ended, 1e7)
    turns = [entry.at_s for entry in controller.journal.entries(run=run, kinds=("note.turn",))]
    apart_h = [(later - sooner) / 3600.0 for sooner, later in pairwise(turns)]
    assert len(turns) == 4
    assert min(apart_h) >= 11.0, apart_h
    assert max(apart_h) <= 37.0, apart_h
    await controller.gone()


@pytest.mark.virtual_time
async def test_E4_E7_a_restart_between_two_days_keeps_the_hour(tmp_path: Path) -> None:
    folder = tmp_path / "recipes"
    folder.mkdir()
    daily(folder, zone="UTC", times=3)
    world = World()
    first = Controller(world, tmp_path / "j.db", catalogue={}, recipes=folder, tick_s=SLOW_S)
    run = await first.runs.start("mine", {}, "anna", "a test")
    await asyncio.sleep(20 * 3600.0)
    await first.gone()
    await asyncio.sleep(3 * 3600.0)
    second = Controller(world, tmp_path / "j.db", catalogue={}, recipes=folder, tick_s=SLOW_S)
    await second.runs.recover()
    assert await turns_at(second, run) == [f"2026-01-0{day}T09:00" for day in (1, 2, 3)]
    await second.gone()


@pytest.mark.virtual_time
async def test_a_recipe_that_only_reckons_does_not_stop_the_controller(tmp_path: Path) -> None:
    recipe = recipe_of(
        tmp_path,
        "steps:\n  - set: {n: 0}\n  - repeat: {times: 100000000, steps: [set: {n: n + 1}]}\n  - gut.feed: 1 mL\n",
    )
    controller = Controller(World(), tmp_path / "j.db")
    with pytest.raises(RunnerError, match="without a reading or a wait"):
        await controller.runs.start(recipe, {}, "anna", "a test")
    await controller.gone()


@pytest.mark.virtual_time
async def test_what_is_made_of_a_missing_value_is_missing_too(tmp_path: Path) -> None:
    recipe = recipe_of(
        tmp_path,
        """policies: {missing: go_on}
steps:
  - lung.oxygen: oxygen
  - set: {level: oxygen}
  - if: {condition: level < 40 %, then: [{gut.feed: 2 mL}]}
  - note: {kind: after, values: {level: level}}
""",
    )
    world = World()
    del world.readings["do_loop.oxygen"]
    controller = Controller(world, tmp_path / "j.db")
    run = await ran(controller, recipe)
    assert controller.runs.get(run).state is RunState.COMPLETE
    assert world.pumps["dose_fresh.pump"].doses == []
    assert notes(controller, "after")[0]["level"] is None
    await controller.gone()


@pytest.mark.virtual_time
async def test_grades_and_conditions_can_be_named(tmp_path: Path) -> None:
    recipe = recipe_of(
        tmp_path,
        """steps:
  - grade: {settle: 1 s, as: verdict}
  - set: {before: verdict, full: loop.volume > 30 mL}
  - if: {condition: before == verdict and full, then: [{note: {kind: same, values: {before: before, full: full}}}]}
""",
    )
    controller = Controller(World(), tmp_path / "j.db")
    run = await ran(controller, recipe)
    assert controller.runs.get(run).state is RunState.COMPLETE
    grade = controller.journal.last("note.grade")
    assert grade is not None
    assert [(note["before"], note["full"]) for note in notes(controller, "same")] == [(grade.body["grade"], True)]
    await controller.gone()


@pytest.mark.virtual_time
@pytest.mark.parametrize("policy", ["ask", "go_on", "end"])
async def test_a_wait_for_what_a_missing_value_decides_follows_the_policy(policy: str, tmp_path: Path) -> None:
    recipe = recipe_of(
        tmp_path,
        f"""policies: {{missing: {policy}, timeout: go_on}}
steps:
  - liver.ph: batch
  - wait_until: {{read: lung.ph, until: value > batch - 0.1, every: 1 min, timeout: 10 min}}
  - note: {{kind: after}}
""",
    )
    world = World()
    del world.readings["ph_spent.ph"]
    controller = Controller(world, tmp_path / "j.db")
    run = await ran(controller, recipe)
    asked = 0
    while controller.runs.get(run).state is RunState.HELD:
        asked += 1
        assert "“batch” could not be measured" in controller.runs.get(run).messages[-1]
        await controller.runs.resume(run, "anna", "I looked")
        await to_an_end(controller, run)
    assert controller.runs.get(run).state is RunState.COMPLETE
    assert asked == (policy == "ask")
    assert len(notes(controller, "after")) == (policy != "end")
    await controller.gone()


@pytest.mark.virtual_time
async def test_a_dose_that_is_too_small_asks_and_then_moves_nothing(tmp_path: Path) -> None:
    recipe = recipe_of(
        tmp_path,
        """policies: {small_dose: hold}
steps:
  - gut.feed: {volume: 0.001 * loop.volume, as: fed}
  - note: {kind: after, values: {fed: fed}}
""",
    )
    world = World()
    controller = Controller(world, tmp_path / "j.db")
    run = await ran(controller, recipe)
    assert controller.runs.get(run).state is RunState.HELD
    assert "less than the 500 µL that its pump gives" in controller.runs.get(run).messages[-1]
    await controller.runs.resume(run, "anna", "I see")
    await to_an_end(controller, run)
    assert controller.runs.get(run).state is RunState.COMPLETE
    assert notes(controller, "after")[0]["fed"] == 0.0
    assert world.pumps["dose_fresh.pump"].doses == []
    await controller.gone()


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("times", "turns"), [("time / every", 0), ('"max(1, time / every)"', 1), ("1.25 * time / every", 1)]
)
async def test_times_that_are_worked_out_never_mean_for_ever(times: str, turns: int, tmp_path: Path) -> None:
    recipe = recipe_of(
        tmp_path,
        f"""parameters:
  time: {{default: 2 h, min: 1 h, max: 9 h, help: in all}}
  every: {{default: 5 h, min: 1 h, max: 9 h, help: between}}
steps:
  - repeat: {{times: {times}, every: every, steps: [note: {{kind: turn}}]}}
""",
    )
    controller = Controller(World(), tmp_path / "j.db", tick_s=SLOW_S)
    run = await controller.runs.start(recipe, {}, "anna", "a test")
    assert await to_an_end(controller, run, within_s=86_400.0) is RunState.COMPLETE
    assert len(notes(controller, "turn")) == turns
    await controller.gone()
