"""Two controllers of one rig that see no claims of each other, as on two hosts: both notice it, and no harm is done (A12)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from controller.core.clock import Clock
from controller.core.run_states import RunState
from controller.process.controller import Controller
from controller.process.core import Storage
from controller.rig.loading import load_rig
from sim.lab import SimulatedLab

RIG = load_rig(Path(__file__).resolve().parents[2] / "examples" / "rigs" / "bench.yaml")
FOR_S = 2400.0


@pytest.mark.virtual_time
async def test_A12_two_controllers_of_one_rig_notice_each_other_and_the_tissue_is_not_harmed(tmp_path: Path) -> None:
    lab = SimulatedLab(RIG, seed=1)
    clock = Clock(follow_system=False, epoch=datetime(2026, 1, 1, tzinfo=UTC))
    stop = asyncio.Event()
    controllers, ticking = [], []
    for name in ("one", "two"):
        data = tmp_path / name
        data.mkdir()
        controller = Controller(rig=RIG, opener=lab.opener, storage=Storage(data, durable=False), clock=clock)
        await controller.start()
        controllers.append(controller)
        ticking.append(asyncio.create_task(controller.run(stop)))
        await controller.runs.start("recycle", {"min_batch": "18 mL"}, user=name, reason="both want to recycle")
        await asyncio.sleep(300.0)
    before = [sum(1 for _ in each.journal.entries(kinds=("act",))) for each in controllers]
    await asyncio.sleep(FOR_S)
    try:
        assert lab.plant.health > 0.96
        truth = lab.plant.truth()
        assert sum(truth.volumes_ul[name] for name in ("loop", "chamber", "spent")) == pytest.approx(45_000.0, rel=0.05)
        for controller, acts in zip(controllers, before, strict=True):
            kinds = {row.body["alarm"].partition(":")[0] for row in controller.journal.entries(kinds=("alarm.raised",))}
            assert "foreign_command" in kinds, kinds
            assert [run.state for run in controller.runs.list()] == [RunState.HELD], "no dose goes on next to another's"
            more = sum(1 for _ in controller.journal.entries(kinds=("act",))) - acts
            assert more < FOR_S / 3.0, "no fight: hardly more than the pulses of the heater"
            warm = controller.store.readings["t_chamber.temperature"]
            assert 36.5 < warm.value < 37.5
            heart = controller.store.state.actuators["reglo.heart"].status
            assert getattr(heart, "flow_ul_min", 0.0) > 900.0
    finally:
        stop.set()
        await asyncio.gather(*ticking)
        for controller in controllers:
            await controller.close()
        await lab.close()
