"""A run of `recycle` with finished cycles at an update of Choroid whose release decides otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from controller.core.run_states import RunState
from controller.recipes.catalogue import shipped
from protocols import economy, ldh_requests, retreat, tissue_loss
from protocols.assay_requests import ASSAY_WANTED
from protocols.interval import Interval
from protocols.language import Lab
from protocols.retreat import RESUMED, RETREAT
from protocols.tissue_loss import LdhSeen, TissueLoss
from tests.execution.world import Controller, World

CYCLES = {"batch": "8 mL", "min_batch": "4 mL", "every": "2 h"}


HELD = "After an update: abort this run and start the protocol again"


async def undecided(lab: Lab, what: str, choose: Callable[[], Any]) -> Any:
    """Decide as releases did whose decisions were no steps."""
    return choose()


@pytest.mark.virtual_time
@pytest.mark.parametrize("recorded", [True, False], ids=["decisions on record", "a record without decisions"])
@pytest.mark.parametrize("otherwise", [False, True])
async def test_a_run_goes_on_though_the_release_decides_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, otherwise: bool, recorded: bool
) -> None:
    """What was decided is on record; only without a record is it decided again, and what differs holds the run."""
    world = World()
    first = Controller(world, tmp_path / "journal.db", catalogue=shipped())
    with monkeypatch.context() as former:
        if otherwise:
            former.setattr(economy, "DRAWS", (0.9,))
        if not recorded:
            former.setattr(Lab, "decide", undecided)
        run = await first.runs.start("recycle", CYCLES, "anna", "a test")
        await asyncio.sleep(5 * 3600.0)
        assert first.runs.get(run).state is RunState.RUNNING
        await first.gone()
    moved = {name: len(pump.doses) for name, pump in world.pumps.items()}
    assert moved["reglo.draw"] >= 2
    second = Controller(world, tmp_path / "journal.db", catalogue=shipped())
    await second.runs.recover()
    if recorded or not otherwise:
        await second.until(lambda: len(world.pumps["reglo.draw"].doses) > moved["reglo.draw"])
        assert second.runs.get(run).state is RunState.RUNNING
        assert second.runs.get(run).messages == ()
        await second.gone()
        return
    await second.until(lambda: second.runs.get(run).state is RunState.HELD)
    assert HELD in second.runs.get(run).messages[-1]
    assert {name: len(pump.doses) for name, pump in world.pumps.items()} == moved, "nothing is moved twice"
    await second.runs.abort(run, "anna", "the release was updated")
    await second.until(lambda: second.runs.get(run).state is RunState.ABORTED)
    again = await second.runs.start("recycle", CYCLES, "anna", "after the update")
    await second.until(lambda: len(world.pumps["reglo.draw"].doses) > moved["reglo.draw"])
    assert second.runs.get(again).state is RunState.RUNNING
    await second.gone()


SAMPLED = LdhSeen(None, 30.0)
CONCERNED = TissueLoss(Interval(0.9, 0.8, 0.98), 0.05, suspected=False, certain=False, age_h=0.0, ldh=SAMPLED)
SUSPECTED = TissueLoss(Interval(0.87, 0.8, 0.95), 0.09, suspected=True, certain=False, age_h=2.0)
WELL = TissueLoss(Interval(0.96, 0.9, 0.99), 0.01, suspected=False, certain=False, age_h=0.0)
HOUR_S = 3600.0


@pytest.mark.virtual_time
@pytest.mark.parametrize("recorded", [True, False], ids=["decisions on record", "a record without decisions"])
@pytest.mark.parametrize(
    ("courses", "note", "changed"),
    [
        pytest.param(((CONCERNED, 5.0),), ASSAY_WANTED, (ldh_requests, "CONCERN", 0.5), id="LDH"),
        pytest.param(((SUSPECTED, 5.0),), RETREAT, (tissue_loss, "STALE_H", 1.0), id="retreat"),
        pytest.param(
            ((SUSPECTED, 5.0), (WELL, 80.0)),
            RESUMED,
            (retreat, "CLEAR_D", 50.0),
            marks=pytest.mark.long,
            id="resumption",
        ),
    ],
)
async def test_a_run_goes_on_though_the_release_has_other_thresholds_for_tissue(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    courses: tuple[tuple[TissueLoss, float], ...],
    note: str,
    changed: tuple[Any, str, float],
    *,
    recorded: bool,
) -> None:
    world, says = World(), [WELL]
    first = Controller(world, tmp_path / "journal.db", catalogue=shipped(), tissue_loss=lambda: says[0], tick_s=4.0)
    with monkeypatch.context() as former:
        if not recorded:
            former.setattr(Lab, "decide", undecided)
        run = await first.runs.start("recycle", CYCLES | {"max_assays": "0"}, "anna", "a test")
        for says[0], hours in courses:
            await asyncio.sleep(hours * HOUR_S)
        assert first.journal.last(f"note.{note}") is not None
        await first.gone()
    if recorded:
        monkeypatch.setattr(*changed)
    second = Controller(world, tmp_path / "journal.db", catalogue=shipped(), tissue_loss=lambda: says[0], tick_s=4.0)
    await second.runs.recover()
    await asyncio.sleep(3.0 * HOUR_S)
    assert second.runs.get(run).state is RunState.RUNNING
    assert second.runs.get(run).messages == ()
    await second.gone()
