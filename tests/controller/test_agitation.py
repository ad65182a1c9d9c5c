"""Stirrers, shakers and rockers: driven by relay or generic Modbus, read back, or declared where a person drives them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from controller.alarms.states import AlarmState
from controller.core.clock import Clock
from controller.hazards.loading import load_checked_rig
from controller.hazards.table import hazards_of
from controller.hazards.terms import HazardVerdict
from controller.links.settings import drivers_accept
from controller.process.controller import Controller
from controller.process.core import Storage
from controller.rig.description import Rig
from controller.rig.loading import load_rig
from controller.rig.problems import RigError
from controller.safety.limits import basal_states
from drivers.commands import Level, Switch, SwitchStatus
from drivers.registry import MODELS
from sim.devices.modbus_coil_relay import ModbusCoilRelay
from sim.devices.modbus_generic import ModbusGeneric
from sim.lab import SimulatedLab

ROOT = Path(__file__).resolve().parents[2]
SHAKER = ROOT / "examples/devices/orbital-shaker.yaml"
TEXT = (ROOT / "tests/rigs/plates_192.yaml").read_text(encoding="utf-8")
DEVICES = f"""
agitators:
  shaker: {{kind: shaker, at: [north, south], speed: 65 rpm, setpoint: motor.setpoint, measured: motor.speed}}
  rocker: {{kind: rocker, at: [incubator], speed: 10 rpm}}
  stirrer: {{kind: stirrer, at: [north-A1], speed: 300 rpm, switch: relay.stirrer}}
devices:
  motor: {{model: modbus-generic, link: "sim:motor", address: "7", every: 5 s, settings: {{file: {SHAKER}}}}}
  relay:
    model: modbus-coil-relay
    link: "sim:relay"
    address: "1"
    every: 5 s
    channels: {{"0": {{point: stirrer}}, "1": {{point: spare}}}}
"""


def rig_of(folder: Path, text: str = DEVICES, *former: tuple[str, str]) -> Rig:
    path = folder / "rig.yaml"
    whole = TEXT.replace("\ndevices:\n", text, 1)
    for old, new in former:
        assert old in whole
        whole = whole.replace(old, new, 1)
    path.write_text(whole, encoding="utf-8")
    load_rig(path, models=MODELS, rules=(drivers_accept,))
    return load_checked_rig(path, models=MODELS)


@asynccontextmanager
async def living(rig: Rig, data: Path) -> AsyncIterator[tuple[Controller, SimulatedLab]]:
    lab = SimulatedLab(rig, seed=1)
    clock = Clock(follow_system=False, epoch=datetime(2026, 1, 1, tzinfo=UTC))
    controller = Controller(rig=rig, opener=lab.opener, storage=Storage(data, durable=False), clock=clock)
    await controller.start()
    stop = asyncio.Event()
    ticking = asyncio.create_task(controller.run(stop))
    try:
        yield controller, lab
    finally:
        stop.set()
        await ticking
        await controller.close()
        await lab.close()


def told(lab: SimulatedLab) -> float:
    motor = lab.devices["motor"]
    assert isinstance(motor, ModbusGeneric)
    return motor.told("setpoint")


def stirs(controller: Controller) -> bool:
    status = controller.store.actuators["relay.stirrer"].status
    return isinstance(status, SwitchStatus) and status.on


def standing(controller: Controller) -> set[str]:
    return {
        alarm.id
        for alarm in controller.alarms.active()
        if alarm.state is not AlarmState.RETURN_TO_NORMAL_UNACKNOWLEDGED
    }


def test_the_table_says_which_agitation_is_seen(tmp_path: Path) -> None:
    rows = {row.id: row for row in hazards_of(rig_of(tmp_path))}
    assert rows["agitation_stops_shaker"].verdict is HazardVerdict.COVERED
    assert rows["agitation_stops_shaker"].actuators == ("motor.setpoint",)
    assert "192" in rows["agitation_stops_shaker"].place
    assert rows["agitation_stops_stirrer"].verdict is HazardVerdict.RESIDUAL
    assert "no proof" in rows["agitation_stops_stirrer"].note
    assert rows["agitation_stops_rocker"].actuators == ()
    assert "a person sets its speed" in rows["agitation_stops_rocker"].note


def test_agitation_goes_on_when_the_controller_does_not(tmp_path: Path) -> None:
    basal = basal_states(rig_of(tmp_path))
    assert basal == {"motor.setpoint": Level(65.0), "relay.stirrer": Switch(True)}


@pytest.mark.virtual_time
async def test_a_shaker_that_jams_is_an_alarm_and_a_stirrer_that_is_switched_off_is_switched_on_again(
    tmp_path: Path,
) -> None:
    async with living(rig_of(tmp_path), tmp_path) as (controller, lab):
        await asyncio.sleep(300.0)
        assert told(lab) == 65.0
        assert stirs(controller)
        assert controller.store.readings["motor.speed"].value == pytest.approx(65.0, abs=1.0)
        assert not {each for each in standing(controller) if "agitation" in each or "command" in each}
        motor, relay = lab.devices["motor"], lab.devices["relay"]
        assert isinstance(motor, ModbusGeneric)
        assert isinstance(relay, ModbusCoilRelay)
        motor.jam("speed")
        await asyncio.sleep(240.0)
        assert "agitation_stopped:motor.speed" in standing(controller)
        assert told(lab) == 65.0
        motor.jam("speed", jammed=False)
        await asyncio.sleep(300.0)
        assert "agitation_stopped:motor.speed" not in standing(controller)
        relay.power_off()
        await asyncio.sleep(30.0)
        relay.power_on()
        await asyncio.sleep(60.0)
        assert stirs(controller), "a board that lost its power opens its relays; the stirrer is switched on again"
        rows = [row.body for row in controller.journal.entries(kinds=("act",))]
        assert {row["actuator"] for row in rows} == {"motor.setpoint", "relay.stirrer"}
        assert len(rows) < 12, "one row for each change, not one for each tick"


@pytest.mark.virtual_time
async def test_an_emergency_stop_leaves_agitation_running(tmp_path: Path) -> None:
    async with living(rig_of(tmp_path), tmp_path) as (controller, lab):
        await asyncio.sleep(120.0)
        await controller.emergency_stop("anna", "test")
        await asyncio.sleep(60.0)
        assert told(lab) == 65.0
        assert stirs(controller)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("switch: relay.stirrer", "switch: relay.stirer", "relay.stirer"),
        ("switch: relay.stirrer", "switch: balance.mass", "is a mass sensor"),
        ("setpoint: motor.setpoint", "setpoint: motor.speed", "is no level in rpm"),
        ("measured: motor.speed", "measured: motor.setpoint", "is no sensor in rpm"),
        ("measured: motor.speed", "measured: balance.mass", "a speed belongs here"),
        ("at: [incubator]", "at: [incubatr]", "is no vessel, plate or zone"),
        ("speed: 10 rpm", "speed: 10", "rpm"),
        ("speed: 10 rpm", "speed: 10 rpm, switch: relay.stirrer", "drives the rocker"),
        ("speed: 65 rpm", "speed: 65 rpm, switch: relay.spare", "one of switch and setpoint"),
        ("speed: 65 rpm", "speed: 65 rpm, min_speed: 70 rpm", "min_speed must be below speed"),
        ("measured: motor.speed", "measured: motor.speed, stale: 3 s", "counts as lost"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, old: str, new: str, says: str) -> None:
    with pytest.raises(RigError) as caught:
        rig_of(tmp_path, DEVICES, (old, new))
    assert any(says in problem.what or says in problem.fix for problem in caught.value.problems), caught.value.problems
