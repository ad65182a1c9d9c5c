"""The gate: intent, kernel, journal, device, readback; leases, interlocks and pending commands of an output."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from controller.core.state import Volume
from controller.gate.gate import CONFIRM_S
from controller.rig.description import required
from controller.safety.kernel import transfer_limit_s
from controller.safety.terms import Response, Trip
from drivers.commands import Command, Dispense, Guarantee, Level, PumpStatus, Quality, Run, Stop, Switch
from drivers.errors import BadReply, NoReply
from drivers.flow_steps import FlowSteps
from tests.controller.safety.bench import Bench
from tests.controller.safety.facts import (
    AIR,
    CO2,
    DRAW,
    FEED,
    HEART,
    HEATER,
    LIMITS,
    O2,
    RETURN,
    RIG,
    TEMPERATURE,
    VALVE,
)

pytestmark = pytest.mark.virtual_time

DOSE = Dispense(1000.0, 4000.0, "dose-1")


# --- the way of an intent ---------------------------------------------------------------------------------


async def test_D4_what_goes_out_is_journalled_first_with_who_and_why() -> None:
    bench = Bench()
    heart = bench.pump(HEART)
    rows_at_apply: list[int] = []
    obey = heart.obey
    heart.obey = lambda command: (rows_at_apply.append(len(bench.rows.rows)), obey(command))[1]  # type: ignore[method-assign, func-returns-value]
    outcome = await bench.ask(HEART, Run(9000.0))
    assert outcome.ok
    assert outcome.command == Run(4000.0)
    assert heart.flow == 4000.0
    assert rows_at_apply == [1], "the row is written before the device receives the command"
    (row,) = bench.rows.of("act")
    assert row["by"] == "test"
    assert row["why"] == "a test"
    assert row["command"] == ["run", 9000.0]
    assert row["allowed"] == ["run", 4000.0]
    assert row["limiting"] in row["reasons"]
    assert outcome.seq == 1


async def test_F2_a_dose_has_its_intent_before_and_its_outcome_after() -> None:
    bench = Bench()
    await bench.circulate()
    outcome = await bench.ask(DRAW, DOSE)
    assert outcome.ok
    assert bench.rows.rows[-2][0] == "act"
    kind, body = bench.rows.rows[-1]
    assert kind == "act.outcome"
    assert body["act"] == outcome.seq
    assert body["status"]["running"] is True


async def test_a_refusal_moves_nothing_and_is_recorded_once() -> None:
    bench = Bench()
    for _ in range(3):
        outcome = await bench.ask(HEATER, Switch(True))
        assert not outcome.accepted
        assert outcome.reasons
    assert bench.outputs[HEATER].log == []
    assert len(bench.rows.of("act.refused")) == 1
    for number in (1, 2):
        await bench.ask(DRAW, Dispense(1e9, 4000.0, f"d{number}"))
    assert len(bench.rows.of("act.refused")) == 3, "of doses each one"


async def test_an_unknown_output_is_refused() -> None:
    bench = Bench()
    outcome = await bench.ask("reglo.unknown", Stop())
    assert not outcome.accepted
    assert bench.rows.rows == []


async def test_A4_the_same_again_costs_neither_a_row_nor_a_byte() -> None:
    bench = Bench()
    for _ in range(5):
        assert (await bench.ask(HEART, Run(2000.0))).ok
    assert bench.outputs[HEART].log == [Run(2000.0)]
    assert len(bench.rows.rows) == 1
    bench.pump(HEART).flow = 0.0  # a person pressed stop
    await bench.gate.poll(HEART)
    assert (await bench.ask(HEART, Run(2000.0))).ok
    assert bench.outputs[HEART].log == [Run(2000.0)] * 2, "what is not so any more is commanded again"


async def test_a_pulse_is_sent_each_time() -> None:
    bench = Bench()
    for _ in range(3):
        assert (await bench.ask(HEATER, Switch(True, 5.0))).ok
    assert bench.outputs[HEATER].log == [Switch(True, 5.0)] * 3
    assert [kind for kind, _ in bench.rows.rows] == ["act"] * 3, "as intended: no second row"


async def test_commands_to_one_output_go_one_after_the_other() -> None:
    bench = Bench()
    heart = bench.pump(HEART)
    heart.takes_s = 1.0
    outcomes = await asyncio.gather(*(bench.ask(HEART, Run(flow)) for flow in (500.0, 1500.0, 2500.0)))
    assert all(outcome.ok for outcome in outcomes)
    assert heart.flow == 2500.0


# --- a pump whose speed goes in steps ----------------------------------------------------------------------


async def test_I3_a_step_is_taken_that_the_rig_allows_and_the_row_says_which() -> None:
    bench = Bench()
    heart = bench.pump(HEART)
    steps = FlowSteps(3000.0, 30_000.0)
    heart.nearest = lambda command, max_value=math.inf: (  # type: ignore[method-assign]
        Run(steps.nearest(command.flow_ul_min, max_value)) if isinstance(command, Run) else command
    )
    outcome = await bench.ask(HEART, Run(9000.0))  # above the rig's 4000, and the step next to that is 3000
    assert outcome.ok
    assert heart.log == [Run(3000.0)]
    (row,) = bench.rows.of("act")
    assert row["allowed"] == ["run", 4000.0]
    assert row["limiting"] == "steps: 4000 µL/min lies between the pump's steps; it gives 3000"
    steps = FlowSteps(2200.0, 30_000.0)
    assert (await bench.ask(HEART, Run(3900.0))).ok
    assert heart.flow == 2200.0, "4400 is nearer, and above what the rig allows"


async def test_what_is_beyond_full_scale_is_given_as_far_as_it_goes_and_the_row_says_so() -> None:
    """A lung without air asked for more oxygen than its controller gives, and got none (campaign)."""
    bench = Bench()
    oxygen = bench.outputs[O2]
    oxygen.nearest = lambda command, max_value=math.inf: (  # type: ignore[method-assign]
        Level(min(command.value, 8.0)) if isinstance(command, Level) else command
    )
    assert (await bench.ask(O2, Level(10.0))).ok
    assert oxygen.log == [Level(8.0)]
    (row,) = bench.rows.of("act")
    assert row["command"] == ["level", 10.0]
    assert row["limiting"] == "full scale: 10 mL/min is more than there is; it gives 8"
    assert (await bench.ask(O2, Level(10.0))).ok
    assert oxygen.log == [Level(8.0)], "it is so already"


async def test_C3_a_driver_that_does_not_know_what_it_can_do_is_told_what_was_asked() -> None:
    bench = Bench()
    heart = bench.pump(HEART)
    heart.nearest = lambda command, max_value=math.inf: Run(1.0 / 0.0)  # type: ignore[method-assign]
    assert (await bench.ask(HEART, Run(2000.0))).ok
    await bench.gate.poll(HEART)
    assert heart.log == [Run(2000.0)]


async def test_A7_a_basal_flow_between_two_steps_is_reached_once() -> None:
    bench = Bench()
    await bench.circulate()
    heart = bench.pump(HEART)
    steps = FlowSteps(1700.0, 30_000.0)
    heart.nearest = lambda command, max_value=math.inf: (  # type: ignore[method-assign]
        Run(steps.nearest(command.flow_ul_min, max_value)) if isinstance(command, Run) else command
    )
    assert (await bench.gate.basal(HEART, "a test")).ok
    heart.log.clear()
    trip = Trip("test", "point", "detail", 0.0, (HEART,), response=Response.BASAL)
    for _ in range(20):
        await bench.gate.tick((trip,))
        await bench.gate.poll(HEART)
        await asyncio.sleep(1.0)
    assert heart.log == []
    assert heart.flow == 1700.0
    heart.flow = 1750.0
    await bench.gate.status(HEART)  # one status: a poll would read twice, and find a foreign command by itself
    await bench.gate.tick((trip,))
    assert heart.log == [Run(1700.0)], "what is above the step is brought back to it"
    assert bench.raised("command_failed") == []


# --- readback and failure ---------------------------------------------------------------------------------

FAILING: list[tuple[str, Command, Command]] = [
    (HEART, Run(3000.0), Run(1600.0)),
    (HEATER, Switch(True, 10.0), Switch(False)),
    (VALVE, Switch(True), Switch(False)),
    (DRAW, DOSE, Stop()),
]


@pytest.mark.parametrize(("name", "command", "rest"), FAILING, ids=[name for name, *_ in FAILING])
async def test_A7_a_command_that_fails_ends_in_the_basal_state_with_an_alarm(
    name: str, command: Command, rest: Command
) -> None:
    bench = Bench()
    await bench.circulate()
    for gas in (AIR, CO2):
        await bench.gate.basal(gas, "so that there is gas")
    output = bench.outputs[name]
    output.log.clear()
    output.refuses = type(command) if type(command) is not type(rest) else None
    if output.refuses is None:
        failed, apply = False, output.apply

        async def fail_once(command: Command) -> None:
            nonlocal failed
            if not failed:
                failed = True
                raise OSError("the line is gone")
            await apply(command)

        output.apply = fail_once  # type: ignore[method-assign]
    outcome = await bench.ask(name, command)
    assert outcome.accepted
    assert not outcome.ok
    assert bench.raised("command_failed") == [name]
    assert output.log[-1] == rest
    assert bench.rows.of("act.outcome")[-1]["error"] == outcome.error
    assert bench.store.actuators[name].commanded == rest or isinstance(rest, Stop)


def cut_off(bench: Bench, name: str) -> Callable[[], None]:
    """Lose all commands to this output and all its answers; return the function that reconnects it."""
    output, apply, status = bench.outputs[name], bench.outputs[name].apply, bench.outputs[name].status

    async def lost(*_: object) -> Any:
        raise NoReply("nothing came", where=name, cause="its link is down", action="look at the cable")

    def reconnect() -> None:
        output.apply, output.status = apply, status  # type: ignore[method-assign]

    output.apply = output.status = lost  # type: ignore[method-assign,assignment]
    return reconnect


async def test_I9_a_gas_whose_command_is_lost_stays_as_it_is_for_a_bounded_time() -> None:
    """Each dropout of the link once sent oxygen to its basal flow of nothing, and the regulator back to 20 mL/min."""
    bench = Bench()
    await bench.circulate()
    assert (await bench.ask(O2, Level(5.0))).ok
    reconnect = cut_off(bench, O2)
    assert not (await bench.ask(O2, Level(6.0))).ok
    await bench.live(20)
    reconnect()
    await bench.live(10)
    assert bench.level(O2).setpoint == 5.0, "it was not sent to its basal flow"
    assert (await bench.ask(O2, Level(6.0))).ok
    assert bench.store.actuators[O2].lease_until_s is None
    cut_off(bench, O2)
    for _ in range(8):
        assert not (await bench.ask(O2, Level(7.0))).ok
        await bench.live(15)
    await bench.live(3)
    assert O2 in bench.raised("lease_expired"), "asking again and again does not put it off"


async def test_I9_a_gas_that_was_told_and_whose_answer_was_lost_needs_no_fallback() -> None:
    bench = Bench()
    await bench.circulate()
    reconnect = cut_off(bench, O2)
    assert not (await bench.ask(O2, Level(6.0))).ok
    reconnect()
    bench.level(O2).setpoint = 6.0
    await bench.live(150)
    assert bench.level(O2).setpoint == 6.0
    assert O2 not in bench.raised("lease_expired")


async def test_F2_I9_a_corrupted_total_books_no_dose() -> None:
    """A total with a doubled digit was once booked as liquid: at rest a new total must be read twice in a row."""
    bench = Bench()
    await bench.circulate()
    pump = bench.pump(DRAW)
    true = await bench.gate.status(DRAW)
    assert isinstance(true, PumpStatus)
    told = [true.delivered_ul * 11.0 + 770.0, true.delivered_ul, 10.0 + true.delivered_ul]

    async def noisy() -> PumpStatus:
        return replace(true, delivered_ul=told.pop(0) if told else true.delivered_ul)

    pump.status = noisy  # type: ignore[method-assign]
    assert await bench.gate.status(DRAW) == true
    told = [float(n) for n in range(100, 120)]
    with pytest.raises(BadReply, match="another total each time"):
        await bench.gate.status(DRAW)
    assert bench.store.actuators[DRAW].status == true


async def test_A7_gas_whose_last_command_was_lost_is_taken_for_the_worse_of_two_levels() -> None:
    """CO2 may be at its new level, and air at its old one: neither makes room for more CO2 or less air."""
    bench = Bench()
    await bench.circulate()
    for gas, level in ((AIR, 46.0), (CO2, 2.0)):
        assert (await bench.ask(gas, Level(level))).ok
    cut_off(bench, CO2)
    assert not (await bench.ask(CO2, Level(4.0))).ok
    assert bench.gate.view().seen[CO2].level == 4.0
    lowered = await bench.ask(AIR, Level(30.0))
    assert lowered.command != Level(30.0)


async def test_A7_a_readback_that_differs_ends_in_the_basal_state_with_an_alarm() -> None:
    bench = Bench()
    output = bench.relay(VALVE)
    output.deaf = True
    outcome = await bench.ask(VALVE, Switch(True))
    assert "the switch is off" in (outcome.error or "")
    assert output.log == [Switch(True), Switch(False)]
    assert bench.raised("command_failed") == [VALVE]


async def test_A7_an_output_that_strays_later_is_brought_back() -> None:
    bench = Bench()
    await bench.circulate()
    assert (await bench.ask(CO2, Level(0.0))).ok
    bench.level(CO2).setpoint = 20.0  # a person turned it at its own front panel
    await bench.live(30)
    assert bench.level(CO2).setpoint == LIMITS.basal[CO2].value  # type: ignore[union-attr]
    assert CO2 in bench.raised("command_failed")


async def test_A7_a_relay_that_stays_closed_after_its_pulse_is_noticed() -> None:
    bench = Bench()
    await bench.circulate()
    assert (await bench.ask(HEATER, Switch(True, 5.0))).ok
    bench.relay(HEATER).welded = True
    await bench.live(20)
    assert HEATER in bench.raised("command_failed")
    assert Switch(False) in bench.outputs[HEATER].log


async def test_A1_the_gate_ends_a_pulse_that_its_device_does_not_however_often_it_must_try() -> None:
    bench = Bench()
    await bench.circulate()
    heater = bench.relay(HEATER)
    heater.keeps_time = False
    assert (await bench.ask(HEATER, Switch(True, 5.0))).ok
    await bench.live(4)
    assert heater.say().on  # type: ignore[union-attr]
    await bench.live(3)
    assert not heater.say().on  # type: ignore[union-attr]
    assert bench.alarms == []
    assert bench.rows.of("act")[-1]["command"] == ["switch", False, None], "a row of its own"
    assert (await bench.ask(HEATER, Switch(True, 5.0))).ok
    heater.silent = True
    await bench.live(20)
    assert heater.say().on  # type: ignore[union-attr]
    assert bench.raised("command_failed") == [HEATER]
    heater.silent = False
    await bench.live(20)
    assert not heater.say().on  # type: ignore[union-attr]


async def test_A1_a_pulse_that_follows_at_once_is_not_cut_by_the_end_of_the_one_before() -> None:
    bench = Bench()
    await bench.circulate()
    heater = bench.relay(HEATER)
    heater.keeps_time = False
    for _ in range(3):
        assert (await bench.ask(HEATER, Switch(True, 6.0))).ok
        await bench.live(4)
        assert heater.say().on  # type: ignore[union-attr]
    assert heater.log == [Switch(True, 6.0)] * 3


async def test_A1_a_heater_that_was_left_on_and_that_nothing_ends_is_switched_off() -> None:
    bench = Bench()
    heater = bench.relay(HEATER)
    heater.keeps_time = False
    heater.obey(Switch(True))  # by a process before this one
    await bench.circulate()
    await bench.live(2)
    assert not heater.say().on  # type: ignore[union-attr]


async def test_one_odd_status_proves_nothing() -> None:
    bench = Bench()
    await bench.circulate()
    assert (await bench.ask(CO2, Level(0.0))).ok
    bench.level(CO2).setpoint = 5.0
    polling = asyncio.create_task(bench.gate.poll(CO2))
    await asyncio.sleep(CONFIRM_S / 2.0)
    assert bench.gate.unsettled == f"{CO2} does not follow its command", "it was read, and is read again"
    bench.level(CO2).setpoint = 0.0
    await polling
    assert bench.gate.unsettled == ""
    await bench.live(20)
    assert bench.alarms == []


async def test_A12_an_odd_status_that_is_confirmed_is_an_alarm_at_the_first_poll() -> None:
    bench = Bench()
    await bench.circulate()
    assert (await bench.ask(CO2, Level(0.0))).ok
    bench.level(CO2).setpoint = 5.0
    await bench.gate.poll(CO2)
    assert bench.raised("command_failed") == [CO2]


async def test_a_rest_that_could_not_be_commanded_is_pending_until_it_is_done() -> None:
    bench = Bench()
    await bench.circulate()
    heater = bench.relay(HEATER)
    bench.readings[TEMPERATURE] = 34.0
    await bench.live(3)
    assert (await bench.ask(HEATER, Switch(True, 60.0))).ok
    heater.silent = True
    bench.readings[TEMPERATURE] = 39.0
    await bench.live(40)
    assert heater.say().on  # type: ignore[union-attr]
    tries = len(heater.log) - 1
    assert 3 < tries < 12, "again and again, but ever more slowly"
    assert bench.raised("command_failed") == [HEATER], "one alarm, not one a second"
    assert len(bench.rows.rows) < 10
    heater.silent = False
    await bench.live(32)
    assert not heater.say().on  # type: ignore[union-attr]


async def test_C3_a_defect_in_a_driver_is_a_failure_of_its_device_only() -> None:
    bench = Bench()
    bench.outputs[VALVE].broken = True
    outcome = await bench.ask(VALVE, Switch(True))
    assert "its driver fails" in (outcome.error or "")
    await bench.gate.poll(VALVE)
    assert "its driver fails" in bench.store.actuators[VALVE].fault
    assert (await bench.ask(HEART, Run(2000.0))).ok


async def test_a_status_older_than_the_command_is_dropped() -> None:
    bench = Bench()
    old = bench.outputs[HEART].say()
    asked_s = bench.loop.time()
    await asyncio.sleep(0.1)
    await bench.ask(HEART, Run(2000.0))
    bench.gate.saw(HEART, old, asked_s)
    view = bench.store.actuators[HEART]
    assert view.status is not None
    assert view.status.running  # type: ignore[union-attr]


async def test_A2_a_cancelled_command_is_followed_by_the_basal_state() -> None:
    bench = Bench()
    await bench.circulate()
    valve = bench.relay(VALVE)
    valve.takes_s = 5.0
    task = asyncio.create_task(bench.ask(VALVE, Switch(True)))
    await asyncio.sleep(1.0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    valve.obey(Switch(True))  # it had arrived all the same
    await bench.live(10)
    assert not valve.say().on  # type: ignore[union-attr]
    assert any(row.get("error") == "cancelled" for row in bench.rows.of("act.outcome"))


async def test_the_view_tells_who_ends_what_was_commanded() -> None:
    bench = Bench()
    await bench.circulate()
    assert bench.store.actuators[HEART].guarantee is Guarantee.GUARD
    await bench.ask(DRAW, DOSE)
    assert bench.store.actuators[DRAW].guarantee is Guarantee.DEVICE


# --- leases -----------------------------------------------------------------------------------------------


async def test_A1_a_lease_that_is_not_renewed_ends_in_the_basal_state() -> None:
    bench = Bench()
    await bench.circulate()
    await bench.live(29)
    assert bench.pump(HEART).flow == 2000.0
    await bench.live(3)
    assert bench.pump(HEART).flow == 1600.0
    assert bench.raised("lease_expired") == [HEART]
    await bench.live(120)
    assert bench.raised("lease_expired") == [HEART], "the basal state needs no lease"


async def test_A1_a_lease_that_is_renewed_lasts() -> None:
    bench = Bench()
    await bench.circulate()
    for _ in range(12):
        await bench.live(10)
        assert (await bench.ask(HEART, Run(2000.0))).ok
    assert bench.pump(HEART).flow == 2000.0
    assert bench.outputs[HEART].log == [Run(2000.0)]
    assert bench.alarms == []


async def test_A1_an_open_valve_is_a_lease_too() -> None:
    bench = Bench()
    await bench.circulate()
    await bench.ask(VALVE, Switch(True))
    await bench.live(33)
    assert not bench.relay(VALVE).say().on  # type: ignore[union-attr]


# --- interlocks -------------------------------------------------------------------------------------------


async def test_I1_heat_is_shut_off_while_it_is_on() -> None:
    bench = Bench()
    await bench.circulate()
    await bench.ask(HEATER, Switch(True, 60.0))
    bench.readings[TEMPERATURE] = 38.6
    await bench.live(2)
    assert not bench.relay(HEATER).say().on  # type: ignore[union-attr]
    assert not (await bench.ask(HEATER, Switch(True, 5.0))).accepted


LOST_TEMPERATURE_S, LOST_PRESSURE_S = (
    required(RIG.safety.temperature, "safety.temperature").stale_s + 3,
    required(RIG.safety.over_pressure_heart, "safety.over_pressure_heart").stale_s + 3,
)


async def test_I1_I2_a_probe_that_falls_silent_shuts_the_heat_off() -> None:
    bench = Bench()
    await bench.circulate()
    await bench.ask(HEATER, Switch(True, 60.0))
    bench.readings[TEMPERATURE] = None
    await bench.live(LOST_TEMPERATURE_S)
    assert not bench.relay(HEATER).say().on  # type: ignore[union-attr]


async def test_I1_pressure_stops_the_heart_and_it_may_try_again() -> None:
    bench = Bench()
    await bench.circulate()
    bench.readings["p_heart.pressure"] = 90.0
    await bench.live(2)
    assert bench.pump(HEART).flow == 0.0
    bench.readings["p_heart.pressure"] = 2.0
    await bench.live(30)
    assert not (await bench.ask(HEART, Run(2000.0))).accepted
    await bench.live(35)
    assert (await bench.ask(HEART, Run(2000.0))).ok


async def test_a_dead_pressure_sensor_slows_the_heart_to_its_basal_flow() -> None:
    bench = Bench()
    await bench.circulate()
    bench.readings["p_heart.pressure"] = None
    await bench.live(LOST_PRESSURE_S)
    assert bench.pump(HEART).flow == 1600.0
    assert (await bench.ask(HEART, Run(2000.0))).command == Run(1600.0)
    bench.readings["p_heart.pressure"] = 3.0
    bench.sample()
    assert (await bench.ask(HEART, Run(2000.0))).command == Run(1600.0), "one reading proves nothing"
    await bench.live(2)
    assert (await bench.ask(HEART, Run(2000.0))).command == Run(2000.0)


async def test_a_heart_that_stands_stops_a_draw_under_way() -> None:
    bench = Bench()
    await bench.circulate()
    await bench.ask(DRAW, Dispense(10_000.0, 4000.0, "long"))
    bench.pump(HEART).flow = 0.0
    await bench.live(8)
    assert bench.pump(DRAW).flow == 0.0


async def test_a_valve_that_closes_by_itself_stops_the_pump_behind_it() -> None:
    bench = Bench()
    await bench.circulate()
    await bench.ask(VALVE, Switch(True))
    assert (await bench.ask(RETURN, Dispense(8_000.0, 4000.0, "long"))).ok
    bench.relay(VALVE).until_s = 0.0
    await bench.live(8)
    assert bench.pump(RETURN).flow == 0.0


async def test_closing_a_valve_stops_the_pump_behind_it_first() -> None:
    bench = Bench()
    await bench.circulate()
    await bench.ask(VALVE, Switch(True))
    assert (await bench.ask(RETURN, Dispense(8_000.0, 4000.0, "long"))).ok
    stopped_at: list[float] = []
    relay = bench.relay(VALVE)
    obey = relay.obey
    relay.obey = lambda command: (stopped_at.append(bench.pump(RETURN).flow), obey(command))[1]  # type: ignore[method-assign, func-returns-value]
    assert (await bench.ask(VALVE, Switch(False))).ok
    assert stopped_at == [0.0]


async def returning(bench: Bench, dose: Dispense) -> None:
    """Medium is given back through the open valve."""
    await bench.circulate()
    assert (await bench.ask(VALVE, Switch(True))).ok
    assert (await bench.ask(RETURN, dose)).ok


def is_open(bench: Bench) -> bool:
    return bool(bench.relay(VALVE).say().on)  # type: ignore[union-attr]


LONG_RETURN = Dispense(8_000.0, 4000.0, "long")


async def test_a_valve_stays_open_until_the_pump_behind_it_answers() -> None:
    bench = Bench()
    await returning(bench, LONG_RETURN)
    bench.outputs[RETURN].silent = True
    outcome = await bench.ask(VALVE, Switch(False))
    assert "not known to stand" in (outcome.error or "")
    await bench.live(60)
    assert bench.pump(RETURN).flow > 0
    assert is_open(bench)
    assert bench.raised("command_failed").count(VALVE) == 1
    assert len(bench.outputs[RETURN].log) < 12, "a line that is down is not asked each second"
    bench.outputs[RETURN].silent = False
    await bench.live(35)
    assert bench.pump(RETURN).flow == 0.0
    assert not is_open(bench)


async def test_a_valve_whose_lease_runs_out_stays_open_against_a_silent_pump_until_its_dose_is_over() -> None:
    bench = Bench()
    await returning(bench, LONG_RETURN)
    begun_s = bench.loop.time()
    bench.outputs[RETURN].silent = True
    limit_s = transfer_limit_s(LONG_RETURN)
    while bench.loop.time() < begun_s + limit_s - 3.0:
        await bench.live(1)
    assert VALVE in bench.raised("lease_expired")
    assert is_open(bench)
    await bench.live(8)
    assert not is_open(bench), "nothing is left that could end what the pump does"


async def test_a_dose_whose_reply_was_lost_keeps_its_valve_open() -> None:
    bench = Bench()
    await bench.circulate()
    assert (await bench.ask(VALVE, Switch(True))).ok
    pump = bench.pump(RETURN)
    obey = pump.obey

    def begin_and_fall_silent(command: Command) -> None:
        obey(command)
        pump.silent = True

    pump.obey = begin_and_fall_silent  # type: ignore[method-assign]
    assert not (await bench.ask(RETURN, LONG_RETURN)).ok
    await bench.live(60)
    assert pump.say().running  # type: ignore[union-attr]
    assert is_open(bench)


async def test_A9_an_emergency_stop_leaves_a_valve_open_while_its_pump_cannot_be_stopped() -> None:
    bench = Bench()
    await returning(bench, LONG_RETURN)
    assert (await bench.ask(HEATER, Switch(True, 60.0))).ok
    bench.outputs[RETURN].silent = True
    await bench.gate.estop("ben", "smoke")
    await bench.live(20)
    assert is_open(bench)
    assert not bench.relay(HEATER).say().on  # type: ignore[union-attr]
    bench.outputs[RETURN].silent = False
    await bench.live(35)
    assert at_basal(bench)


async def test_the_controllers_leave_taking_leaves_a_valve_open_while_its_pump_cannot_be_stopped() -> None:
    bench = Bench()
    await returning(bench, LONG_RETURN)
    bench.outputs[RETURN].silent = True
    await bench.gate.fall_back("the controller ends")
    assert bench.pump(RETURN).flow > 0
    assert is_open(bench)


async def test_a_valve_of_a_process_before_stays_open_until_its_pump_answers() -> None:
    bench = Bench()
    bench.relay(VALVE).obey(Switch(True))
    bench.pump(RETURN).obey(LONG_RETURN)
    bench.outputs[RETURN].silent = True
    await bench.circulate()
    await bench.gate.basal(VALVE, "no client asks for it")
    await bench.live(20)
    assert is_open(bench)
    bench.outputs[RETURN].silent = False
    await bench.live(35)
    assert bench.pump(RETURN).flow == 0.0
    assert not is_open(bench)


async def test_a_valve_that_is_closed_already_is_brought_to_rest_whatever_its_pump_says() -> None:
    bench = Bench()
    await bench.circulate()
    for output in (RETURN, DRAW):
        bench.outputs[output].silent = True
    assert (await bench.ask(VALVE, Switch(False))).ok
    await bench.gate.estop("ben", "smoke")
    assert bench.outputs[VALVE].log == [Switch(False)] * 2


# --- transfers --------------------------------------------------------------------------------------------


async def test_A5_a_transfer_that_runs_too_long_is_stopped_with_an_alarm() -> None:
    bench = Bench()
    await bench.circulate()
    pump = bench.pump(FEED)
    pump.never_ends = True
    dose = Dispense(5000.0, 10_000.0, "stuck")
    begun_s = bench.loop.time()
    assert (await bench.ask(FEED, dose)).ok
    await bench.live(transfer_limit_s(dose) - 2.0)
    assert pump.flow > 0
    await bench.live(4)
    assert pump.flow == 0.0
    assert bench.loop.time() - begun_s < transfer_limit_s(dose) + 6.0
    assert bench.raised("transfer_overlong") == [FEED]


async def test_I4_two_doses_at_once_do_not_share_one_room() -> None:
    bench = Bench()
    await bench.circulate()
    assert (await bench.ask(FEED, Dispense(10_000.0, 10_000.0, "a"))).ok
    again = await bench.ask(FEED, Dispense(5_000.0, 10_000.0, "b"))
    assert not again.accepted
    other = await bench.ask("dose_base.pump", Dispense(5_000.0, 10_000.0, "c"))
    assert "one at a time" in other.reasons[0]


async def test_I4_a_dose_that_is_given_but_not_booked_still_takes_its_room() -> None:
    bench = Bench(books=True)
    await bench.circulate()
    assert (await bench.ask(FEED, Dispense(15_000.0, 10_000.0, "a"))).ok
    await bench.live(100)
    base = "dose_base.pump"
    assert not (await bench.ask(base, Dispense(6_000.0, 10_000.0, "b"))).accepted
    bench.volumes["spent"] = Volume(35_000.0, 50.0)
    bench.gate.booked(FEED)
    assert (await bench.ask(base, Dispense(3_000.0, 10_000.0, "c"))).ok


async def test_a_pump_that_runs_since_before_a_crash_keeps_others_away() -> None:
    bench = Bench()
    bench.pump(DRAW).obey(Dispense(10_000.0, 4000.0, "from another life"))
    await bench.circulate()
    outcome = await bench.ask(RETURN, DOSE)
    assert any("one at a time" in reason for reason in outcome.reasons)


async def test_a_transfer_that_cannot_be_stopped_still_counts_as_running() -> None:
    bench = Bench()
    await bench.circulate()
    assert (await bench.ask(DRAW, Dispense(10_000.0, 4000.0, "a"))).ok
    bench.outputs[DRAW].silent = True
    assert not (await bench.gate.stop(DRAW, "a test")).ok
    assert not (await bench.ask(RETURN, DOSE)).accepted


# --- emergency --------------------------------------------------------------------------------------------


async def busy(bench: Bench) -> None:
    await bench.circulate()
    for gas, flow in ((AIR, 40.0), (O2, 5.0)):
        assert (await bench.ask(gas, Level(flow))).ok
    assert (await bench.ask(HEATER, Switch(True, 60.0))).ok
    assert (await bench.ask(VALVE, Switch(True))).ok
    assert (await bench.ask(RETURN, Dispense(8_000.0, 4000.0, "long"))).ok


def at_basal(bench: Bench) -> bool:
    return (
        bench.pump(HEART).flow == 1600.0
        and all(bench.pump(name).flow == 0.0 for name, pump in LIMITS.pumps.items() if pump.role == "transfer")
        and not any(bench.relay(name).say().on for name in LIMITS.switches)  # type: ignore[union-attr]
        and all(bench.level(name).setpoint == LIMITS.basal[name].value for name in LIMITS.levels)  # type: ignore[union-attr]
    )


@pytest.mark.parametrize("full", [False, True], ids=["journal works", "journal is full"])
async def test_A9_an_emergency_stop_brings_everything_to_rest_whatever_else_is_down(full: bool) -> None:
    bench = Bench()
    await busy(bench)
    bench.rows.full = full
    begun_s = bench.loop.time()
    await bench.gate.estop("ben", "smoke")
    assert at_basal(bench)
    assert bench.loop.time() - begun_s < 0.5
    assert bench.raised("emergency_stop") == ["gate"]


async def test_A9_one_dead_device_does_not_hold_up_the_others() -> None:
    bench = Bench()
    await busy(bench)
    bench.outputs[AIR].silent = True
    bench.outputs[AIR].takes_s = 5.0
    stopping = asyncio.create_task(bench.gate.estop("ben", "smoke"))
    await asyncio.sleep(1.0)
    assert bench.pump(RETURN).flow == 0.0
    assert not bench.relay(HEATER).say().on  # type: ignore[union-attr]
    await stopping
    bench.outputs[AIR].silent = False
    bench.outputs[AIR].takes_s = 0.02
    await bench.live(10)
    assert at_basal(bench)


async def test_A9_a_command_on_its_way_does_not_undo_an_emergency_stop() -> None:
    bench = Bench()
    await busy(bench)
    bench.relay(HEATER).takes_s = 3.0
    late = asyncio.create_task(bench.ask(HEATER, Switch(True, 60.0)))
    await asyncio.sleep(1.5)
    bench.relay(HEATER).takes_s = 0.02
    await bench.gate.estop("ben", "smoke")
    await late
    await bench.live(5)
    assert at_basal(bench)


async def test_I5_an_emergency_lasts_until_a_person_resets_it_with_a_reason() -> None:
    bench = Bench()
    await busy(bench)
    await bench.gate.estop("ben", "smoke")
    for _ in range(5):
        assert not (await bench.ask(HEART, Run(2000.0))).accepted
        assert not (await bench.ask(DRAW, DOSE)).accepted
        await bench.live(20)
    assert at_basal(bench)
    assert bench.raised("lease_expired") == []
    bench.gate.reset("ben", "only toast")
    assert (await bench.ask(HEART, Run(2000.0))).ok
    assert bench.rows.of("safety.estop") == [{"user": "ben", "reason": "smoke"}]
    assert bench.rows.of("safety.reset")[0]["reason"] == "only toast"


async def test_I5_what_is_latched_outlives_the_process() -> None:
    bench = Bench()
    bench.gate.restore("ben: smoke", {"over_pressure_heart": "99 is above 60"})
    await bench.circulate_refused()
    bench.gate.reset("ben", "new tubing")
    await bench.circulate()


# --- a full disk ------------------------------------------------------------------------------------------


async def test_D2_without_a_journal_life_goes_on_and_doses_do_not() -> None:
    bench = Bench()
    bench.rows.full = True
    assert (await bench.ask(HEART, Run(2000.0))).ok
    assert (await bench.ask(HEATER, Switch(True, 10.0))).ok
    assert (await bench.ask(AIR, Level(40.0))).ok
    outcome = await bench.ask(FEED, DOSE)
    assert not outcome.accepted
    assert "journal" in outcome.reasons[-1]
    assert bench.outputs[FEED].log == []
    assert "journal" in bench.raised("journal_unwritten")
    assert (await bench.gate.stop(HEART, "a test")).ok


async def test_the_controllers_leave_taking_puts_everything_in_its_basal_state() -> None:
    bench = Bench()
    await busy(bench)
    assert await bench.gate.fall_back("the controller ends") == ()
    assert at_basal(bench)


async def test_the_controllers_leave_taking_tells_what_is_not_in_its_basal_state() -> None:
    bench = Bench()
    await busy(bench)
    bench.outputs[HEART].silent = True
    bench.outputs[AIR].deaf = True
    bench.level(AIR).setpoint = 10.0
    assert set(await bench.gate.fall_back("the controller ends")) == {HEART, AIR}


async def test_the_state_shows_what_an_output_is_about() -> None:
    bench = Bench()
    view = bench.store.actuators[HEART]
    assert view.status is None
    assert view.basal == Run(1600.0)
    await bench.circulate()
    view = bench.store.actuators[HEART]
    assert view.commanded == Run(2000.0)
    assert view.lease_until_s == pytest.approx(bench.loop.time() + 30.0, abs=1.0)
    assert bench.store.readings[TEMPERATURE].quality is Quality.GOOD
