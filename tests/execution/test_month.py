"""The month's recipe, in YAML and in Python: every half-change at 09:00 local time over daylight saving, a kill in a dose."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from controller.attachments.store import Attachment
from controller.core.run_states import RunState
from controller.recipes.catalogue import of_file
from protocols.registry import Recipe
from sim.virtual_time import run_virtual
from tests.execution.test_recipes import SLOW_S, notes
from tests.execution.world import BENCH, EPOCH, Controller, World
from tests.protocols.in_process import load

EXAMPLES = BENCH.parents[1] / "protocols"
BEGIN = datetime(2026, 3, 12, 12, tzinfo=UTC)
CHANGES = [
    *("2026-03-13", "2026-03-16", "2026-03-18", "2026-03-20", "2026-03-23", "2026-03-25", "2026-03-27"),
    *("2026-03-30", "2026-04-01", "2026-04-03", "2026-04-06", "2026-04-08", "2026-04-10"),
]
MONDAYS = ["2026-03-16", "2026-03-23", "2026-03-30", "2026-04-06", "2026-04-13"]
KILLED_AT = 6
FAST_S = 1.0
"""Time between two looks of the controller while medium moves."""
PHOTO = Attachment("0" * 64, "chamber.jpg", "image/jpeg", 1000)


async def tended(controller: Controller, run: str, *, until_change: int = 0) -> None:
    """Answer each question after a quarter of an hour; return at the end, or in the draw of a half-change."""
    pump = controller.world.pumps["reglo.draw"]
    for _ in range(10_000):
        if controller.runs.get(run).state.ended:
            return
        view = controller.runs.get(run)
        question = view.question
        assert view.state is not RunState.HELD or question is not None, view.messages[-1]
        if view.state is not RunState.HELD or question is None:
            controller.tick_s = SLOW_S  # days without a dose
            await asyncio.sleep(SLOW_S)
            continue
        assert question.answer is not None, view.messages
        controller.tick_s = FAST_S
        await asyncio.sleep(1.5 * SLOW_S)
        if question.answer.kind == "assay":
            await controller.runs.answer(run, "4 mM", "anna", "by kit", step=question.n, sure=True)
            continue
        change = int(question.message.rpartition(" ")[2])
        await controller.runs.answer(run, PHOTO, "anna", "", step=question.n)
        if change == until_change:
            await controller.until(lambda: pump.flow_ul_min > 0.0, 600.0)
            return
        await controller.until(lambda done=change: len(notes(controller, "change")) >= done, 7_200.0)  # type: ignore[misc]
    raise AssertionError("the month does not end")


def recipe_of(name: str) -> Recipe:
    return load(EXAMPLES / name) if name.endswith(".py") else of_file(EXAMPLES / name)


@pytest.mark.long
def test_a_month_keeps_local_time_and_books_the_same_in_yaml_and_in_python_over_a_kill(tmp_path: Path) -> None:
    yaml, python = (run_virtual(a_month(name, tmp_path)) for name in ("month.yaml", "month.py"))
    assert len(yaml) > 4 * len(CHANGES)
    assert yaml == python


async def a_month(name: str, folder: Path) -> list[tuple[str, str, float]]:
    """Run the month through a kill, and check it; return time, line and volume (µL) of every booked dose."""
    recipe, journal = recipe_of(name), folder / f"{name}.db"
    world = World()
    world.clock_step_s = (BEGIN - EPOCH).total_seconds()
    first = Controller(world, journal, catalogue={recipe.name: recipe})
    run = await first.runs.start(recipe.name, {}, "anna", "a month")
    await tended(first, run, until_change=KILLED_AT)
    await first.gone()
    await asyncio.sleep(5.0)
    second = Controller(world, journal, catalogue={recipe.name: recipe})
    await second.runs.recover()
    await second.until(lambda: len(notes(second, "change")) == KILLED_AT)
    await tended(second, run)
    assert second.runs.get(run).state is RunState.COMPLETE
    changes = notes(second, "change")
    assert [note["change"] for note in changes] == list(range(1, len(CHANGES) + 1))
    for note in changes:
        assert note["replaced"] == pytest.approx(note["wanted"], abs=1_000.0)
        assert note["wanted"] == pytest.approx(20_000.0, rel=0.1)
    given_ul = world.pumps["dose_fresh.pump"].moved_ul
    assert given_ul == pytest.approx(sum(note["replaced"] for note in changes), rel=0.02)
    zone = ZoneInfo("Europe/Berlin")
    due = [row.body["until"] for row in second.journal.entries(run=run, kinds=("step",)) if "until" in row.body]
    local = [datetime.fromisoformat(text).astimezone(zone) for text in due]
    assert sorted(local) == sorted(
        [datetime.fromisoformat(f"{day}T09:00").replace(tzinfo=zone) for day in CHANGES]
        + [datetime.fromisoformat(f"{day}T08:55").replace(tzinfo=zone) for day in MONDAYS]
    )
    offsets = {moment.utcoffset() for moment in local}
    assert offsets == {timedelta(hours=1), timedelta(hours=2)}, "the month does not cross the change of the clocks"
    answered = list(second.journal.entries(run=run, kinds=("step.answered",)))
    assert [row.body["value"] for row in answered if "file" in row.body] == [PHOTO.sha256] * len(CHANGES)
    assays = [row for row in second.journal.entries(kinds=("assay",)) if row.body["used"]]
    assert len(assays) == len(MONDAYS)
    assert {row.run for row in assays} == {run}
    booked = [(row.utc, row.body["line"], row.body["ul"]) for row in second.journal.entries(run=run, kinds=("moved",))]
    await second.gone()
    return booked
