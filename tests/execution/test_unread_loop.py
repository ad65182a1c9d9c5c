"""A loop whose level is not read: its uncertainty grows, draws become smaller, and an alarm is raised in time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from controller.core.run_states import RunState
from controller.rig.description import required
from controller.safety.kernel import SIGMAS
from controller.upkeep.upkeep import Upkeep
from protocols.registry import PROTOCOLS
from tests.execution.world import RIG, Controller, World

DAY_S = 86_400.0
LEVEL_DUE = ("level_due", required(RIG.organs.lung, "organs.lung").vessel)


def kept(controller: Controller, data: Path) -> Upkeep:
    return Upkeep(RIG, journal=controller.journal, clock=controller.clock, data=data, volumes=controller.ledger.volumes)


@pytest.mark.virtual_time
@pytest.mark.parametrize("days", [33, 56, 75])
@pytest.mark.parametrize(("name", "params"), [("exchange", {}), ("recycle", {"min_batch": 18_000.0})])
async def test_I4_a_batch_long_after_the_last_reading_is_smaller_and_given_back(
    name: str, params: dict[str, float], days: int, tmp_path: Path
) -> None:
    """On the 55th day a rig whose level was never read once stopped: the return was refused, since the loop might overflow,
    and the run waited while the tissue starved.
    """
    world = World()
    controller = Controller(world, tmp_path / "j.db", catalogue=PROTOCOLS)
    controller.ledger._books.advance(days * DAY_S)
    world.volumes["loop"] -= days * 100.0
    await asyncio.sleep(5.0)
    loop = controller.ledger.volumes()["loop"]
    assert loop.ul - SIGMAS * loop.sd_ul - 20_000.0 < RIG.vessels["loop"].floor_ul, "20 mL would be refused"
    run = await controller.runs.start(name, {"cycles": 1, **params}, "anna", "a test")
    await controller.until(lambda: controller.runs.get(run).state.ended or bool(controller.runs.get(run).messages))
    assert controller.runs.get(run).state is RunState.COMPLETE, controller.runs.get(run).messages
    note = controller.journal.last(f"note.{name}")
    assert note is not None
    assert 3_000.0 < note.body["drawn_ul"] < 19_000.0
    assert note.body["given_back_ul"] > 1_000.0
    assert LEVEL_DUE in kept(controller, tmp_path).causes
    await controller.gone()


@pytest.mark.virtual_time
async def test_a_person_is_told_days_before_draws_become_smaller_and_a_reading_ends_it(tmp_path: Path) -> None:
    controller = Controller(World(), tmp_path / "j.db", catalogue=PROTOCOLS)
    assert LEVEL_DUE not in kept(controller, tmp_path).causes
    days = 0
    while LEVEL_DUE not in kept(controller, tmp_path).causes:
        controller.ledger._books.advance(DAY_S)
        days += 1
    assert 7 <= days <= 14
    loop = controller.ledger.volumes()["loop"]
    full_ul = RIG.vessels["loop"].volume_ul  # every exchange fills it up again, by the books
    assert full_ul - SIGMAS * loop.sd_ul - 20_000.0 > RIG.vessels["loop"].floor_ul + 7 * 180.0, "a week is left"
    controller.ledger.level("loop", loop.ul - 200.0, 200.0, user="anna", reason="the day's round")
    assert LEVEL_DUE not in kept(controller, tmp_path).causes
    await controller.gone()
