"""A controller whose rig has three hearts, on the lab in software: one in trouble, two that go on."""

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
from controller.rig.description import Rig
from drivers.commands import PumpStatus
from sim.lab import SimulatedLab
from tests.controller.safety.hearts import HEARTS, gauge, pump, three_hearts

pytestmark = pytest.mark.virtual_time

LEFT = HEARTS[0]
OTHERS = HEARTS[1:]


def on_pumps_of_their_own() -> Rig:
    """The rig with three hearts, each on a pump and a line of its own."""
    rig = three_hearts()
    hearts = rig.devices["hearts"]
    devices = {name: device for name, device in rig.devices.items() if name != "hearts"}
    lines = dict(rig.lines)
    for number, heart in enumerate(HEARTS, 1):
        channel = {"1": hearts.channels[str(number)]}
        devices[f"h_{heart}"] = hearts.model_copy(update={"link": f"sim:h_{heart}", "channels": channel})
        lines[f"to_{heart}"] = lines[f"to_{heart}"].model_copy(update={"pump": f"h_{heart}.{heart}"})
    limits = {
        f"to_{heart}": rig.safety.over_pressure[f"to_{heart}"].model_copy(update={"trips": (f"h_{heart}.{heart}",)})
        for heart in HEARTS
    }
    safety = rig.safety.model_copy(update={"over_pressure": limits})
    return rig.model_copy(update={"devices": devices, "lines": lines, "safety": safety})


@asynccontextmanager
async def laboratory(rig: Rig) -> AsyncIterator[SimulatedLab]:
    lab = SimulatedLab(rig, seed=1)
    yield lab
    await lab.close()


@asynccontextmanager
async def living(lab: SimulatedLab, rig: Rig, data: Path) -> AsyncIterator[Controller]:
    """A controller that has ticked for half a minute."""
    clock = Clock(follow_system=False, epoch=datetime(2026, 1, 1, tzinfo=UTC))
    controller = Controller(rig=rig, opener=lab.opener, storage=Storage(data, durable=False), clock=clock)
    stop = asyncio.Event()
    await controller.start()
    ticking = asyncio.create_task(controller.run(stop))
    try:
        await asyncio.sleep(30.0)
        yield controller
    finally:
        stop.set()
        await ticking
        await controller.close()


def flow(controller: Controller, actuator: str) -> float:
    status = controller.store.actuators[actuator].status
    assert isinstance(status, PumpStatus)
    return status.flow_ul_min if status.running else 0.0


def alarms(controller: Controller) -> set[str]:
    return {alarm.id for alarm in controller.alarms.active() if "heart" in alarm.kind}


async def test_every_heart_circulates_and_ends_at_its_basal_flow(tmp_path: Path) -> None:
    async with laboratory(three_hearts()) as lab:
        async with living(lab, three_hearts(), tmp_path) as controller:
            await asyncio.sleep(300.0)
            assert [flow(controller, pump(heart)) for heart in HEARTS] == pytest.approx([2000.0] * 3, rel=0.01)
            rows = list(controller.journal.entries(kinds=("act",)))
            hearts = [row.body for row in rows if row.body["command"] == ["run", 2000.0]]
            assert sorted((body["actuator"], body["by"]) for body in hearts) == [
                (pump(heart), f"regulator:heart.{heart}") for heart in HEARTS
            ], "one row each: to renew a lease costs none"
            assert not controller.alarms.active()
        assert [lab.plant.commanded_ul_min[pump(heart)] for heart in HEARTS] == pytest.approx([1600.0] * 3, rel=0.02)


async def test_a_blocked_line_stops_one_heart_and_tells_which(tmp_path: Path) -> None:
    async with laboratory(three_hearts()) as lab, living(lab, three_hearts(), tmp_path) as controller:
        lab.plant.faults.sensor_offset[gauge(LEFT)] = 80.0
        await asyncio.sleep(15.0)
        assert flow(controller, pump(LEFT)) == 0.0
        assert [flow(controller, pump(heart)) for heart in OTHERS] == pytest.approx([2000.0] * 2, rel=0.01)
        assert alarms(controller) == {f"over_pressure_heart:{gauge(LEFT)}", f"no_heart_flow:{pump(LEFT)}"}
        rows = [row.body["interlock"] for row in controller.journal.entries(kinds=("safety.trip",))]
        assert set(rows) >= {f"over_pressure_heart.to_{LEFT}", f"no_heart_flow.{LEFT}"}
        assert not any(heart in row for heart in OTHERS for row in rows)


async def test_a_pump_that_does_not_answer_keeps_no_other_heart_from_its_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each heart's regulator submits for itself: that of the silent one hangs for minutes."""
    rig = on_pumps_of_their_own()
    async with laboratory(rig) as lab, living(lab, rig, tmp_path) as controller:

        async def never(*_: object, **__: object) -> None:
            await asyncio.Event().wait()

        with monkeypatch.context() as patch:
            await controller.gate.basal(f"h_{LEFT}.{LEFT}", "so that its regulator sends its flow again, and waits")
            patch.setattr(controller.devices._links[f"sim:h_{LEFT}"], "exchange", never)
            await asyncio.sleep(240.0)
            assert [flow(controller, f"h_{heart}.{heart}") for heart in OTHERS] == pytest.approx([2000.0] * 2, rel=0.01)
            expired = [alarm.source for alarm in controller.alarms.active() if alarm.kind == "lease_expired"]
            assert not set(expired) & {f"h_{heart}.{heart}" for heart in OTHERS}
            assert alarms(controller) == {f"no_heart_flow:h_{LEFT}.{LEFT}"}, "its status is old"
