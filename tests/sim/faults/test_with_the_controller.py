"""The real controller under faults: it lives, tells what it must, keeps the tissue alive, and all is well afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from controller.alarms.states import AlarmState
from controller.core.clock import Clock
from controller.process.controller import Controller
from controller.process.core import Storage
from drivers.commands import PumpStatus, Quality
from sim.devices.ezo_uart import EzoUart
from sim.devices.ismatec_reglo_icc import FACTORY_TUBING, IsmatecRegloIcc
from sim.faults.injector import Injector
from sim.faults.kinds import KINDS
from sim.faults.schedule import Fault
from sim.lab import SimulatedLab
from tests.sim.faults.bench import RIG

RETURNED = AlarmState.RETURN_TO_NORMAL_UNACKNOWLEDGED

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
BEGIN_S = 60.0
LOST = 0.05
"""What a survivable fault may cost of the viability."""

pytestmark = pytest.mark.virtual_time


@asynccontextmanager
async def under(*faults: Fault, data: Path) -> AsyncIterator[tuple[Controller, SimulatedLab, Injector]]:
    lab = SimulatedLab(RIG, seed=1)
    controller = Controller(
        rig=RIG, opener=lab.opener, storage=Storage(data, durable=False), clock=Clock(follow_system=False, epoch=EPOCH)
    )
    stop = asyncio.Event()
    tasks: list[asyncio.Task[None]] = []
    try:
        await controller.start()
        tasks.append(asyncio.create_task(controller.run(stop)))
        injector = Injector(lab, faults, seed=1)
        tasks.append(asyncio.create_task(injector.run()))
        yield controller, lab, injector
    finally:
        stop.set()
        await asyncio.gather(*tasks)
        await controller.close()
        await lab.close()


def flows(controller: Controller) -> bool:
    heart = controller.store.actuators["reglo.heart"].status
    return isinstance(heart, PumpStatus) and heart.running and heart.flow_ul_min == pytest.approx(2000.0, rel=0.02)


TOLD = [
    ("unplug", "sim:reglo"),
    ("unplug", "sim:gas"),
    ("replug", "sim:balance"),
    ("power_cut", "t_chamber"),
    ("silent", "relay"),
    ("silent", "dose_base"),
    ("other_address", "p_filter"),
]
BORNE = [
    ("drop", "sim:reglo", 0.1),
    ("delay", "sim:balance", 0.1),
    ("duplicate", "sim:rs485", 1.0),
    ("truncate", "sim:t_chamber", 0.5),
    ("echo", "sim:gas", 0.0),
    ("half_open", "sim:reglo", 0.0),
    ("wrong_address", "sim:gas", 0.5),
    ("ignores", "gas_o2", 0.0),
    ("reboot", "relay", 0.0),
    ("reboot", "balance", 0.0),
    ("noise", "p_heart.pressure", 20.0),
    ("stuck", "do_loop.oxygen", 0.0),
]


@pytest.mark.parametrize(("kind", "target"), TOLD)
async def test_who_must_be_told_is_told_in_time_and_all_is_well_afterwards(
    kind: str, target: str, tmp_path: Path
) -> None:
    what = KINDS[kind]
    fault = Fault(kind, target, BEGIN_S, 120.0)
    async with under(fault, data=tmp_path) as (controller, lab, _):
        await asyncio.sleep(BEGIN_S + what.told_within_s)
        raised = {alarm.kind for alarm in controller.alarms.active()}
        assert raised & what.alarms, raised
        await asyncio.sleep(900.0)
        assert controller.health().ok
        assert flows(controller)
        assert lab.plant.truth().viability > 0.97 - LOST
        assert all(reading.quality is not Quality.MISSING for reading in controller.store.readings.values())
        lasting = [alarm.id for alarm in controller.alarms.active() if alarm.kind in what.alarms]
        assert all(alarm.state is RETURNED for alarm in controller.alarms.active() if alarm.id in lasting), lasting


@pytest.mark.parametrize(("kind", "target", "amount"), BORNE)
async def test_what_is_borne_leaves_nothing_behind(kind: str, target: str, amount: float, tmp_path: Path) -> None:
    fault = Fault(kind, target, BEGIN_S, 0.0 if KINDS[kind].momentary else 180.0, amount)
    async with under(fault, data=tmp_path) as (controller, lab, injector):
        await asyncio.sleep(BEGIN_S + 900.0)
        assert [each.ended_s is not None for each in injector.applied] == [True]
        assert controller.health().ok
        assert flows(controller)
        assert lab.plant.truth().viability > 0.97 - LOST
        assert all(reading.quality is not Quality.MISSING for reading in controller.store.readings.values())
        assert not controller.store.state.trips
        controller.journal.verify()


async def test_a_short_kink_of_the_heart_raises_an_alarm_and_flow_comes_back(tmp_path: Path) -> None:
    fault = Fault("heart_occlusion", "heart", BEGIN_S, KINDS["heart_occlusion"].survivable_for_s)
    async with under(fault, data=tmp_path) as (controller, lab, _):
        await asyncio.sleep(BEGIN_S + 30.0)
        assert {alarm.kind for alarm in controller.alarms.active()} & KINDS["heart_occlusion"].alarms
        assert not flows(controller)
        await asyncio.sleep(420.0)
        assert flows(controller), "no operator had to act"
        assert lab.plant.truth().viability > 0.96


@pytest.mark.parametrize("point", ["ph_loop.ph", "do_loop.oxygen", "p_heart.pressure", "ph_spent.ph"])
async def test_I2_a_probe_that_sticks_is_told_and_believed_no_more(point: str, tmp_path: Path) -> None:
    """Each was believed for as long as it lasted; a stuck pressure probe blinded its interlock."""
    async with under(Fault("stuck", point, 600.0, 900.0), data=tmp_path) as (controller, lab, _):
        await asyncio.sleep(600.0 + 420.0)
        assert [alarm.source for alarm in controller.alarms.active() if alarm.kind == "sensor_flat"] == [point]
        assert controller.store.readings[point].quality is Quality.STALE
        heart = controller.store.actuators["reglo.heart"].status
        assert isinstance(heart, PumpStatus)
        believed = 1600.0 if point == "p_heart.pressure" else 2000.0
        assert heart.flow_ul_min == pytest.approx(believed, rel=0.02), "without its gauge the heart has its basal flow"
        await asyncio.sleep(700.0)
        assert controller.store.readings[point].quality is Quality.GOOD
        assert flows(controller)
        assert lab.plant.truth().viability > 0.96


async def test_gas_without_co2_is_told_before_the_medium_is_alkaline(tmp_path: Path) -> None:
    async with under(Fault("power_cut", "gas_co2", 600.0, 300.0), data=tmp_path) as (controller, lab, _):
        while not (told := [alarm for alarm in controller.alarms.active() if alarm.kind == "acidity"]):
            await asyncio.sleep(5.0)
        assert lab.plant.truth().ph["loop"] < 7.9
        assert told[0].raised_s < 600.0 + 200.0
        await asyncio.sleep(1800.0)
        assert [alarm.state for alarm in controller.alarms.active() if alarm.kind == "acidity"] == [
            "return_to_normal_unacknowledged"
        ]


async def test_medium_that_was_sour_when_its_probe_fell_silent_is_not_said_to_be_well(tmp_path: Path) -> None:
    """The alarm once cleared when its probe answered again, and was raised a minute later."""
    faults = Fault("power_cut", "gas_co2", 600.0, 900.0), Fault("unplug", "sim:ph_loop", 900.0, 200.0)
    async with under(*faults, data=tmp_path) as (controller, lab, _):
        await asyncio.sleep(890.0)
        for _ in range(120):  # before, while it is unplugged, and after
            (told,) = [alarm for alarm in controller.alarms.active() if alarm.kind == "acidity"]
            assert told.state is AlarmState.UNACKNOWLEDGED
            await asyncio.sleep(5.0)
        assert lab.plant.truth().ph["loop"] > 7.7


async def test_a_heart_that_turns_backwards_is_told_before_its_chamber_is_dry(tmp_path: Path) -> None:
    """No reading but the sign of the pressure shows it; once nothing did."""
    async with under(Fault("reversed", "reglo.heart", BEGIN_S, 120.0), data=tmp_path) as (controller, lab, _):
        await asyncio.sleep(BEGIN_S + 10.0)
        assert "heart_backwards" in {alarm.kind for alarm in controller.alarms.active()}
        assert lab.plant.truth().volumes_ul["chamber"] > 1600.0
        await asyncio.sleep(600.0)
        assert flows(controller)
        told = [alarm.state for alarm in controller.alarms.active() if alarm.kind == "heart_backwards"]
        assert told == [RETURNED]


async def test_a_heart_that_was_kinked_again_and_again_flows_again_without_anybody(tmp_path: Path) -> None:
    """Three trips within half an hour once latched it until a reset; oxygen in the chamber fell to a third."""
    kinks = [Fault("heart_occlusion", "heart", BEGIN_S + 300.0 * number, 20.0) for number in range(4)]
    kinks.append(Fault("heart_occlusion", "heart", BEGIN_S + 1800.0, 900.0))
    async with under(*kinks, data=tmp_path) as (controller, lab, _):
        await asyncio.sleep(BEGIN_S + 1800.0 - 1.0)
        assert flows(controller)
        assert lab.plant.truth().viability > 0.96
        await asyncio.sleep(901.0)
        assert ("over_pressure_heart", False) in [
            (trip.interlock, trip.latched) for trip in controller.store.state.trips
        ]
        await asyncio.sleep(300.0)
        assert lab.plant.truth().flows_ul_min["heart"] > 900.0, "tried at its basal flow"
        await asyncio.sleep(121.0)
        assert flows(controller)
        raised = [row.body["alarm"] for row in controller.journal.entries(kinds=("alarm.raised",))]
        assert len([name for name in raised if name.startswith("over_pressure_heart")]) <= 5


@pytest.mark.parametrize("name", ["ph_loop", "t_chamber", "dose_base"])
async def test_C1_a_circuit_whose_response_codes_were_turned_off_is_found_again(name: str, tmp_path: Path) -> None:
    """One flipped bit in `*OK,1` on a garbled line does this, or a person at a terminal."""
    async with under(data=tmp_path) as (controller, lab, _):
        await asyncio.sleep(BEGIN_S)
        circuit = lab.devices[name]
        assert isinstance(circuit, EzoUart)
        assert circuit.response_codes
        circuit.response_codes = False
        await asyncio.sleep(300.0)
        assert circuit.response_codes
        assert all(reading.quality is not Quality.MISSING for reading in controller.store.readings.values())
        assert not [each.id for each in controller.alarms.active() if each.state == "unacknowledged"]


@pytest.mark.parametrize("started", [False, True])
async def test_C1_a_pump_that_rebooted_with_other_tubing_is_set_right_before_it_runs_on(
    started: bool, tmp_path: Path
) -> None:
    """By the tubing that it has stored it would move a fifth of what it says, without an alarm."""
    fault = Fault("eeprom", "reglo", BEGIN_S, 600.0)
    async with under(fault, data=tmp_path) as (controller, lab, _):
        await asyncio.sleep(BEGIN_S + 0.1)
        pump = lab.devices["reglo"]
        assert isinstance(pump, IsmatecRegloIcc)
        assert pump.channels["1"].settings.tubing == FACTORY_TUBING
        if started:  # as by a lease that was renewed at this very moment
            pump.receive(b"1~1\r1M\r1f2000+0\r1H\r")
            assert pump.channels["1"].running
        await asyncio.sleep(60.0)
        before = lab.plant.truth().moved_ul["heart"]
        await asyncio.sleep(60.0)
        assert lab.plant.truth().moved_ul["heart"] - before == pytest.approx(2000.0, rel=0.1)
        assert flows(controller)
        assert pump.channels["1"].settings.tubing == 102
