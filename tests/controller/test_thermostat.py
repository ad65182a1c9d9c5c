"""A rig whose skin is kept by a thermostat: regulated, bounded, brought to rest, and told of; through the whole stack."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from controller.core.clock import Clock
from controller.guard.guarding import guard_plan
from controller.guard.rescue import Rescue
from controller.process.controller import Controller
from controller.process.core import Storage
from controller.regulation.bath import BathRegulator
from controller.rig.description import Rig, required
from controller.rig.families import by_thermostat
from controller.rig.loading import load_rig
from controller.rig.problems import RigError
from controller.safety.kernel import decide
from controller.safety.limits import limits_of
from controller.safety.terms import Intent, Verdict
from drivers.commands import Command, Level, LevelStatus, Stop, Switch
from sim.devices.bath import Bath
from sim.devices.julabo import Julabo
from sim.faults.injector import Injector
from sim.faults.schedule import Fault
from sim.lab import SimulatedLab
from sim.virtual_time import run_virtual
from tests.controller.safety.facts import peace

BENCH = Path(__file__).parents[2] / "examples" / "rigs" / "bench.yaml"
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
MODELS = ("julabo", "huber-pb", "eurotherm-3200")
HEATER = "bath.setpoint"
MINUTE_S, HOUR_S = 60.0, 3600.0


@cache
def rig_with(model: str) -> Rig:
    """The bench in a cool room, warmed by a thermostat instead of a heater on a relay."""
    every = "2 s" if model == "eurotherm-3200" else "5 s"
    text = BENCH.read_text(encoding="utf-8")
    for old, new in (
        ("devices:\n", f'devices:\n  bath: {{model: {model}, link: "sim:bath", every: {every}}}\n'),
        ("heater: relay.heater", f"heater: {HEATER}"),
        ("trips: [relay.heater]", f"trips: [{HEATER}]"),
        ("ambient: 24 degC", "ambient: 19 degC"),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "thermostat.yaml"
        path.write_text(text, encoding="utf-8")
        return load_rig(path)


@asynccontextmanager
async def running(rig: Rig, data: Path, *faults: Fault) -> AsyncIterator[tuple[Controller, SimulatedLab]]:
    lab = SimulatedLab(rig, seed=1)
    controller = Controller(
        rig=rig, opener=lab.opener, storage=Storage(data, durable=False), clock=Clock(follow_system=False, epoch=EPOCH)
    )
    stop = asyncio.Event()
    await controller.start()
    tasks = [asyncio.create_task(controller.run(stop)), asyncio.create_task(Injector(lab, faults, seed=1).run())]
    try:
        yield controller, lab
    finally:
        stop.set()
        await asyncio.gather(*tasks)
        await controller.close()
        await lab.close()


def bath_of(lab: SimulatedLab) -> Bath:
    bath = lab.devices["bath"].bath  # type: ignore[attr-defined]  # every thermostat has one
    assert isinstance(bath, Bath)
    return bath


def test_what_may_keep_the_skin() -> None:
    assert by_thermostat(rig_with("julabo"))
    assert not by_thermostat(load_rig(BENCH))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "wrong.yaml"
        path.write_text(BENCH.read_text(encoding="utf-8").replace("heater: relay.heater", "heater: gas_o2.flow"))
        with pytest.raises(
            RigError, match=r"“gas_o2\.flow” is a gas flow, and a switch or temperature set-point belongs"
        ):
            load_rig(path)


@pytest.mark.virtual_time
@pytest.mark.parametrize("model", MODELS)
async def test_the_tissue_is_kept_at_its_temperature(model: str, tmp_path: Path) -> None:
    rig = rig_with(model)
    async with running(rig, tmp_path) as (controller, lab):
        seen = []
        for minute in range(120):
            await asyncio.sleep(MINUTE_S)
            seen.append(lab.plant.truth().temperature_c)
            assert 36.0 < seen[-1] < 37.7, minute
        probe = lab.plant._probes["t_chamber.temperature"].offset
        assert seen[-1] + probe == pytest.approx(37.0, abs=0.1), "by the probe, which errs"
        assert max(seen[-30:]) - min(seen[-30:]) < 0.15
        # What the room takes comes through the jacket: the bath is warmer than the tissue.
        assert bath_of(lab).temperature_c - seen[-1] == pytest.approx(0.55 * (seen[-1] - 19.0) / 11.0, abs=0.15)
        status = controller.store.actuators[HEATER].status
        assert isinstance(status, LevelStatus)
        assert status.setpoint == pytest.approx(bath_of(lab).goal_c or 0.0, abs=0.051)
        assert not controller.alarms.active()
        assert controller.health().ok
        # The relay that heats in the bench's own rig file has nothing to do here: it rests, and no command changes that.
        asked = Intent("relay.heater", Switch(True, 5.0), "test", "a test")
        assert not (await controller.gate.submit(asked)).ok
        assert not lab.plant.switches.get("relay.heater")


def test_two_runs_keep_the_same_journal(tmp_path: Path) -> None:
    async def run(data: Path) -> str:
        data.mkdir()
        async with running(rig_with("julabo"), data) as (controller, _):
            await asyncio.sleep(600.0)
            return controller.journal.sha256()

    assert run_virtual(run(tmp_path / "first")) == run_virtual(run(tmp_path / "second"))


@pytest.mark.virtual_time
@pytest.mark.parametrize("model", MODELS)
async def test_I1_too_warm_by_the_probe_brings_the_thermostat_to_rest(model: str, tmp_path: Path) -> None:
    fault = Fault("offset", "t_chamber.temperature", 300.0, 600.0, 3.0)
    async with running(rig_with(model), tmp_path, fault) as (controller, lab):
        await asyncio.sleep(299.0)
        goal_c = bath_of(lab).goal_c
        assert goal_c is not None
        assert goal_c > 36.0
        await asyncio.sleep(20.0)
        assert bath_of(lab).goal_c in (None, 20.0)
        assert "temperature" in {trip.interlock for trip in controller.store.state.trips}
        await asyncio.sleep(fault.for_s + 20 * MINUTE_S)
        assert lab.plant.truth().temperature_c == pytest.approx(37.0, abs=0.4)


@pytest.mark.virtual_time
async def test_a_thermostat_that_has_forgotten_to_be_remote_is_told_of_and_taken_up_again(tmp_path: Path) -> None:
    fault = Fault("eeprom", "bath", 300.0, 600.0)
    async with running(rig_with("julabo"), tmp_path, fault) as (controller, lab):
        await asyncio.sleep(450.0)
        julabo = lab.devices["bath"]
        assert isinstance(julabo, Julabo)
        assert not julabo.running
        assert not julabo.remote
        assert {alarm.source for alarm in controller.alarms.active()} & {"bath", HEATER}
        await asyncio.sleep(450.0 + 20 * MINUTE_S)
        assert julabo.running
        assert lab.plant.truth().temperature_c == pytest.approx(37.0, abs=0.3)


@pytest.mark.virtual_time
@pytest.mark.parametrize("model", MODELS)
async def test_A1_the_guard_brings_it_to_rest(model: str, tmp_path: Path) -> None:
    rig = rig_with(model)
    lab = SimulatedLab(rig, seed=1)
    controller = Controller(
        rig=rig,
        opener=lab.opener,
        storage=Storage(tmp_path, durable=False),
        clock=Clock(follow_system=False, epoch=EPOCH),
    )
    stop = asyncio.Event()
    await controller.start()
    ticking = asyncio.create_task(controller.run(stop))
    await asyncio.sleep(300.0)
    assert bath_of(lab).goal_c not in (None, 20.0)
    stop.set()
    await ticking
    await controller.close(leave_running=True)  # it is gone, and has brought nothing to rest
    assert bath_of(lab).goal_c not in (None, 20.0)
    assert await Rescue(guard_plan(rig), lab.opener, lambda _: None).run(60.0) == []
    assert bath_of(lab).goal_c in (None, 20.0)
    await lab.close()


def test_the_bath_is_never_set_warmer_than_the_tissue_may_be() -> None:
    rig = rig_with("julabo")
    limits = limits_of(rig)
    assert limits.basal[HEATER] == Stop()
    assert HEATER not in limits.switches

    def decided(command: Command) -> Verdict:
        return decide(Intent(HEATER, command, "test", "a test"), peace(), limits)

    assert decided(Level(37.4)) == Verdict(True, Level(37.4))
    too_warm = decided(Level(60.0))
    assert too_warm.command == Level(38.5)
    assert too_warm.limiting == "bounds: 60 degC is outside 32 to 38.5"
    assert decided(Level(4.0)).command == Level(32.0), "nor does it chill the tissue"
    assert not decided(Switch(True, 5.0)).accepted
    assert not decided(Level(float("nan"))).accepted
    assert decided(Stop()).accepted


def test_the_regulator_asks_for_no_more_than_the_bound_and_winds_up_no_further() -> None:
    """A cold chamber for an hour: the bath stays at its bound, and comes down as soon as the chamber is warm."""
    rig = rig_with("julabo")
    regulator = BathRegulator(
        required(rig.organs.skin, "organs.skin"), required(rig.safety.temperature, "safety.temperature")
    )
    asked = [regulator._step(5.0) for _ in range(120)]
    assert set(asked) == {required(rig.safety.temperature, "safety.temperature").high_c}
    assert regulator._step(-0.5) < 37.0
    assert [regulator._step(-5.0) for _ in range(120)][-1] == required(rig.organs.skin, "organs.skin").setpoint_c - 5.0
