"""Air without an answer: its flow controller is closed without power, and goes on without its link. Checked on the plant."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from controller.core.clock import Clock
from controller.process.controller import Controller
from controller.process.core import Storage
from controller.rig.description import required
from controller.rig.loading import load_rig
from sim.faults.injector import Injector
from sim.faults.schedule import Fault
from sim.lab import SimulatedLab

RIG = load_rig(Path(__file__).parents[2] / "examples" / "rigs" / "bench.yaml")

pytestmark = pytest.mark.virtual_time


@asynccontextmanager
async def living(data: Path) -> AsyncIterator[tuple[Controller, SimulatedLab]]:
    lab = SimulatedLab(RIG, seed=1)
    clock = Clock(follow_system=False, epoch=datetime(2026, 1, 1, tzinfo=UTC))
    controller = Controller(rig=RIG, opener=lab.opener, storage=Storage(data, durable=False), clock=clock)
    await controller.start()
    stop = asyncio.Event()
    ticking = asyncio.create_task(controller.run(stop))
    await asyncio.sleep(300.0)
    try:
        yield controller, lab
    finally:
        stop.set()
        await ticking
        await controller.close()
        await lab.close()


async def test_I1_an_hour_without_air_does_no_harm(tmp_path: Path) -> None:
    async with living(tmp_path) as (controller, lab):
        before = lab.plant.truth().viability
        lab.devices["gas_air"].power_off()
        acidities = []
        for _ in range(360):
            await asyncio.sleep(10.0)
            acidities.append(lab.plant.truth().ph["chamber"])
        assert min(acidities) > 7.1
        assert max(acidities) < 7.65
        assert lab.plant.truth().viability > before - 0.001
        standing = {alarm.id for alarm in controller.alarms.active()}
        assert {"device_lost:gas_air", "air_lost:gas_air.flow"} <= standing
        lab.devices["gas_air"].power_on()
        await asyncio.sleep(1800.0)
        truth = lab.plant.truth()
        assert truth.ph["chamber"] == pytest.approx(required(RIG.organs.lung, "organs.lung").ph_setpoint, abs=0.1)
        assert controller.store.readings["do_loop.oxygen"].value < 110.0, "and there is no more oxygen than before"


async def test_I1_air_that_flows_unheard_is_found_out_after_a_sour_moment(tmp_path: Path) -> None:
    async with living(tmp_path) as (controller, lab):
        injector = Injector(lab, [], seed=1)
        injector.inject(Fault("silent", "gas_air", at_s=0.0))
        await asyncio.sleep(120.0)
        injector.inject(Fault("offset", "ph_loop.ph", at_s=0.0, for_s=60.0, amount=-0.3))
        await asyncio.sleep(300.0)
        assert "gas_mixture:gas_co2.flow" in {alarm.id for alarm in controller.alarms.active()}
        await asyncio.sleep(3600.0)
        assert lab.plant.truth().ph["chamber"] == pytest.approx(
            required(RIG.organs.lung, "organs.lung").ph_setpoint, abs=0.1
        )
        injector.clear()
