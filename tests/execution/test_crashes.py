"""Kill −9 at every journal boundary: no double dose, no lost step, the ledger still true (E4, F1, F2)."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from controller.core.run_states import RunState
from sim.virtual_time import run_virtual
from tests.execution.protocols_for_tests import ASKED_UL, CATALOGUE
from tests.execution.world import Controller, Killed, World

LINES = {"draw": 50.0, "return": 50.0, "discard": 50.0, "feed": 500.0, "glucose": 500.0, "base": 500.0}
"""By line: the least its pump gives; as much may be missing when a dose was cut short."""


async def _to_the_end(controller: Controller) -> RunState:
    await controller.until(lambda: bool(controller.runs.list()) and controller.runs.list()[0].state.ended)
    return controller.runs.list()[0].state


async def _undisturbed(path: Path) -> int:
    world = World()
    controller = Controller(world, path, catalogue=CATALOGUE)
    await controller.runs.start("everything", {}, "anna", "reference")
    assert await _to_the_end(controller) is RunState.COMPLETE
    rows = controller.journal.rows
    await controller.gone()
    return rows


async def _killed(path: Path, die_at: int | None, *, before: bool, downtime_s: float, at_s: float = 1e9) -> None:
    world = World()
    doomed = Controller(world, path, die_at=die_at, before=before, durable=False, catalogue=CATALOGUE)
    with contextlib.suppress(Killed):
        await doomed.runs.start("everything", {}, "anna", "to be killed")
    while not doomed.journal.dead and world.loop.time() < at_s:
        await asyncio.sleep(0.5)
    await doomed.gone()
    await asyncio.sleep(downtime_s)
    second = Controller(world, path, catalogue=CATALOGUE)
    await second.runs.recover()
    if not second.runs.list():  # killed before the run was on record: nothing was begun
        assert not any(pump.doses for pump in world.pumps.values())
        await second.gone()
        return
    assert await _to_the_end(second) is RunState.COMPLETE, second.runs.list()
    world.advance()
    for line, min_ul in LINES.items():
        pump = world.pumps[world.rig.lines[line].pump or ""]
        moved_ul, asked_ul = pump.moved_ul, ASKED_UL[line]
        assert moved_ul <= asked_ul + 1.0, f"{line}: {moved_ul} µL moved, {asked_ul} asked: a double dose"
        assert moved_ul >= asked_ul - min_ul - 150.0, f"{line}: {moved_ul} of {asked_ul} µL: a lost one"
        assert len({dose.dose_id for dose in pump.doses}) == len(pump.doses)
    for name, volume in second.ledger.volumes().items():
        if name != "loop":
            assert abs(volume.ul - world.volumes[name]) <= 4 * volume.sd_ul + 20, name
    evaporation_ul = 100.0
    assert abs(second.ledger.volumes()["loop"].ul - world.volumes["loop"]) < 300.0 + evaporation_ul
    view = second.runs.list()[0]
    assert [step.verb for step in view.progress] == [
        "kidney.draw",
        "measure",
        "estimate",
        "note",
        "kidney.discard",
        "gut.feed",
        "liver.add_glucose",
        "liver.add_base",
        "sleep",
        "kidney.give_back",
        "sleep_until",
    ]
    assert len(list(second.journal.entries(kinds=("note.seen",)))) == 1
    assert not world.valves["relay.return_valve"].on
    second.journal.verify()
    await second.gone()


@pytest.mark.long
@pytest.mark.parametrize(("before", "downtime_s"), [(True, 600.0), (False, 3.0)], ids=["before-late", "after-at-once"])
def test_E4_F2_killed_at_every_journal_boundary(before: bool, downtime_s: float, tmp_path: Path) -> None:
    rows = run_virtual(_undisturbed(tmp_path / "reference.db"))
    assert rows > 50
    for die_at in range(2, rows + before):  # after the last row nothing is left to kill
        try:
            run_virtual(_killed(tmp_path / f"{die_at}.db", die_at, before=before, downtime_s=downtime_s))
        except BaseException as error:
            error.add_note(f"killed {'before' if before else 'after'} row {die_at} of {rows}")
            raise


@pytest.mark.parametrize("downtime_s", [2.0, 45.0])
def test_E4_killed_at_any_moment_of_a_transfer(downtime_s: float, tmp_path: Path) -> None:
    for number, at_s in enumerate(range(7, 560, 23)):
        try:
            run_virtual(_killed(tmp_path / f"{number}.db", None, before=False, downtime_s=downtime_s, at_s=at_s + 0.3))
        except BaseException as error:
            error.add_note(f"killed at {at_s} s")
            raise
