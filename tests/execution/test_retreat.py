"""The retreat of `recycle` on the bench: what ends recycling, what is exchanged then, and that no restart ends it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from controller.alarms.definitions import DEFINITIONS
from controller.core.run_states import RunState
from controller.rig.description import Rig
from protocols.interval import Interval
from protocols.retreat import RESUMED, RETREAT
from protocols.tissue_loss import UNKNOWN, TissueLoss
from tests.execution.world import RIG, Controller, World

pytestmark = pytest.mark.virtual_time

DAY_S = 86_400.0
HOUR_S = 3_600.0
WELL = TissueLoss(Interval(0.96, 0.9, 0.99), 0.01, suspected=False, certain=False, age_h=0.0)
CERTAIN = TissueLoss(Interval(0.8, 0.7, 0.9), 0.16, suspected=True, certain=True, age_h=0.0)
SUSPECTED = TissueLoss(Interval(0.87, 0.8, 0.95), 0.09, suspected=True, certain=False, age_h=0.0)
DAY_UL = 20_000.0
"""Half of the loop of the bench rig."""


class Estimate:
    """What the estimate of the tissue says now."""

    def __init__(self, says: TissueLoss = WELL) -> None:
        self.says = says

    def __call__(self) -> TissueLoss:
        return self.says


def kinds(controller: Controller, kind: str) -> list[float]:
    """The times (h) of the notes of a kind."""
    return [round(row.at_s / HOUR_S, 1) for row in controller.journal.entries(kinds=(f"note.{kind}",))]


def fresh_ul(world: World) -> float:
    world.advance()
    return RIG.vessels["reservoir"].volume_ul - world.volumes["reservoir"]


async def started(world: World, path: Path, estimate: Estimate, **params: str) -> tuple[Controller, str]:
    controller = Controller(world, path, tissue_loss=estimate, tick_s=4.0)
    return controller, await controller.runs.start("recycle", params, "anna", "a test")


async def test_a_suspected_loss_makes_it_exchange_at_once_and_each_day_until_it_is_stopped(tmp_path: Path) -> None:
    world, estimate = World(), Estimate()
    controller, run = await started(world, tmp_path / "j.db", estimate, every="1 h")
    await asyncio.sleep(2.5 * HOUR_S)
    assert kinds(controller, RETREAT) == []
    assert len(kinds(controller, "recycle")) == 3
    estimate.says = SUSPECTED
    await asyncio.sleep(1.5 * HOUR_S)
    assert kinds(controller, RETREAT) == [3.0]
    await asyncio.sleep(24 * HOUR_S)
    assert len(kinds(controller, "recycle")) == 3
    assert len(kinds(controller, "exchange")) == 3, "a day's exchange at once, then one a day from now on"
    assert fresh_ul(world) == pytest.approx(3 * DAY_UL, rel=0.05)
    assert world.volumes["loop"] == pytest.approx(40_000, abs=900)
    ((kind, source, text),) = [alarm for alarm in controller.alarms if alarm[0] == RETREAT]
    assert (kind, source) == ("recycle_retreat", "tissue")
    assert kind in DEFINITIONS
    assert "suspects a loss of 9% of the viability, which is 0.80 to 0.95 now" in text
    assert "20 mL a day" in text
    assert "Next: assay LDH, lactate and ammonia" in text
    assert "accepted_loss=9 %" in text
    assert "until the estimate suspects no loss for 2 days within a week" in text
    note = controller.journal.last(f"note.{RETREAT}")
    assert note is not None
    assert TissueLoss.from_json(note.body["tissue"]) == SUSPECTED
    await controller.runs.stop(run, "anna", "it is well again")
    await controller.until(lambda: controller.runs.get(run).state is RunState.STOPPED, 2 * DAY_S)
    controller.journal.verify()
    await controller.gone()


@pytest.mark.long
async def test_a_false_suspicion_costs_medium_for_some_days_and_a_second_one_is_final(tmp_path: Path) -> None:
    world, estimate = World(), Estimate(SUSPECTED)
    controller, run = await started(world, tmp_path / "j.db", estimate)
    await asyncio.sleep(30 * HOUR_S)
    estimate.says = WELL
    await asyncio.sleep(2 * DAY_S)
    assert kinds(controller, RESUMED) == []
    assert kinds(controller, "recycle") == []
    await asyncio.sleep(DAY_S)
    (resumed_h,) = kinds(controller, RESUMED)
    assert 30.0 + 48.0 <= resumed_h <= 30.0 + 72.0
    looks_h = kinds(controller, "recycle")
    assert looks_h
    assert min(looks_h) >= resumed_h
    estimate.says = SUSPECTED
    await asyncio.sleep(DAY_S)
    assert len(kinds(controller, RETREAT)) == 2
    estimate.says = WELL
    looks = len(kinds(controller, "recycle"))
    await asyncio.sleep(6 * DAY_S)
    assert len(kinds(controller, "recycle")) == looks
    assert len(kinds(controller, RESUMED)) == 1
    assert "until this run is stopped" in [text for kind, _, text in controller.alarms if kind == RETREAT][1]
    assert controller.runs.get(run).state is RunState.RUNNING
    controller.journal.verify()
    await controller.gone()


@pytest.mark.long
@pytest.mark.parametrize(("resumes", "expected"), [("0", 0), ("2", 2)])
async def test_a_laboratory_chooses_how_often_recycling_resumes(resumes: str, expected: int, tmp_path: Path) -> None:
    world, estimate = World(), Estimate(SUSPECTED)
    controller, _ = await started(world, tmp_path / "j.db", estimate, resumes=resumes, every="24 h")
    for _ in range(expected + 1):
        estimate.says = SUSPECTED
        await asyncio.sleep(1.2 * DAY_S)
        estimate.says = WELL
        await asyncio.sleep(3.5 * DAY_S)
    assert len(kinds(controller, RESUMED)) == expected
    assert len(kinds(controller, RETREAT)) == expected + 1
    says = [text for kind, _, text in controller.alarms if kind == RETREAT]
    assert ["until this run is stopped" in text for text in says] == [False] * expected + [True]
    await controller.gone()


@pytest.mark.long
@pytest.mark.parametrize(("says", "for_d"), [(CERTAIN, 0.5), (SUSPECTED, 5.5)], ids=["shown", "lasting suspicion"])
async def test_a_loss_that_is_shown_or_suspected_for_days_ends_recycling(
    says: TissueLoss, for_d: float, tmp_path: Path
) -> None:
    world, estimate = World(), Estimate(says)
    controller, _ = await started(world, tmp_path / "j.db", estimate)
    await asyncio.sleep(for_d * DAY_S)
    estimate.says = WELL
    await asyncio.sleep(6 * DAY_S)
    assert kinds(controller, "recycle") == kinds(controller, RESUMED) == []
    assert len(kinds(controller, "exchange")) == 2 + int(for_d + 6)
    await controller.gone()


@pytest.mark.parametrize("die_h", [0.04, 0.1, 0.45])
async def test_a_restart_ends_no_retreat_and_repeats_no_dose(die_h: float, tmp_path: Path) -> None:
    """Killed while the first doses are given; the estimate is well, or unknown, when the next process begins."""
    world = World()
    controller, run = await started(world, tmp_path / "j.db", Estimate(SUSPECTED))
    await asyncio.sleep(die_h * HOUR_S - world.loop.time())
    assert len(kinds(controller, "exchange")) < 2
    await controller.gone()
    await asyncio.sleep(600.0)
    again = Controller(world, tmp_path / "j.db", tissue_loss=Estimate(WELL if die_h > 0.4 else UNKNOWN), tick_s=4.0)
    await again.runs.recover()
    await again.until(lambda: len(kinds(again, "exchange")) == 2, DAY_S)
    await asyncio.sleep(9 * HOUR_S)
    view = again.runs.get(run)
    assert view.state is RunState.RUNNING, view.messages
    assert len(kinds(again, RETREAT)) == 1
    assert kinds(again, "recycle") == []
    assert [kind for kind, *_ in [*controller.alarms, *again.alarms]].count(RETREAT) == 1
    assert fresh_ul(world) == pytest.approx(2 * DAY_UL, rel=0.05)
    await again.gone()


@pytest.mark.long
@pytest.mark.parametrize("absent_d", [1.6, 2.6])
async def test_the_absence_of_the_controller_is_no_time_without_suspicion(absent_d: float, tmp_path: Path) -> None:
    """One look found no suspicion before it; resuming takes two days of looks after it."""
    world, estimate = World(), Estimate(SUSPECTED)
    controller, _ = await started(world, tmp_path / "j.db", estimate)
    await asyncio.sleep(12 * HOUR_S)
    estimate.says = WELL
    await asyncio.sleep(13 * HOUR_S)
    assert len(kinds(controller, "exchange")) == 3
    await controller.gone()
    await asyncio.sleep(absent_d * DAY_S)
    back_h = world.loop.time() / HOUR_S
    again = Controller(world, tmp_path / "j.db", tissue_loss=estimate, tick_s=4.0)
    await again.runs.recover()
    await asyncio.sleep(1.9 * DAY_S)
    assert kinds(again, RESUMED) == []
    assert kinds(again, "recycle") == []
    await asyncio.sleep(1.2 * DAY_S)
    (resumed_h,) = kinds(again, RESUMED)
    assert resumed_h - back_h >= 48.0
    again.journal.verify()
    await again.gone()


async def test_it_goes_on_if_a_person_has_accepted_the_loss(tmp_path: Path) -> None:
    world = World()
    controller, run = await started(
        world, tmp_path / "j.db", Estimate(SUSPECTED), accepted_loss="9 %", cycles="3", every="1 h"
    )
    await controller.until(lambda: controller.runs.get(run).state.ended, DAY_S)
    assert len(kinds(controller, "recycle")) == 3
    assert kinds(controller, RETREAT) == []
    await controller.gone()


@pytest.mark.long
async def test_without_an_estimate_it_retreats_after_a_day_and_says_what_is_missing(tmp_path: Path) -> None:
    world = World()
    controller, run = await started(world, tmp_path / "j.db", Estimate(UNKNOWN), cycles="5")
    await controller.until(lambda: controller.runs.get(run).state.ended, 3 * DAY_S)
    assert controller.runs.get(run).state is RunState.COMPLETE
    assert len(kinds(controller, "recycle")) == 3
    assert kinds(controller, RETREAT) == [24.0]
    assert len(kinds(controller, "exchange")) == 2, "at once, and for the day that was left"
    (text,) = [text for kind, _, text in controller.alarms if kind == RETREAT]
    assert "there is no estimate of the viability" in text
    assert "restore the sensors" in text
    await controller.gone()


def with_small_spent_vessel() -> Rig:
    spent = RIG.vessels["spent"].model_copy(update={"ceiling_ul": 11_000.0, "capacity_ul": 12_000.0})
    return RIG.model_copy(update={"vessels": RIG.vessels | {"spent": spent}})


async def test_a_rig_with_a_small_spent_vessel_exchanges_as_much_in_portions(tmp_path: Path) -> None:
    world = World(with_small_spent_vessel())
    controller, _ = await started(world, tmp_path / "j.db", Estimate(SUSPECTED))
    await asyncio.sleep(0.5 * HOUR_S)
    assert len(kinds(controller, RETREAT)) == 1
    await asyncio.sleep(3 * HOUR_S)
    assert fresh_ul(world) == pytest.approx(DAY_UL * (1 + 1 / 3), rel=0.05)
    before = fresh_ul(world)
    await asyncio.sleep(DAY_S)
    assert fresh_ul(world) - before == pytest.approx(DAY_UL, rel=0.05)
    await controller.gone()
