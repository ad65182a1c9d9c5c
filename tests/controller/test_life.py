"""The controller's life on the lab in software: real drivers, real bytes, a plant that answers for itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from controller.core.clock import Clock
from controller.hazards.rest import rest_periods
from controller.links.connect import ConnectError
from controller.process.controller import DEAD_AFTER_S, Controller
from controller.process.core import Storage
from controller.rig.loading import load_rig
from drivers.commands import LevelStatus, PumpStatus, Quality, SwitchStatus
from drivers.transport.opener import Opener, open_real
from sim.lab import SimulatedLab

RIG = load_rig(Path(__file__).parents[2] / "examples" / "rigs" / "bench.yaml")
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
TEMPERATURE, HEATER, HEART, DRAW = "t_chamber.temperature", "relay.heater", "reglo.heart", "reglo.draw"

pytestmark = pytest.mark.virtual_time


def controller_on(opener: Opener, data: Path) -> Controller:
    """Return a controller whose UTC goes on where that of an earlier one has ended."""
    now = EPOCH + timedelta(seconds=asyncio.get_running_loop().time())
    return Controller(
        rig=RIG, opener=opener, storage=Storage(data, durable=False), clock=Clock(follow_system=False, epoch=now)
    )


@asynccontextmanager
async def living(
    data: Path, *, seed: int = 1, warm_up_s: float = 30.0
) -> AsyncIterator[tuple[Controller, SimulatedLab]]:
    """A controller that ticks over a lab."""
    lab = SimulatedLab(RIG, seed=seed)
    controller = controller_on(lab.opener, data)
    stop = asyncio.Event()
    ticking: asyncio.Task[None] | None = None
    try:
        await controller.start()
        ticking = asyncio.create_task(controller.run(stop))
        await asyncio.sleep(warm_up_s)
        yield controller, lab
    finally:
        stop.set()
        if ticking is not None:
            await ticking
        await controller.close()
        await lab.close()


def alarms(controller: Controller) -> set[str]:
    return {alarm.id for alarm in controller.alarms.active()}


def on(controller: Controller, actuator: str) -> bool:
    match controller.store.actuators[actuator].status:
        case SwitchStatus(on=is_on):
            return is_on
        case PumpStatus(running=running):
            return running
        case LevelStatus(setpoint=setpoint):
            return setpoint > 0
    raise AssertionError(f"the status of {actuator} was never read")


async def test_an_hour_of_life(tmp_path: Path) -> None:
    async with living(tmp_path) as (controller, lab):
        temperatures = []
        for _ in range(60):
            await asyncio.sleep(60.0)
            temperatures.append(lab.plant.truth().temperature_c)
            assert controller.store.state.trips == ()
            assert controller.health().ok
        assert all(abs(celsius - 37.0) <= 0.3 for celsius in temperatures), temperatures
        readings = controller.store.state.readings
        assert readings[TEMPERATURE].value == pytest.approx(37.0, abs=0.3)
        assert readings["ph_loop.ph"].value == pytest.approx(7.35, abs=0.05)
        assert readings["do_loop.oxygen"].value == pytest.approx(90.0, abs=8.0)
        assert all(reading.quality is not Quality.MISSING for reading in readings.values())
        assert lab.plant.truth().ph["loop"] == pytest.approx(7.35, abs=0.08)
        assert alarms(controller) == set()
        assert controller.alarms.raised == 0
        assert not [row for row in controller.journal.entries() if row.kind.startswith("safety.")]
        gases = [
            controller.store.state.actuators[gas].status for gas in ("gas_air.flow", "gas_co2.flow", "gas_o2.flow")
        ]
        assert sum(gas.setpoint for gas in gases if isinstance(gas, LevelStatus)) == pytest.approx(50.0, abs=0.2)
        heart = controller.store.state.actuators[HEART].status
        assert isinstance(heart, PumpStatus)
        assert heart.flow_ul_min == pytest.approx(2000.0, rel=0.02)
        assert len(controller.history.query(TEMPERATURE, 0.0, 4e9, 10_000)) > 3600 / rest_periods(RIG)["t_chamber"] - 10
        controller.journal.verify()
        assert lab.plant.events == []


@pytest.mark.parametrize("dead", ["do_loop", "balance", "ph_spent", "p_filter", "gas_o2"])
async def test_C3_a_dead_device_leaves_others_sampled(dead: str, tmp_path: Path) -> None:
    """Also its neighbours on the same bus; it has its alarm, and comes back by itself."""
    async with living(tmp_path) as (controller, lab):
        lab.devices[dead].power_off()
        await asyncio.sleep(90.0)
        now_s = asyncio.get_running_loop().time()
        for point, reading in controller.store.readings.items():
            if point.partition(".")[0] == dead:
                assert reading.quality is Quality.MISSING, point
                continue
            assert reading.quality is not Quality.MISSING, point
            assert now_s - reading.at_s <= 2 * RIG.devices[point.partition(".")[0]].every_s + 5.0, point
        assert f"device_lost:{dead}" in alarms(controller)
        assert {each for each in alarms(controller) if each.startswith("device_lost")} == {f"device_lost:{dead}"}
        assert on(controller, HEART)
        lab.devices[dead].power_on()
        await asyncio.sleep(120.0)
        assert all(reading.quality is not Quality.MISSING for reading in controller.store.readings.values())
        lost = [alarm for alarm in controller.alarms.active() if alarm.id == f"device_lost:{dead}"]
        assert [alarm.state for alarm in lost] == ["return_to_normal_unacknowledged"]
        if dead != "p_filter":
            assert controller.store.state.trips == ()


async def test_C3_a_pulled_cable_takes_one_bus_and_the_heart_beats_on(tmp_path: Path) -> None:
    async with living(tmp_path) as (controller, lab):
        lab.lines["sim:rs485"].unplug()
        await asyncio.sleep(60.0)
        assert {each for each in alarms(controller) if each.startswith("device_lost")} == {
            "device_lost:line of p_heart"
        }
        assert controller.store.readings["ph_loop.ph"].quality is Quality.GOOD
        heart = await controller.gate.status(HEART)
        assert isinstance(heart, PumpStatus)
        # Without its pressure it slows to the basal flow, and no further.
        assert heart.flow_ul_min == pytest.approx(1600.0, rel=0.02)
        assert controller.health().ok


async def test_C3_a_rig_with_a_dead_device_starts_and_tells(tmp_path: Path) -> None:
    lab = SimulatedLab(RIG, seed=2)
    lab.devices["ph_loop"].power_off()
    controller = controller_on(lab.opener, tmp_path)
    try:
        await controller.start()
        assert [failure.device for failure in controller.devices.failures] == ["ph_loop"]
        assert controller.store.readings["ph_loop.ph"].quality is Quality.MISSING
        assert controller.store.readings["do_loop.oxygen"].quality is Quality.GOOD
        assert on(controller, HEART)
    finally:
        await controller.close()
        await lab.close()


@pytest.mark.parametrize("how", ["truly hot", "reads hot", "stuck", "silent", "below any probe"])
async def test_I1_I2_over_temperature_switches_the_heater_off(how: str, tmp_path: Path) -> None:
    async with living(tmp_path) as (controller, lab):
        probe = lab.plant.faults
        if how == "stuck":
            probe.sensor_stuck[TEMPERATURE] = 36.5  # so the regulator goes on heating
            await asyncio.sleep(1900.0)
        elif how == "truly hot":
            probe.sensor_offset[TEMPERATURE] = -2.0  # the regulator heats to 39 °C …
            await asyncio.sleep(3600.0)
            probe.sensor_offset[TEMPERATURE] = 0.0  # … and the probe is put right again
            assert lab.plant.truth().temperature_c > 38.6
        elif how == "silent":
            lab.devices["t_chamber"].power_off()
        else:
            probe.sensor_offset[TEMPERATURE] = 5.0 if how == "reads hot" else -50.0
        await asyncio.sleep(25.0)
        assert "temperature" in {trip.interlock for trip in controller.store.state.trips}
        assert not on(controller, HEATER)
        before_c = lab.plant.truth().temperature_c
        for _ in range(60):
            await asyncio.sleep(1.0)
            assert not on(controller, HEATER)
            if "temperature" not in {trip.interlock for trip in controller.store.state.trips}:
                break  # truly hot: it has cooled
        assert lab.plant.truth().temperature_c < before_c
        assert f"temperature:{TEMPERATURE}" in alarms(controller)
        rows = [row.body for row in controller.journal.entries() if row.kind == "safety.trip"]
        assert rows[0]["interlock"] == "temperature"
        assert on(controller, HEART)


async def test_I1_a_heater_that_was_switched_on_by_hand_while_hot_is_switched_off(tmp_path: Path) -> None:
    async with living(tmp_path) as (controller, lab):
        lab.plant.faults.sensor_offset[TEMPERATURE] = 5.0
        await asyncio.sleep(25.0)
        assert not on(controller, HEATER)
        lab.devices["relay"].receive(bytes.fromhex("0305 0000 FF00".replace(" ", "")) + _crc("03050000FF00"))
        await asyncio.sleep(0.5)
        assert lab.devices["relay"].closed[0]  # type: ignore[attr-defined]
        await asyncio.sleep(10.0)
        assert not lab.devices["relay"].closed[0]  # type: ignore[attr-defined]


def _crc(message: str) -> bytes:
    crc = 0xFFFF
    for byte in bytes.fromhex(message):
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xA001 if crc & 1 else 0)
    return crc.to_bytes(2, "little")


async def test_a_kinked_heart_line_stops_the_heart_and_tells(tmp_path: Path) -> None:
    async with living(tmp_path) as (controller, lab):
        lab.plant.faults.sensor_offset["p_heart.pressure"] = 80.0
        await asyncio.sleep(15.0)
        assert not on(controller, HEART)
        assert "over_pressure_heart:p_heart.pressure" in alarms(controller)
        lab.plant.faults.sensor_offset.clear()
        await asyncio.sleep(90.0)
        assert on(controller, HEART), "it tries again once the pressure has been gone for a minute"


async def test_C5_open_real_refuses_sim_links_and_all_failures_are_in_one_table(tmp_path: Path) -> None:
    controller = controller_on(open_real, tmp_path)
    with pytest.raises(ConnectError) as caught:
        await controller.start()
    assert {failure.device for failure in caught.value.failures} == set(RIG.devices)
    assert all("lab in software" in failure.error for failure in caught.value.failures)
    assert len(caught.value.table.splitlines()) == len(RIG.devices)
    assert "nothing was moved" in str(caught.value)
    await controller.close()


async def test_when_nothing_answers_every_failure_is_told_at_once(tmp_path: Path) -> None:
    lab = SimulatedLab(RIG, seed=1)
    for device in lab.devices.values():
        device.power_off()
    controller = controller_on(lab.opener, tmp_path)
    begin_s = asyncio.get_running_loop().time()
    with pytest.raises(ConnectError) as caught:
        await controller.start()
    assert asyncio.get_running_loop().time() - begin_s < 30.0, "links are tried side by side"
    assert {failure.device: failure.link for failure in caught.value.failures} == {
        name: spec.link for name, spec in RIG.devices.items()
    }
    for name, spec in RIG.devices.items():
        assert any(name in line and spec.link in line for line in caught.value.table.splitlines())
    await controller.close()
    await lab.close()


async def test_D6_health_fails_when_not_ticking(tmp_path: Path) -> None:
    lab = SimulatedLab(RIG, seed=1)
    controller = controller_on(lab.opener, tmp_path)
    assert not controller.health().ok
    try:
        await controller.start()
        stop = asyncio.Event()
        ticking = asyncio.create_task(controller.run(stop))
        await asyncio.sleep(10.0)
        assert controller.health().ok
        assert controller.health().tick_age_s <= 1.0
        ticking.cancel()  # the loop, the page and the sampling go on; the ticks do not
        await asyncio.sleep(DEAD_AFTER_S - 1.5)
        assert controller.health().ok
        await asyncio.sleep(3.0)
        health = controller.health()
        assert not health.ok
        assert "has not ticked" in health.reasons[0]
        assert controller.store.readings[TEMPERATURE].at_s > asyncio.get_running_loop().time() - 5.0
    finally:
        await controller.close()
        await lab.close()


async def test_an_orderly_end_leaves_the_heart_at_its_basal_flow_and_all_else_at_rest(tmp_path: Path) -> None:
    lab = SimulatedLab(RIG, seed=1)
    controller = controller_on(lab.opener, tmp_path)
    await controller.start()
    stop = asyncio.Event()
    ticking = asyncio.create_task(controller.run(stop))
    await asyncio.sleep(60.0)
    stop.set()
    await ticking
    await controller.close()
    reglo, relay = lab.plant.commanded_ul_min, lab.plant.switches
    assert reglo[HEART] == pytest.approx(1600.0, rel=0.02)
    assert all(flow == 0.0 for name, flow in reglo.items() if name != HEART)
    assert not any(relay.values())
    await lab.close()


async def test_R3_start_and_close_leave_nothing_behind_even_when_start_fails(tmp_path: Path) -> None:
    """conftest looks for tasks that are left."""
    lab = SimulatedLab(RIG, seed=1)
    for line in lab.lines.values():
        line.unplug()
    controller = controller_on(lab.opener, tmp_path)
    with pytest.raises(ConnectError):
        await controller.start()
    await controller.close()
    await controller.close()
    await lab.close()


async def test_L1_an_unacknowledged_alarm_stands_after_a_restart(tmp_path: Path) -> None:
    async with living(tmp_path) as (controller, lab):
        lab.lines["sim:balance"].unplug()
        await asyncio.sleep(60.0)
        controller.alarms.event("stray_flow", "dose_base.pump", "its count went on")
        assert alarms(controller) == {"device_lost:balance", "stray_flow:dose_base.pump"}
        controller.alarms.acknowledge("device_lost:balance", "anna")
        raised = controller.journal.last("alarm.raised")
    async with living(tmp_path, warm_up_s=5.0) as (controller, _):  # the balance answers again
        assert alarms(controller) == {"device_lost:balance", "stray_flow:dose_base.pump"}
        await asyncio.sleep(60.0)
        assert alarms(controller) == {"stray_flow:dose_base.pump"}
        latest = controller.journal.last("alarm.raised")
        assert latest is not None
        assert raised is not None
        assert latest.seq == raised.seq, "nothing was raised again"
