"""What is done every so often: begun late, after an absence, by a clock that was wrong: neither in a burst nor not at all."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest

from controller.core.run_states import RunState
from protocols.registry import PROTOCOLS
from tests.execution.test_recipes import recipe_of
from tests.execution.world import BENCH, Controller, World
from tests.protocols.in_process import load

EVERY_H = 4.0
EVERY = f"{EVERY_H:g} h"
AWAY_H = 18.0
CATALOGUE = {
    **PROTOCOLS,
    "gentle-exchange": load(BENCH.parents[1] / "protocols" / "gentle_exchange.py"),
}
KINDS = {"exchange": "note.exchange", "gentle-exchange": "note.replaced", "recycle": "note.recycle"}


def turns_h(controller: Controller, protocol: str) -> list[float]:
    """When its turns were through, in hours of the world's own time."""
    return [entry.at_s / 3600.0 for entry in controller.journal.entries(kinds=(KINDS[protocol],))]


async def until_turns(controller: Controller, protocol: str, count: int) -> None:
    """Until it has had so many turns; while it waits for the next one, the bench is looked at rarely."""
    deadline_s = controller.world.loop.time() + 86_400.0
    while len(turns_h(controller, protocol)) < count:
        view = controller.runs.list()[0]
        assert view.state in (RunState.RUNNING, RunState.RESTARTING), view.messages
        assert controller.world.loop.time() < deadline_s, view.progress[-1:]
        waiting = bool(view.progress) and view.progress[-1].verb in ("sleep", "sleep_until")
        controller.tick_s = 30.0 if waiting else 1.0
        await asyncio.sleep(30.0)


def gaps_hold(turns: list[float]) -> None:
    gaps = [later - sooner for sooner, later in pairwise(turns)]
    assert min(gaps) >= 0.5 * EVERY_H, turns
    assert max(gaps) <= 1.5 * EVERY_H, turns


@pytest.mark.virtual_time
@pytest.mark.parametrize("protocol", ["exchange", "recycle"])
async def test_what_is_called_late_in_a_run_has_missed_nothing(protocol: str, tmp_path: Path) -> None:
    recipe = recipe_of(
        tmp_path,
        f"steps:\n  - wait: 2 d\n  - call: {{recipe: {protocol}, with: {{every: {EVERY}, cycles: 3}}}}\n",
    )
    world = World()
    controller = Controller(world, tmp_path / "j.db", tick_s=600.0, rehearsing=False)
    await controller.runs.start(recipe, {}, "anna", "a test")
    await asyncio.sleep(2 * 86_400.0 - 1200.0)
    await until_turns(controller, protocol, 3)
    turns = turns_h(controller, protocol)
    assert len(turns) == 3
    assert 48.0 <= turns[0] < 49.0
    gaps_hold(turns)
    await controller.gone()


async def taken_up(world: World, path: Path, protocol: str, *, away_h: float, wrong_h: float) -> tuple[Controller, int]:
    """A run that has had two turns, and the controller that takes it up `away_h` later by a clock that is `wrong_h` off."""
    first = Controller(world, path, catalogue=CATALOGUE)
    await first.runs.start(protocol, {"every": EVERY}, "anna", "a test")
    await until_turns(first, protocol, 2)
    await asyncio.sleep(1800.0)
    await first.gone()
    await asyncio.sleep(away_h * 3600.0)
    world.clock_step_s += wrong_h * 3600.0
    second = Controller(world, path, catalogue=CATALOGUE)
    await second.runs.recover()
    return second, 2


@pytest.mark.virtual_time
@pytest.mark.parametrize("protocol", ["exchange", "gentle-exchange"])
@pytest.mark.parametrize(("away_h", "wrong_h"), [(AWAY_H, 0.0), (0.1, 5 * 24.0)], ids=["away", "clock ahead"])
async def test_E7_after_an_absence_there_is_one_turn_soon_and_no_burst(
    protocol: str, away_h: float, wrong_h: float, tmp_path: Path
) -> None:
    world = World()
    second, before = await taken_up(world, tmp_path / "j.db", protocol, away_h=away_h, wrong_h=wrong_h)
    back_h = world.loop.time() / 3600.0
    await until_turns(second, protocol, before + 3)
    turns = turns_h(second, protocol)[before:]
    assert turns[0] - back_h <= 0.5 * EVERY_H + 0.5
    gaps_hold(turns)
    await second.gone()


@pytest.mark.virtual_time
async def test_E7_a_clock_that_was_set_back_stretches_nothing(tmp_path: Path) -> None:
    """Its battery is dead: it comes back a month behind, and the network's time corrects it after ten minutes."""
    world, protocol = World(), "exchange"
    second, _ = await taken_up(world, tmp_path / "j.db", protocol, away_h=0.1, wrong_h=-30 * 24.0)
    await asyncio.sleep(600.0)
    world.clock_step_s = 0.0
    await until_turns(second, protocol, 5)
    gaps_hold(turns_h(second, protocol))
    await second.gone()
    # What was written in those ten minutes is no puzzle to the next one.
    third = Controller(world, tmp_path / "j.db", catalogue=CATALOGUE)
    await third.runs.recover()
    await until_turns(third, protocol, 7)
    gaps_hold(turns_h(third, protocol))
    await third.gone()
