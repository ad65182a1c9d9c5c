"""The rescue: what the guard does when the controller is gone, in memory and in virtual time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from controller.core.clock import Clock
from controller.guard.guarding import guard_plan
from controller.guard.plan import GuardedDevice, GuardPlan
from controller.guard.rescue import Rescue
from controller.links.connect import device_config
from controller.process.controller import Controller
from controller.process.core import Storage
from controller.rig.description import Rig
from controller.rig.loading import load_rig
from controller.safety.terms import Intent
from drivers.commands import Command, Dispense, Level, Run, Stop, Switch
from drivers.device import DeviceConfig
from drivers.registry import build, open_link
from drivers.transport.opener import Streams, open_real
from drivers.transport.url import LineSettings, LinkUrl
from sim.devices.alicat_mfc import AlicatMfc
from sim.devices.longer import Longer as SimLonger
from sim.lab import SimulatedLab
from sim.serving import open_in_memory
from tests.controller.safety.hearts import HEARTS, dish, pump, three_hearts
from tests.guard.plants import BASAL_AIR, BASAL_CO2, RIG, Watched
from tests.sim.bench import RecordingPlant, device_on_a_line

TWO_SELECTORS = Path(__file__).resolve().parents[1] / "rigs" / "two_selectors.yaml"
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


# --- the plan ---------------------------------------------------------------------------------------------


def test_the_plan_leaves_doses_alone_and_survives_being_written() -> None:
    plan = guard_plan(RIG)
    assert plan.rest == {
        "reglo.heart": Run(1600.0),
        "reglo.return": Stop(),
        "relay.heater": Switch(False),
        "relay.return_valve": Switch(False),
        "gas_air.flow": Level(BASAL_AIR),
        "gas_co2.flow": Level(BASAL_CO2),
        "gas_o2.flow": Level(0.0),
    }
    assert plan.dosing == ("reglo.draw", "reglo.discard", "dose_fresh.pump", "dose_glucose.pump", "dose_base.pump")
    assert plan.valves == {"relay.return_valve": ("reglo.return",)}
    assert plan.only_with == {"gas_co2.flow": "gas_air.flow"}
    assert GuardPlan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize("rest", [["dispense", 1.0], ["run", "fast"], ["switch", 1.0], []])
def test_a_plan_that_makes_no_sense_is_an_error_at_once(rest: list[object]) -> None:
    plan = json.loads(guard_plan(RIG).to_json())
    plan["rest"]["reglo.heart"] = rest
    with pytest.raises(ValueError, match="no state to rest in"):
        GuardPlan.from_json(json.dumps(plan))


def test_a_dose_is_no_state_to_rest_in() -> None:
    plan = replace(guard_plan(RIG), rest={"reglo.heart": Dispense(1.0, 1.0, "x")})
    with pytest.raises(ValueError, match="no state to rest in"):
        plan.to_json()


# --- in memory --------------------------------------------------------------------------------------------


async def abandoned(lab: SimulatedLab, data: Path, *, mid_return: bool) -> None:
    """A controller that was in the middle of things and is gone, its outputs as they were."""
    async with leaving(RIG, lab, data) as controller:
        # The last thing it did was to heat, to draw or to give back.
        assert (await controller.gate.submit(intent("relay.heater", Switch(True, 60.0)))).ok
        if mid_return:
            assert (await controller.gate.submit(intent("dose_fresh.pump", Dispense(6000.0, 10_000.0, "f")))).ok
            await asyncio.sleep(60.0)
            controller.ledger.moved("feed", 6000.0, 50.0, "test")
            await asyncio.sleep(2.0)
            assert (await controller.gate.submit(intent("relay.return_valve", Switch(True)))).ok
            outcome = await controller.gate.submit(intent("reglo.return", Dispense(5000.0, 4000.0, "r")))
        else:
            outcome = await controller.gate.submit(intent("reglo.draw", Dispense(2000.0, 4000.0, "d")))
        assert outcome.ok, outcome


@asynccontextmanager
async def leaving(rig: Rig, lab: SimulatedLab, data: Path) -> AsyncIterator[Controller]:
    """A controller that has lived for a minute, and leaves everything as it is in the end, like one that is killed."""
    clock = Clock(follow_system=False, epoch=EPOCH)
    controller = Controller(rig=rig, opener=lab.opener, storage=Storage(data, durable=False), clock=clock)
    stop = asyncio.Event()
    await controller.start()
    ticking = asyncio.create_task(controller.run(stop))
    await asyncio.sleep(60.0)
    yield controller
    stop.set()
    await ticking
    await controller.close(leave_running=True)


def intent(actuator: str, command: Command) -> Intent:
    return Intent(actuator, command, "test", "a test")


@pytest.mark.virtual_time
@pytest.mark.parametrize("mid_return", [False, True], ids=["in a draw", "in a return"])
async def test_A1_everything_is_at_rest_within_two_seconds(mid_return: bool, tmp_path: Path) -> None:
    plant = Watched()
    lab = SimulatedLab(RIG, seed=5, plant=plant)
    await abandoned(lab, tmp_path, mid_return=mid_return)
    assert plant.told["reglo.heart"] == pytest.approx(2000.0, rel=0.005)
    assert plant.told["relay.heater"] == 1.0
    plant.order.clear()
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    said: list[str] = []
    left = await Rescue(guard_plan(RIG), lab.opener, said.append).run(60.0)
    assert left == []
    assert loop.time() - begun_s < 2.0
    assert plant.at_basal(), plant.told
    assert len(said) == 7
    if mid_return:
        assert plant.order.index("reglo.return 0") < plant.order.index("relay.return_valve 0")
    else:
        assert plant.told["reglo.draw"] > 0, "a dose ends by its device and stays measurable"
        await asyncio.sleep(60.0)
        assert plant.told["reglo.draw"] == 0.0
    assert plant.events == []
    await lab.close()


@pytest.mark.virtual_time
async def test_A1_every_heart_is_brought_to_its_basal_flow() -> None:
    """One runs at its working flow, one too fast, and one stands."""
    rig = three_hearts()
    plant = Watched(rig)
    lab = SimulatedLab(rig, seed=5, plant=plant)
    spec = rig.devices["hearts"]
    link = open_link(spec.link, [spec.model], lab.opener)
    pumps = build(spec.model, link, device_config("hearts", spec)).actuators
    await link.start()
    await pumps["left"].apply(Run(2000.0))
    await pumps["right"].apply(Run(4000.0))
    await link.close()
    assert [plant.told.get(pump(heart), 0.0) for heart in HEARTS] == pytest.approx([2000.0, 0.0, 4000.0], rel=0.005)
    assert await asyncio.wait_for(Rescue(guard_plan(rig), lab.opener, lambda text: None).run(60.0), 2.0) == []
    assert [plant.told[pump(heart)] for heart in HEARTS] == pytest.approx([1600.0] * 3, rel=0.005)
    await lab.close()


@pytest.mark.virtual_time
async def test_A1_a_pump_stops_before_its_selector_moves_to_rest() -> None:
    """A dose into a well is under way, and its pump would go on into the wells that the rotor passes."""
    rig = load_rig(TWO_SELECTORS)
    plan = guard_plan(rig)
    assert plan.valves == {"giver.valve": ("reglo.dose",), "taker.valve": ("reglo.take",)}
    plant = Watched(rig)
    lab = SimulatedLab(rig, seed=5, plant=plant)
    for name, point, command in (
        ("giver", "valve", Level(13.0)),
        ("reglo", "dose", Dispense(2000.0, 500.0, "d")),
    ):
        spec = rig.devices[name]
        link = open_link(spec.link, [spec.model], lab.opener)
        actuator = build(spec.model, link, device_config(name, spec)).actuators[point]
        await link.start()
        await actuator.apply(command)
        await link.close()
    assert plant.told["giver.valve"] == 13.0
    assert plant.told["reglo.dose"] > 400.0
    plant.order.clear()
    assert await asyncio.wait_for(Rescue(plan, lab.opener, lambda text: None).run(60.0), 3.0) == []
    assert plant.order == ["reglo.dose 0", "giver.valve 14", "giver.valve 15", "giver.valve 16"]
    await lab.close()


@pytest.mark.virtual_time
async def test_a_rig_without_outputs_has_nothing_to_be_rescued() -> None:
    said: list[str] = []
    assert await Rescue(guard_plan(dish()), open_real, said.append).run(60.0) == []
    assert said == []


TIMED = {
    "longer": ("longer-0xe9", {"drive": "bt100", "ul_per_rev": 100.0, "max_rpm": 100.0}),
    "watson-marlow 323": ("watson-marlow-ascii", {"series": "323", "ul_per_rev": 100.0, "max_rpm": 100.0}),
}
"""Pumps whose doses are ended by their drivers; when the controller is gone, they are not ended."""


@pytest.mark.virtual_time
@pytest.mark.parametrize("pump", TIMED)
async def test_A1_a_pump_that_cannot_end_its_dose_is_stopped(pump: str, tmp_path: Path) -> None:
    model, settings = TIMED[pump]
    fresh = RIG.devices["dose_fresh"].model_copy(update={"model": model, "settings": settings})
    rig = RIG.model_copy(update={"devices": {**RIG.devices, "dose_fresh": fresh}})
    plant = Watched(rig)
    lab = SimulatedLab(rig, seed=5, plant=plant)
    async with leaving(rig, lab, tmp_path) as controller:
        assert (await controller.gate.submit(intent("dose_fresh.pump", Dispense(2000.0, 4000.0, "d")))).ok
    assert plant.told["dose_fresh.pump"] > 0.0
    assert await asyncio.wait_for(Rescue(guard_plan(rig), lab.opener, lambda text: None).run(60.0), 2.0) == []
    assert plant.told["dose_fresh.pump"] == 0.0
    await lab.close()


@pytest.mark.virtual_time
@pytest.mark.parametrize("was", [0.0, 1.5, 4.5], ids=["shut", "below basal", "above basal"])
async def test_CO2_is_never_raised_before_air_flows_and_shut_when_air_does_not_answer(was: float) -> None:
    plant = Watched()
    lab = SimulatedLab(RIG, seed=5, plant=plant)
    await gas(lab, "gas_co2", was)
    lab.devices["gas_air"].power_off()
    plant.order.clear()
    said: list[str] = []
    rescue = asyncio.create_task(Rescue(guard_plan(RIG), lab.opener, said.append).run(600.0))
    await asyncio.sleep(1.5)
    assert plant.told.get("gas_co2.flow", 0.0) == pytest.approx(min(was, BASAL_CO2))
    await asyncio.sleep(60.0)
    assert plant.told.get("gas_co2.flow", 0.0) == 0.0
    assert sorted(said) == sorted(set(said)), "it says everything once"
    assert any(text.startswith("gas_co2.flow is shut until gas_air.flow is seen to flow") for text in said), said
    co2 = [float(step.partition(" ")[2]) for step in plant.order if step.startswith("gas_co2.flow")]
    assert co2 == sorted(co2, reverse=True), "it only ever went down"
    plant.order.clear()
    lab.devices["gas_air"].power_on()
    assert await rescue == []
    assert plant.at_basal(), plant.told
    assert plant.order.index("gas_air.flow 47") < plant.order.index("gas_co2.flow 3")
    await lab.close()


@pytest.mark.virtual_time
async def test_CO2_waits_for_air_that_is_set_and_does_not_flow() -> None:
    plant = Watched()
    lab = SimulatedLab(RIG, seed=5, plant=plant)
    await gas(lab, "gas_co2", BASAL_CO2)
    air = lab.devices["gas_air"]
    assert isinstance(air, AlicatMfc)
    air.held = "C"  # its valve is shut, whatever its set-point says
    left = await Rescue(guard_plan(RIG), lab.opener, lambda text: None).run(30.0)
    assert air.setpoint_ml_min == pytest.approx(BASAL_AIR)
    assert set(left) == {"gas_air.flow", "gas_co2.flow"}
    assert plant.told["gas_co2.flow"] == 0.0
    await lab.close()


async def gas(lab: SimulatedLab, device: str, flow_ml_min: float) -> None:
    """Set a gas, as another program would."""
    spec = RIG.devices[device]
    link = open_link(spec.link, [spec.model], lab.opener)
    actuator = build(spec.model, link, device_config(device, spec)).actuators["flow"]
    await link.start()
    await actuator.apply(Level(flow_ml_min))
    await link.close()


@pytest.mark.virtual_time
async def test_C3_a_line_that_is_down_delays_no_other_line_and_is_tried_until_it_is_back(tmp_path: Path) -> None:
    plant = Watched()
    lab = SimulatedLab(RIG, seed=5, plant=plant)
    await abandoned(lab, tmp_path, mid_return=False)
    lab.lines["sim:gas"].unplug()
    said: list[str] = []
    rescue = asyncio.create_task(Rescue(guard_plan(RIG), lab.opener, said.append).run(600.0))
    await asyncio.sleep(2.0)
    assert plant.told["reglo.heart"] == pytest.approx(1600.0, rel=0.005)
    assert plant.told["relay.heater"] == 0.0
    assert not lab.lines["sim:reglo"].clients, "a line with nothing left to do is free for others"
    await asyncio.sleep(120.0)
    assert not rescue.done()
    lab.lines["sim:gas"].plug()
    assert await rescue == []
    assert plant.at_basal()
    assert len(said) < 20, "it does not say the same thing all night"
    await lab.close()


@pytest.mark.virtual_time
async def test_a_valve_stays_open_while_its_pump_cannot_be_stopped(tmp_path: Path) -> None:
    plant = Watched()
    lab = SimulatedLab(RIG, seed=5, plant=plant)
    await abandoned(lab, tmp_path, mid_return=True)
    lab.lines["sim:reglo"].unplug()
    left = await Rescue(guard_plan(RIG), lab.opener, lambda text: None).run(30.0)
    assert set(left) == {"reglo.heart", "reglo.return", "relay.return_valve"}
    assert plant.told["relay.return_valve"] == 1.0
    assert plant.told["relay.heater"] == 0.0
    await lab.close()


@pytest.mark.virtual_time
async def test_A1_a_basal_flow_between_two_steps_of_the_pump_is_brought_to_one_of_them() -> None:
    settings: dict[str, float | str | bool] = {"ul_per_rev": 40.0, "max_rpm": 600.0, "drive": "wt600-2j"}
    plant = RecordingPlant()
    sim = device_on_a_line(SimLonger, plant, settings=settings)
    line = sim.line
    assert line is not None

    async def opener(*_: object) -> Streams:
        return open_in_memory(line)

    device = GuardedDevice("d", "longer-0xe9", "sim:pump", DeviceConfig("d", settings=settings))
    plan = GuardPlan("rig", (device,), {"d.pump": Run(106.0)}, (), {}, {})
    said: list[str] = []
    assert await Rescue(plan, opener, said.append).run(30.0) == []
    assert plant.last("d.pump") == pytest.approx(120.0)
    assert said[0].startswith("d.pump circulates at its basal flow")
    sim.power_off()


@pytest.mark.virtual_time
async def test_C2_a_driver_that_trips_over_an_answer_costs_one_try_and_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant = Watched()
    lab = SimulatedLab(RIG, seed=5, plant=plant)
    await abandoned(lab, tmp_path, mid_return=False)
    said: list[str] = []
    rescue = Rescue(guard_plan(RIG), lab.opener, said.append)
    heart = rescue._outputs["reglo.heart"].actuator
    tries: list[Command] = []
    apply = heart.apply

    async def stumble(command: Command) -> None:
        tries.append(command)
        if len(tries) == 1:
            raise ValueError("could not convert string to float: '2.0x'")
        await apply(command)

    monkeypatch.setattr(heart, "apply", stumble)
    assert await rescue.run(60.0) == []
    assert tries == [Run(1600.0), Run(1600.0)]
    assert plant.at_basal(), plant.told
    assert any("reglo.heart: not yet" in text and "2.0x" in text for text in said), said
    await lab.close()


@pytest.mark.virtual_time
async def test_it_gives_way_to_another_controller(tmp_path: Path) -> None:
    plant = Watched()
    lab = SimulatedLab(RIG, seed=5, plant=plant)
    lab.lines["sim:gas"].unplug()
    said: list[str] = []
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    rescue = Rescue(guard_plan(RIG), lab.opener, said.append)
    assert await rescue.run(600.0, lambda: loop.time() > begun_s + 15.0) == []
    assert "another controller" in said[-1]
    assert 15.0 < loop.time() - begun_s < 30.0
    assert plant.told["reglo.heart"] == pytest.approx(1600.0, rel=0.005), (
        "what could be reached was brought to rest before"
    )
    await lab.close()


@pytest.mark.virtual_time
async def test_it_touches_nothing_that_another_controller_keeps() -> None:
    opened: list[str] = []

    async def opener(url: LinkUrl, line: LineSettings) -> Streams:
        opened.append(str(url))
        raise ConnectionRefusedError

    said: list[str] = []
    assert await Rescue(guard_plan(RIG), opener, said.append).run(600.0, lambda: True) == []
    assert opened == []
    assert len(said) == 1
    assert "another controller" in said[0]
