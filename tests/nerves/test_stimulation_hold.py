"""Alarms and interlocks of the rig silence the array until the tissue is cared for again (A9)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from choroid.client.wire import nerves_pb2 as pb
from controller.alarms.care import vital_devices
from controller.alarms.definitions import DEFINITIONS
from controller.alarms.states import Alarm, Alarms
from controller.process.controller import Controller
from controller.process.parts.stimulation import why_held
from sim.lab import SimulatedLab
from tests.nerves.test_emergency_stop import RIG, Agent, Stimulated, living, made
from tests.nerves.test_process import until

HOLDING = sorted(kind for kind, each in DEFINITIONS.items() if each.holds_stimulation)


def raised(kind: str, source: str) -> Alarm:
    """Return an alarm as it is announced."""
    alarms = Alarms(lambda kind, body: None, lambda: "2026-01-01T00:00:00Z")
    alarms.event(kind, source, "told by a test")
    (alarm,) = alarms.active()
    return alarm


@pytest.mark.parametrize("kind", sorted(DEFINITIONS))
def test_A9_an_alarm_holds_stimulation_if_its_definition_says_so_also_while_it_is_shelved(kind: str) -> None:
    alarm = raised(kind, "heart")
    holds = DEFINITIONS[kind].holds_stimulation
    assert bool(why_held((), [alarm], (), {"heart"})) == holds
    assert bool(why_held((), (), [replace(alarm, present=True)], {"heart"})) == holds
    assert not why_held((), (), [replace(alarm, present=False)], {"heart"})
    if holds:
        assert kind in why_held((), [alarm], (), {"heart"})


def test_A9_every_critical_alarm_of_the_tissues_care_holds_stimulation() -> None:
    others = {  # they stop stimulation in ways of their own, or concern records and people only
        *("emergency_stop", "journal_lost", "journal_unwritten", "data_folder_lost", "run_unanswered"),
    }
    assert {kind for kind, each in DEFINITIONS.items() if each.priority == "critical"} - others <= set(HOLDING)


def test_A9_a_lost_device_holds_stimulation_if_the_tissue_depends_on_it() -> None:
    vital = vital_devices(RIG)
    heart = next(iter(RIG.organs.hearts.values()))
    pump = RIG.lines[heart.line].pump
    assert pump is not None
    for source, holds in (("nerves", True), (pump.partition(".")[0], True), ("a_balance", False)):
        assert bool(why_held((), [raised("device_lost", source)], (), vital)) == holds, source


def test_A9_an_interlock_acts_before_its_alarm() -> None:
    assert "temperature" in why_held([("temperature", "chamber")], (), (), ())
    assert not why_held([("over_pressure_filter", "filter")], (), (), ())


@asynccontextmanager
async def ticking(data: Path) -> AsyncIterator[tuple[Controller, Stimulated]]:
    """A controller in virtual time that stimulates through a recorder of orders."""
    lab, stimulated = SimulatedLab(RIG, seed=1), Stimulated()
    controller = made(data, lab, stimulated)
    await controller.start()
    stop = asyncio.Event()
    run = asyncio.create_task(controller.run(stop))
    try:
        await asyncio.sleep(3.0)
        yield controller, stimulated
    finally:
        stop.set()
        await run
        await controller.close()
        await lab.close()


@pytest.mark.virtual_time
async def test_A9_an_alarm_stops_stimulation_until_it_is_acknowledged_and_gone(tmp_path: Path) -> None:
    async with ticking(tmp_path) as (controller, stimulated):
        assert stimulated.orders == []
        controller.alarms.event("foreign_command", "heart", "the pump was started at its panel")
        await asyncio.sleep(2.5)
        (order,) = stimulated.orders
        assert order.startswith("stopped: alarm foreign_command: heart (the pump was started at its panel)")
        await asyncio.sleep(60.0)
        assert len(stimulated.orders) == 1, "it is ordered once"
        controller.alarms.acknowledge("foreign_command:heart", "anna")
        await asyncio.sleep(2.5)
        assert stimulated.orders[1:] == ["allowed"]
        rows = [row.kind for row in controller.journal.entries() if row.kind.startswith("safety.stimulation")]
        assert rows == ["safety.stimulation_stopped", "safety.stimulation_allowed"]


@pytest.mark.virtual_time
async def test_A9_the_end_of_an_emergency_stop_does_not_end_the_hold_of_an_alarm(tmp_path: Path) -> None:
    async with ticking(tmp_path) as (controller, stimulated):
        await controller.emergency_stop("anna", "smoke")
        controller.alarms.event("foreign_command", "heart", "the pump was started at its panel")
        await asyncio.sleep(2.5)
        assert [each.partition(":")[0] for each in stimulated.orders] == ["stopped"]
        await controller.emergency_reset("ben", "only toast")
        assert stimulated.orders[-1].startswith("stopped: alarm foreign_command")
        assert "allowed" not in stimulated.orders
        controller.alarms.acknowledge("foreign_command:heart", "ben")
        await asyncio.sleep(2.5)
        assert stimulated.orders[-1] == "allowed"


@pytest.mark.virtual_time
async def test_A9_an_alarm_that_stands_at_the_start_holds_stimulation(tmp_path: Path) -> None:
    async with ticking(tmp_path) as (controller, _):
        controller.alarms.event("foreign_command", "heart", "the pump was started at its panel")
    async with ticking(tmp_path) as (_, stimulated):
        assert [each.partition(":")[0] for each in stimulated.orders] == ["stopped"]


async def test_A9_an_alarm_ends_leases_and_waiting_pulses_of_a_real_engine_and_tells_its_clients(
    tmp_path: Path,
) -> None:
    async with living(tmp_path) as (controller, _):
        agent = Agent(tmp_path)
        lease = await agent.lease(1)
        waiting = asyncio.create_task(agent.stimulate(lease, 1, in_frames=100_000))
        await asyncio.sleep(0.3)
        controller.alarms.event("foreign_command", "heart", "the pump was started at its panel")
        reply = await waiting
        (fate,) = reply.pulses
        assert fate.state == pb.PulseFate.CANCELLED
        assert "foreign_command" in fate.detail
        refused = await agent.stimulate(await agent.lease(2), 2)
        assert not refused.accepted
        assert "foreign_command" in refused.reasons[0].text
        kinds = [event.kind for event in await agent.events()]
        assert pb.Event.STIMULATION_STOPPED in kinds
        assert pb.Event.LEASE_ENDED in kinds
        controller.alarms.acknowledge("foreign_command:heart", "anna")
        await until(lambda: not controller.emergency.held)
        await asyncio.sleep(0.5)
        assert (await agent.stimulate(await agent.lease(3), 3)).accepted
        assert pb.Event.STIMULATION_ALLOWED in [event.kind for event in await agent.events()]
        await agent.close()
