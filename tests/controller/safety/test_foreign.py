"""Another controller commands an output: an alarm is raised, the gate yields, and the tissue is kept safe (A12)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from controller.gate.foreign import AGAIN_S, WITHIN_S
from controller.regulation.heart import HeartRegulator
from drivers.commands import Command, Dispense, Level, Run, Stop, Switch
from tests.controller.safety.bench import Bench
from tests.controller.safety.facts import CO2, LIMITS, RIG

HEART, DRAW = LIMITS.hearts[0].pump, "reglo.draw"
HEATER = LIMITS.heaters[0]
BASAL = LIMITS.basal[HEART]


async def second_master(bench: Bench, name: str, wants: Command, for_s: int, every_s: int = 2) -> list[Command]:
    """Another controller that sends `wants` to one output again and again; returns what the gate sent meanwhile."""
    output = bench.outputs[name]
    output.log.clear()
    end_s, next_s = bench.loop.time() + for_s, bench.loop.time()
    while bench.loop.time() < end_s:
        if bench.loop.time() >= next_s:
            next_s += every_s
            output.obey(wants)
        await bench.live(1, poll_every=1)
    return list(output.log)


def told(bench: Bench, name: str) -> list[str]:
    return [detail for kind, source, detail in bench.alarms if (kind, source) == ("foreign_command", name)]


@pytest.mark.virtual_time
async def test_A12_one_foreign_command_is_answered_and_told() -> None:
    bench = Bench()
    await bench.circulate()
    bench.pump(HEART).flow = 5000.0
    await bench.live(3, poll_every=1)
    assert bench.outputs[HEART].log[-1] == BASAL
    (detail,) = told(bench, HEART)
    assert "runs at 5000 instead of 2000" in detail
    assert (await bench.ask(HEART, Run(2000.0))).ok, "one contradiction blocks no command to the output"


@pytest.mark.virtual_time
async def test_A12_a_heart_that_another_controller_keeps_circulating_is_not_fought_for() -> None:
    bench = Bench()
    await bench.circulate()
    sent = await second_master(bench, HEART, Run(5000.0), 1200)
    assert len(sent) <= 3, "it gives way"
    assert bench.pump(HEART).flow == 5000.0
    assert "It is not fought for any more" in told(bench, HEART)[-1]
    assert len(told(bench, HEART)) <= 3, "few alarms, not one a poll"


@pytest.mark.virtual_time
async def test_A12_a_heart_that_another_controller_stops_is_brought_to_its_basal_flow_once_a_minute() -> None:
    """Giving way altogether would leave the tissue without oxygen; answering each time would be a fight."""
    bench = Bench()
    await bench.circulate()
    sent = await second_master(bench, HEART, Stop(), 1200, every_s=30)
    assert 1200 / AGAIN_S - 3 <= len(sent) <= 1200 / AGAIN_S + 4
    assert set(sent) == {BASAL}
    await bench.live(int(AGAIN_S) + 5, poll_every=1)  # the other master is gone
    assert bench.pump(HEART).flow > 0.0, "the tissue is circulated"


@pytest.mark.virtual_time
@pytest.mark.parametrize(("foreign_ul_min", "every_s"), [(1800.0, 2), (5000.0, 2), (1800.0, 10_000)])
async def test_A12_the_regulator_of_a_heart_does_not_fight_what_circulates_it(
    foreign_ul_min: float, every_s: int
) -> None:
    """Its flow was sent at each renewal of its lease, and two masters overrode each other for ever."""
    bench = Bench()
    await bench.circulate()
    regulating = asyncio.create_task(regulate(bench))
    bench.pump(HEART).obey(Run(foreign_ul_min))
    await second_master(bench, HEART, Run(foreign_ul_min), 60)
    if every_s > 60:
        bench.gate.reset("anna", "the other one is gone")
        await bench.live(60, poll_every=1)
        assert bench.pump(HEART).flow == 2000.0
        for _ in range(3):  # a person at the panel, three times within ten minutes
            bench.pump(HEART).obey(Run(foreign_ul_min))
            await bench.live(20, poll_every=1)
    assert await second_master(bench, HEART, Run(foreign_ul_min), 1200, every_s) == []
    assert bench.pump(HEART).flow == foreign_ul_min
    assert not bench.raised("lease_expired")
    assert told(bench, HEART)
    bench.gate.reset("anna", "the other controller is off")
    await bench.live(int(WITHIN_S), poll_every=1)
    assert bench.pump(HEART).flow == 2000.0
    await stop(regulating)


@pytest.mark.virtual_time
async def test_A12_a_heart_below_its_basal_flow_is_restarted_once_a_minute_although_its_regulator_asks_each_second() -> (
    None
):
    bench = Bench()
    await bench.circulate()
    regulating = asyncio.create_task(regulate(bench))
    await second_master(bench, HEART, Stop(), 60)
    sent = await second_master(bench, HEART, Stop(), 600)
    assert set(sent) == {BASAL}
    assert 600 / AGAIN_S - 2 <= len(sent) <= 600 / AGAIN_S + 2
    await bench.live(int(AGAIN_S) + 5, poll_every=1)  # the other master is gone
    assert Run(bench.pump(HEART).flow) == BASAL
    await bench.live(int(WITHIN_S) + 30, poll_every=1)
    assert bench.pump(HEART).flow == 2000.0, "after ten minutes without a contradiction"
    await stop(regulating)


async def regulate(bench: Bench) -> None:
    """Do what the controller does for a heart, once a second."""
    regulator = HeartRegulator(RIG.organs.hearts["heart"], HEART, "heart")
    while True:
        state = bench.store.snapshot(bench.loop.time(), "", ())
        for intent in regulator.intents(state):
            await bench.gate.submit(intent)
        await asyncio.sleep(1.0)


async def stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.virtual_time
async def test_A12_a_dosing_pump_that_another_controller_runs_is_stopped_seldom_and_gets_no_dose() -> None:
    bench = Bench()
    await bench.circulate()
    assert (await bench.ask(DRAW, Stop())).ok

    async def strays() -> None:  # what the controller does each second with a pump that runs unasked
        while True:
            if bench.pump(DRAW).flow:
                await bench.gate.stop(DRAW, "it runs, and no dose of its line is open")
            await asyncio.sleep(1.0)

    looking = asyncio.create_task(strays())
    sent = await second_master(bench, DRAW, Run(1000.0), 600)
    looking.cancel()
    assert 600 / AGAIN_S - 2 <= len(sent) <= 600 / AGAIN_S + 5
    assert set(sent) == {Stop()}
    bench.pump(DRAW).flow = 0.0
    await bench.live(1, poll_every=1)
    refused = await bench.ask(DRAW, Dispense(500.0, 1000.0, "a"))
    assert not refused.accepted
    assert "another controller or a person commands reglo.draw" in refused.reasons[0]
    assert (await bench.ask(DRAW, Stop())).accepted, "a requester may always end its own dose"
    bench.gate.reset("anna", "the other controller is off")
    assert (await bench.ask(DRAW, Dispense(500.0, 1000.0, "b"))).accepted


@pytest.mark.virtual_time
async def test_A12_a_heater_that_another_controller_switches_on_is_switched_off_seldom_and_interlocks_still_act() -> (
    None
):
    bench = Bench()
    await bench.circulate()
    assert (await bench.ask(HEATER, Switch(False))).ok
    sent = await second_master(bench, HEATER, Switch(True), 600)
    assert 600 / AGAIN_S - 2 <= len(sent) <= 600 / AGAIN_S + 5
    assert (await bench.ask(HEATER, Switch(True, for_s=2.0))).accepted, "warmth goes on"
    bench.readings["t_chamber.temperature"] = 39.5
    hot = await second_master(bench, HEATER, Switch(True), 60)
    assert len([command for command in hot if command == Switch(False)]) > 20, "too warm: it is switched off each time"


@pytest.mark.virtual_time
async def test_A12_gas_that_another_controller_sets_is_left_and_its_regulator_goes_on() -> None:
    bench = Bench()
    await bench.circulate()
    assert (await bench.ask(CO2, Level(3.0))).ok
    sent = await second_master(bench, CO2, Level(2.0), 600)
    assert len(sent) <= 4
    assert (await bench.ask(CO2, Level(2.5))).accepted


@pytest.mark.virtual_time
async def test_A12_it_is_commanded_again_after_a_while_without_contradiction() -> None:
    bench = Bench()
    await bench.circulate()
    assert (await bench.ask(DRAW, Stop())).ok
    await second_master(bench, DRAW, Run(1000.0), 60)
    bench.pump(DRAW).flow = 0.0
    assert not (await bench.ask(DRAW, Dispense(500.0, 1000.0, "a"))).accepted
    await bench.live(int(WITHIN_S) + 5)
    assert (await bench.ask(DRAW, Dispense(500.0, 1000.0, "b"))).accepted


@pytest.mark.virtual_time
@pytest.mark.parametrize("disturb", [lambda pump: setattr(pump, "flow", 0.0)])
async def test_a_pump_that_stands_once_an_hour_is_restarted_each_time(disturb: Callable[[object], None]) -> None:
    """A power supply that fails now and then is not a foreign command."""
    bench = Bench()
    await bench.circulate()
    for _ in range(6):
        disturb(bench.pump(HEART))
        await bench.live(10, poll_every=1)
        assert bench.pump(HEART).flow > 0.0
        await bench.live(3600, poll_every=60)
    assert told(bench, HEART) == []
