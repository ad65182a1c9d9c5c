"""Who looks after a simulated rig: with hands and in the books, so that both agree; and no oftener than people do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from choroid.common.failure import UserError
from choroid.demo.demo import pour
from choroid.simulation.simulate import EPOCH, simulate
from choroid.simulation.technician import MAX_RESUMES, Technician
from controller.core.clock import Clock
from controller.core.run_states import RunState
from controller.ledger.batches import Batch
from controller.process.controller import Controller
from controller.process.core import Storage
from controller.recipes.catalogue import find
from controller.rig.description import Rig, UpkeepSpec, required
from controller.rig.loading import load_rig
from controller.rig.upkeep import TubingSpec
from drivers.registry import MODELS
from sim.lab import SimulatedLab
from sim.plant.columns import Content

BENCH = Path(__file__).resolve().parents[2] / "examples" / "rigs" / "bench.yaml"
RIG = load_rig(BENCH, models=MODELS)
DAY_S = 86_400.0


@asynccontextmanager
async def tended(data: Path, rig: Rig = RIG) -> AsyncIterator[tuple[SimulatedLab, Controller, Technician]]:
    lab = SimulatedLab(rig, seed=1)
    clock = Clock(follow_system=False, epoch=EPOCH)
    controller = Controller(rig=rig, opener=lab.opener, storage=Storage(data, durable=False), clock=clock)
    stop = asyncio.Event()
    await controller.start()
    ticking = asyncio.create_task(controller.run(stop))
    try:
        await asyncio.sleep(90.0)
        yield lab, controller, Technician(lab, controller, seed=1)
        stop.set()
        await ticking
    finally:
        await controller.close()
        await lab.close()


def agree(lab: SimulatedLab, controller: Controller) -> bool:
    """Whether books and truth are within three standard deviations of each other in every vessel."""
    true_ul = lab.plant.truth().volumes_ul
    return all(abs(v.ul - true_ul[name]) <= 3 * v.sd_ul + 1.0 for name, v in controller.ledger.volumes().items())


async def held(controller: Controller, run: str) -> None:
    """Wait until the run waits for a person."""
    for _ in range(120):
        if controller.runs.get(run).state is RunState.HELD:
            return
        await asyncio.sleep(10.0)
    pytest.fail(f"the run is {controller.runs.get(run).state} after twenty minutes")


def change(lab: SimulatedLab, controller: Controller, vessel: str, volume_ul: float) -> None:
    """By hand, and told: before the day begins."""
    lab.plant.fill(vessel, volume_ul)
    controller.ledger.reconcile(vessel, volume_ul, 10.0, user="anna", reason="a test")


@pytest.mark.virtual_time
async def test_a_round_does_what_the_alarms_ask_for(tmp_path: Path) -> None:
    upkeep = UpkeepSpec(tubing={"reglo.heart": TubingSpec(life=30.0, material="tygon")})
    async with tended(tmp_path, RIG.model_copy(update={"upkeep": upkeep})) as (lab, controller, technician):
        change(lab, controller, "reservoir", 50_000.0)
        controller.ledger._books.advance(14 * DAY_S)  # the books believe that the loop has lost water for two weeks
        await asyncio.sleep(130.0)
        kinds = {alarm.kind for alarm in controller.alarms.active()}
        assert {"stock_low", "level_due"} <= kinds
        assert kinds & {"tubing_due", "tubing_over"}
        await technician.update(3600.0)
        assert technician.done == [], "the technician does not come for these before the next round"
        await technician.update(DAY_S)
        what = [each["what"] for each in technician.done]
        assert "new bottle for reservoir, lot reservoir-1" in what
        assert any(each.startswith("read loop as 40") or each.startswith("read loop as 39") for each in what)
        assert "new tubing for reglo.heart" in what
        assert agree(lab, controller)
        assert lab.plant.truth().volumes_ul["reservoir"] == pytest.approx(500_000.0, rel=0.02)
        assert lab.plant.truth().concentrations["reservoir"]["glucose"] == pytest.approx(21.0)
        assert "reservoir-1" in controller.ledger.whereabouts.batches
        await asyncio.sleep(100.0)
        assert not {alarm.kind for alarm in controller.alarms.active()} & {"stock_low", "level_due", "tubing_due"}


@pytest.mark.virtual_time
async def test_a_run_that_waits_is_looked_after_within_the_hour_and_goes_on(tmp_path: Path) -> None:
    async with tended(tmp_path) as (lab, controller, technician):
        run = await controller.runs.start(find("exchange"), {"volume": "2 mL"}, user="anna", reason="a test")
        change(lab, controller, "reservoir", 10_500.0)  # after it was rehearsed, and less than the dose wants
        await held(controller, run)
        await technician.update(3600.0)
        assert [each["what"] for each in technician.done] == [
            "new bottle for reservoir, lot reservoir-1",
            "resumed exchange",
        ]
        assert "reservoir" in technician.done[-1]["why"]
        await asyncio.sleep(900.0)
        assert controller.journal.last("note.exchange") is not None
        assert controller.runs.get(run).state is RunState.RUNNING
        assert agree(lab, controller)


@pytest.mark.virtual_time
async def test_a_run_that_nothing_helps_is_left_until_the_next_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with tended(tmp_path) as (lab, controller, technician):
        technician._hands.clear()
        monkeypatch.setattr(technician, "_half_used", lambda: ())
        run = await controller.runs.start(find("exchange"), {"volume": "2 mL"}, user="anna", reason="a test")
        change(lab, controller, "reservoir", 10_500.0)
        for hour in range(1, MAX_RESUMES + 4):
            await held(controller, run)
            await technician.update(3600.0 * hour)
            await asyncio.sleep(60.0)
        assert [each["what"] for each in technician.done] == ["resumed exchange"] * MAX_RESUMES
        await technician.update(DAY_S)
        assert len(technician.done) == MAX_RESUMES + 1


@pytest.mark.virtual_time
async def test_a_full_waste_is_emptied_and_nothing_of_it_is_unexplained(tmp_path: Path) -> None:
    vessels = dict(RIG.vessels)
    vessels["waste"] = vessels["waste"].model_copy(update={"volume_ul": 1_800_000.0, "contains": "fresh"})
    async with tended(tmp_path, RIG.model_copy(update={"vessels": vessels})) as (lab, controller, technician):
        await asyncio.sleep(70.0)
        assert [alarm.id for alarm in controller.alarms.active()] == ["waste_full:waste"]
        await technician.update(DAY_S)
        assert [each["what"] for each in technician.done] == ["emptied waste"]
        assert lab.plant.truth().volumes_ul["waste"] == 0.0
        assert abs(controller.ledger.unexplained().ul) < 1.0
        await asyncio.sleep(100.0)
        assert controller.alarms.active() == []


@pytest.mark.virtual_time
async def test_now_and_then_the_loop_is_assayed_and_a_surprise_is_looked_at_again(tmp_path: Path) -> None:
    async with tended(tmp_path) as (lab, controller, _):
        technician = Technician(lab, controller, seed=1, assay_every_d=2.0)
        for day in (1, 2, 3, 4):
            await asyncio.sleep(600.0)
            if day == 4:  # the culture is not as believed
                lab.plant.fleet.vessels[0, required(lab.plant.fleet.loop, "a loop"), Content.LACTATE] += 12.0 * 40_000.0
            await technician.update(day * DAY_S)
        assert [(each["day"], each["what"].split()[0]) for each in technician.done] == [
            (2.0, "assayed"), (2.0, "assayed"), (4.0, "looked"), (4.0, "assayed"), (4.0, "assayed"),
        ]  # fmt: skip
        rows = list(controller.journal.entries(kinds=("assay",)))
        assert [(row.body["analyte"], row.body["used"]) for row in rows] == [
            ("lactate", True), ("glucose", True), ("lactate", False), ("lactate", True), ("glucose", True),
        ]  # fmt: skip
        assert controller.assays.medium()["loop"]["lactate_mm"]["value"] > 8.0


@pytest.mark.virtual_time
async def test_assays_more_often_than_the_daily_round_are_made_when_they_are_due(tmp_path: Path) -> None:
    async with tended(tmp_path) as (lab, controller, _):
        technician = Technician(lab, controller, seed=1, assay_every_d=0.25)
        for hour in range(1, 31):
            await asyncio.sleep(60.0)
            await technician.update(hour * 3600.0)
        found = [each["day"] for each in technician.done if each["what"].startswith("assayed lactate")]
        assert found == [0.25, 0.5, 0.75, 1.0, 1.25]


def test_assays_more_often_than_once_an_hour_are_refused() -> None:
    with pytest.raises(UserError, match="once an hour"):
        simulate(BENCH, tended=True, assay_every_d=0.04)


@pytest.mark.virtual_time
async def test_in_a_demo_what_is_entered_happens(tmp_path: Path) -> None:
    async with tended(tmp_path) as (lab, controller, _):
        stop = asyncio.Event()
        pouring = asyncio.create_task(pour(lab, controller, stop))
        await asyncio.sleep(1.0)
        before = lab.plant.truth()
        ledger, user, reason = controller.ledger, "anna", "a test"
        ledger.load(Batch("A", "fresh", "", "reservoir"), 400_000.0, 10.0, replaces=True, user=user, reason=reason)
        ledger.load(Batch("B", "base_stock", "", "base"), 5_000.0, 10.0, replaces=False, user=user, reason=reason)
        ledger.reconcile("loop", 38_000.0, 10.0, user=user, reason="a sample")
        ledger.reconcile("glucose", 255_000.0, 10.0, user=user, reason="the rest of another one")
        ledger.reconcile("waste", 0.0, 10.0, user=user, reason="emptied")
        await asyncio.sleep(30.0)
        truth = lab.plant.truth()
        assert truth.volumes_ul["reservoir"] == pytest.approx(400_000.0, abs=1.0)
        assert truth.volumes_ul["base"] == pytest.approx(255_000.0, abs=1.0)
        assert truth.volumes_ul["loop"] == pytest.approx(38_000.0, abs=5.0)
        ledger.load(Batch("C", "fresh", "", "loop"), 4_000.0, 10.0, replaces=False, user=user, reason=reason)
        await asyncio.sleep(30.0)
        assert lab.plant.truth().concentrations["loop"]["lactate"] > 0.8 * truth.concentrations["loop"]["lactate"]
        assert truth.volumes_ul["glucose"] == pytest.approx(255_000.0, abs=1.0)
        lactate = [seen.concentrations["loop"]["lactate"] for seen in (before, truth)]
        assert lactate[1] > lactate[0], "it is the loop's own medium, and not another"
        assert agree(lab, controller)
        stop.set()
        await pouring


@pytest.mark.virtual_time
async def test_what_does_not_fit_is_not_put_in(tmp_path: Path) -> None:
    async with tended(tmp_path) as (lab, _, _):
        with pytest.raises(ValueError, match="cannot be put into reservoir"):
            lab.plant.fill("reservoir", 600_000.0)
        with pytest.raises(ValueError, match="no medium cannot be put into waste"):
            lab.plant.fill("waste", 1_000.0)
        with pytest.raises(KeyError):
            lab.plant.fill("nowhere", 0.0)
        with pytest.raises(KeyError):
            lab.plant.take("nowhere", 0.0)
        lab.plant.take("waste", 1e9)
        assert lab.plant.truth().volumes_ul["waste"] == 0.0


def test_requested_assays_without_a_technician_are_refused() -> None:
    """Without a technician they are not made, and the answer would look as if they told nothing."""
    with pytest.raises(UserError, match="needs a technician who makes it"):
        simulate(BENCH, on_request=True)
