"""`gut.flush`, a verb that is one record: requested equals delivered, through crashes, a rehearsal and a recipe."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from controller.core.run_states import RunState
from controller.core.state import Volume
from controller.recipes.file import RecipeError, read_recipe
from controller.recipes.on_rig import check_on
from controller.rig.description import required
from controller.runs.paper import Rehearsed
from controller.runs.rehearsal import rehearse
from controller.transfers.delivery import tolerance
from controller.transfers.routes import Trust, routes_of
from protocols.language import Lab
from protocols.organs import Gut, Kidney
from protocols.registry import Recipe
from tests.execution.protocols_for_tests import recipe
from tests.execution.world import RIG, Controller, World

FLUSH_UL = 3000.0


async def a_flush(lab: Lab, params: Mapping[str, float]) -> None:
    flushed = await lab.gut.flush(FLUSH_UL)
    await lab.kidney.discard(flushed.ul)


CATALOGUE = {"a_flush": recipe(a_flush)}


async def flushed(path: Path, killed_at_s: float | None) -> tuple[World, Controller]:
    """A run of it, with the controller killed and started again on the way."""
    world = World()
    controller = Controller(world, path, catalogue=CATALOGUE)
    await controller.runs.start("a_flush", {}, "anna", "a test")
    if killed_at_s is not None:
        await asyncio.sleep(killed_at_s)
        await controller.gone()
        await asyncio.sleep(5.0)
        controller = Controller(world, path, catalogue=CATALOGUE)
        await controller.runs.recover()
    await controller.until(lambda: controller.runs.list()[0].state.ended)
    return world, controller


@pytest.mark.virtual_time
@pytest.mark.parametrize("killed_at_s", [None, 8.0, 15.0, 24.0, 33.0, 48.0])
async def test_delivered_equals_requested_and_the_books_know(killed_at_s: float | None, tmp_path: Path) -> None:
    world, controller = await flushed(tmp_path / "j.db", killed_at_s)
    assert controller.runs.list()[0].state is RunState.COMPLETE
    assert world.pumps["dose_fresh.pump"].moved_ul == pytest.approx(FLUSH_UL, abs=1.0)
    assert world.pumps["reglo.discard"].moved_ul == pytest.approx(FLUSH_UL, rel=0.03)
    steps = [entry.body for entry in controller.journal.entries(kinds=("step",))]
    assert [(step["verb"], step["policy"]) for step in steps] == [("gut.flush", "resume"), ("kidney.discard", "resume")]
    for name, volume in controller.ledger.volumes().items():
        if name != "loop":  # from which water goes
            assert abs(volume.ul - world.volumes[name]) <= 4 * volume.sd_ul + 20, name
    controller.journal.verify()
    await controller.gone()


@pytest.mark.virtual_time
async def test_a_pause_gives_the_rest_on_resume(tmp_path: Path) -> None:
    world = World()
    controller = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    run = await controller.runs.start("a_flush", {}, "anna", "a test")
    await asyncio.sleep(10.0)
    await controller.runs.pause(run, "anna", "look")
    await controller.until(lambda: controller.runs.get(run).state is RunState.HELD)
    assert 0.0 < world.pumps["dose_fresh.pump"].moved_ul < FLUSH_UL
    await controller.runs.resume(run, "anna", "go on")
    await controller.until(lambda: controller.runs.get(run).state.ended)
    moved_ul = world.pumps["dose_fresh.pump"].moved_ul
    assert moved_ul == pytest.approx(FLUSH_UL, abs=stated_ul())
    await controller.gone()


def stated_ul() -> float:
    """The stated uncertainty of the dose (k = 3)."""
    route = routes_of(RIG)[Gut.flush.name]
    limits = tolerance(route, Trust(1.0, route.rel_sd, route.dose_sd_ul, "factory"), FLUSH_UL)
    return limits.pump_ul + limits.weighing_ul


def rehearsed(of: Recipe, reservoir_ul: float) -> Rehearsed:
    volumes = {name: Volume(vessel.volume_ul, 10.0) for name, vessel in RIG.vessels.items()}
    volumes["reservoir"] = Volume(reservoir_ul, 10.0)
    return asyncio.run(rehearse(of, RIG, {}, volumes=volumes, now=datetime(2026, 1, 1, tzinfo=UTC)))


def test_a_rehearsal_moves_it_and_refuses_what_the_bottle_has_not() -> None:
    course = rehearsed(CATALOGUE["a_flush"], 500_000.0)
    assert course.breaches == []
    assert [(event.verb, event.ul, event.line) for event in course.events] == [
        (Gut.flush.name, FLUSH_UL, required(RIG.organs.gut, "organs.gut").feed),
        (Kidney.discard.name, FLUSH_UL, required(RIG.organs.kidney, "organs.kidney").discard),
    ]
    assert "“reservoir” could fall to" in rehearsed(CATALOGUE["a_flush"], 11_000.0).breaches[0]


def test_a_recipe_flushes(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    head = "recipe: 1\nname: mine\ntitle: A test\nsteps:\n"
    path.write_text(
        f"{head}  - gut.flush: {{volume: 3 mL, as: flushed}}\n  - kidney.discard: flushed\n", encoding="utf-8"
    )
    sound = read_recipe(path)
    check_on(sound, RIG, {})
    assert [event.verb for event in rehearsed(sound, 500_000.0).events] == ["gut.flush", "kidney.discard"]
    path.write_text(f"{head}  - gut.flush: 20 uL\n", encoding="utf-8")
    with pytest.raises(RecipeError, match=r"20 uL is less than its pump gives. Write at least 500 uL"):
        check_on(read_recipe(path), RIG, {})


def test_verbs_of_one_line_have_one_route() -> None:
    """What a line's dose was begun for does not matter when it is looked into after a crash."""
    routes = routes_of(RIG)
    assert routes[Gut.flush.name] == routes[Gut.feed.name]
    by_line = {route.line: route for route in routes.values()}
    assert all(by_line[route.line] == route for route in routes.values())
