"""The runner on the real thing: drivers, wire, plant; a controller that goes away in the middle of each transfer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from controller.core.clock import Clock
from controller.core.run_states import RunState
from controller.process.controller import Controller
from controller.process.core import Storage
from controller.rig.description import Rig
from controller.rig.loading import load_rig
from protocols.recycle import TEST_UL
from sim.lab import SimulatedLab
from tests.execution.world import BENCH, RIG

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


@asynccontextmanager
async def controlled(
    lab: SimulatedLab, data: Path, *, leave_running: bool = False, rig: Rig = RIG
) -> AsyncIterator[Controller]:
    controller = Controller(
        rig=rig, opener=lab.opener, storage=Storage(data, durable=False), clock=Clock(follow_system=False, epoch=EPOCH)
    )
    stop = asyncio.Event()
    ticking: asyncio.Task[None] | None = None
    try:
        await controller.start()
        ticking = asyncio.create_task(controller.run(stop))
        yield controller
    finally:
        stop.set()
        if ticking is not None:
            await ticking
        await controller.close(leave_running=leave_running)


async def until(true: Callable[[], bool], within_s: float = 3600.0, every_s: float = 1.0) -> None:
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + within_s
    while not true():
        assert loop.time() < deadline_s, "it did not come to pass"
        await asyncio.sleep(every_s)


def moving(controller: Controller, verb: str) -> bool:
    """Whether a dose of `verb` is under way; the little one that shows the filter at work is not meant."""
    run = controller.runs.list()[-1]
    rows = list(controller.journal.entries(run=run.id))
    begun = {row.body["n"] for row in rows if row.kind == "step" and row.body["verb"] == verb}
    given = [row for row in rows if row.kind == "step.act" and row.body["n"] in begun and row.body["ul"] > TEST_UL]
    booked = [row for row in rows if row.kind == "moved" and row.body["n"] in begun and row.body["asked_ul"] > TEST_UL]
    return len(given) > len(booked)


@pytest.mark.virtual_time
@pytest.mark.parametrize("leave_running", [True, False], ids=["pumps go on", "pumps are stopped"])
@pytest.mark.parametrize("verb", ["kidney.draw", "kidney.give_back"])
async def test_E4_a_controller_gone_in_a_transfer_gives_the_dose_once(
    verb: str, leave_running: bool, tmp_path: Path
) -> None:
    lab = SimulatedLab(RIG, seed=3)
    async with controlled(lab, tmp_path, leave_running=leave_running) as first:
        await first.runs.start("recycle", {"cycles": "1", "min_batch": "18 mL"}, "anna", "a test")
        await until(lambda: moving(first, verb))
        await asyncio.sleep(70.0)
        assert moving(first, verb)
    await asyncio.sleep(30.0)
    async with controlled(lab, tmp_path, leave_running=False) as second:
        run = second.runs.list()[0].id
        await until(lambda: second.runs.get(run).state in (RunState.COMPLETE, RunState.HELD))
        view = second.runs.get(run)
        assert view.state is RunState.COMPLETE, view.messages
        truth = lab.plant.truth()
        assert truth.volumes_ul["loop"] == pytest.approx(40_000, abs=900)
        assert truth.volumes_ul["spent"] == pytest.approx(3_000, abs=900)
        drawn_ul = second.ledger.totals.drawn_ul
        assert 16_000 < drawn_ul - TEST_UL < 19_800, "18 mL once, within the pump's calibration"
        for name, volume in second.ledger.volumes().items():
            assert abs(volume.ul - truth.volumes_ul[name]) <= 3 * volume.sd_ul + 20, name
        second.journal.verify()
    assert lab.plant.events == []
    await lab.close()


@pytest.mark.virtual_time
async def test_pause_and_resume_on_the_wire(tmp_path: Path) -> None:
    lab = SimulatedLab(RIG, seed=4)
    async with controlled(lab, tmp_path, leave_running=False) as controller:
        run = await controller.runs.start("recycle", {"cycles": "1", "min_batch": "18 mL"}, "anna", "a test")
        await until(lambda: moving(controller, "kidney.give_back"))
        await asyncio.sleep(60.0)
        await controller.runs.pause(run, "anna", "a visitor")
        await until(lambda: controller.runs.get(run).state is RunState.HELD)
        held = lab.plant.truth().volumes_ul["spent"]
        await asyncio.sleep(300.0)
        assert lab.plant.truth().volumes_ul["spent"] == pytest.approx(held, abs=5.0)
        spent = controller.ledger.volumes()["spent"]
        assert abs(spent.ul - held) <= 3 * spent.sd_ul + 20
        await controller.runs.resume(run, "anna", "the visitor has gone")
        await until(lambda: controller.runs.get(run).state.ended)
        assert controller.runs.get(run).state is RunState.COMPLETE
        assert lab.plant.truth().volumes_ul["loop"] == pytest.approx(40_000, abs=900)
    assert lab.plant.events == []
    await lab.close()


@pytest.mark.virtual_time
async def test_the_vessel_on_the_balance_may_have_a_weight_of_its_own(tmp_path: Path) -> None:
    """What the rig's file takes off is taken off once, by the driver."""
    pan = RIG.devices["balance"].model_copy(update={"settings": {"tare_g": 85.0}})
    rig = RIG.model_copy(update={"devices": {**RIG.devices, "balance": pan}})
    lab = SimulatedLab(rig, seed=3)
    async with controlled(lab, tmp_path, rig=rig) as controller:
        await controller.runs.start("recycle", {"min_batch": "18 mL"}, user="anna", reason="a test")
        await until(lambda: controller.journal.last("note.grade") is not None)
        believed = controller.ledger.volumes()["spent"]
        assert believed.ul == pytest.approx(lab.plant.truth().volumes_ul["spent"], abs=150.0)
        assert believed.ul > 15_000.0
        assert not [alarm.id for alarm in controller.alarms.active()]
    await lab.close()


@pytest.mark.long
@pytest.mark.virtual_time
async def test_a_question_without_an_answer_for_a_day_leaves_the_rig_safe_and_calls_more_loudly(
    tmp_path: Path,
) -> None:
    file = tmp_path / "rig.yaml"
    file.write_text(re.sub(r"every: [25] s", "every: 10 s", BENCH.read_text(encoding="utf-8")))
    rig = load_rig(file)  # asked less often: it is a long day
    lab = SimulatedLab(rig, seed=5)
    async with controlled(lab, tmp_path, rig=rig) as controller:
        await asyncio.sleep(600.0)
        run = await controller.runs.start("sample", {}, "anna", "a test")
        await until(lambda: controller.runs.get(run).state is RunState.HELD)
        await asyncio.sleep(3600.0)
        assert [alarm.kind for alarm in controller.alarms.active() if alarm.kind.startswith("run_")] == ["run_held"]
        before = lab.plant.truth()
        await asyncio.sleep(24 * 3600.0)
        waiting = [alarm for alarm in controller.alarms.active() if alarm.kind.startswith("run_")]
        assert {alarm.kind for alarm in waiting} == {"run_held", "run_unanswered"}
        assert all(alarm.times == 1 for alarm in waiting), "once is enough"
        after = lab.plant.truth()
        for line in ("draw", "return", "discard", "feed", "glucose", "base"):
            assert after.moved_ul[line] == before.moved_ul[line], line
        assert after.moved_ul["heart"] > before.moved_ul["heart"] + 100_000.0
        assert after.temperature_c == pytest.approx(37.0, abs=0.5)
        assert after.viability > 0.8
        assert controller.runs.get(run).state is RunState.HELD
        while not controller.runs.get(run).state.ended:
            if controller.runs.get(run).state is RunState.HELD:
                await controller.runs.resume(run, "anna", "I was away; it is done")
            await asyncio.sleep(5.0)
        assert controller.runs.get(run).state is RunState.COMPLETE
