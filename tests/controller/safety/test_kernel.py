"""Decisions of the kernel: what goes out, what is tightened, what is refused, and why."""

from __future__ import annotations

import ast
from dataclasses import replace
from math import inf, isfinite, nan
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.safety import heat, interlocks, kernel, terms
from controller.safety.kernel import MAX_PULSE_S, MAX_TRANSFER_S, SIGMAS, SLACK, SLACK_S, decide, transfer_limit_s
from controller.safety.terms import Intent, Seen, Trip, Underway, View, Watch
from drivers.commands import Command, Dispense, Level, Quality, Run, Stop, Switch
from tests.controller.safety.facts import (
    AIR,
    CO2,
    DISCARD,
    DRAW,
    FEED,
    HEART,
    HEATER,
    LIMITS,
    NOW_S,
    O2,
    RETURN,
    RIG,
    TEMPERATURE,
    VALVE,
    Amount,
    Told,
    peace,
    with_reading,
    with_volumes,
)

ALL = tuple(LIMITS.basal)
TRANSFERS = tuple(name for name, pump in LIMITS.pumps.items() if pump.role == "transfer")


def ask(actuator: str, command: Command, view: View | None = None) -> terms.Verdict:
    return decide(Intent(actuator, command, "test", "a test"), view or peace(), LIMITS)


def dose(ul: float, flow: float = 4000.0, name: str = "d") -> Dispense:
    return Dispense(ul, flow, name)


# --- what the kernel is made of ---------------------------------------------------------------------------


def test_the_kernel_is_small() -> None:
    """Count lines that are not blank."""
    texts = (Path(str(module.__file__)).read_text() for module in (kernel, interlocks, heat, terms))
    assert sum(bool(line.strip()) for text in texts for line in text.splitlines()) < 1000


def test_the_kernel_imports_only_plain_data() -> None:
    allowed = {"__future__", "collections", "dataclasses", "enum", "math", "typing", "controller", "drivers"}
    for module in (kernel, interlocks, heat, terms):
        tree = ast.parse(Path(str(module.__file__)).read_text())
        for node in ast.walk(tree):
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            for name in names:
                assert name.partition(".")[0] in allowed, name
                if name.startswith("drivers"):
                    assert name == "drivers.commands"


# --- coming to rest ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("actuator", ALL)
def test_coming_to_rest_is_never_refused(actuator: str) -> None:
    hell = View(NOW_S, {}, {}, {}, (Underway(RETURN, 9e9),), "ben: fire", Watch())
    assert ask(actuator, Stop(), hell).accepted
    if actuator in LIMITS.switches:
        assert ask(actuator, Switch(False), hell).accepted


def test_an_unknown_actuator_is_refused() -> None:
    verdict = ask("reglo.unknown", Stop())
    assert not verdict.accepted
    assert "reglo.unknown" in (verdict.limiting or "")


# --- the heart --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "allowed"), [(2000.0, 2000.0), (9000.0, 4000.0), (10.0, 300.0), (300.0, 300.0), (4000.0, 4000.0)]
)
def test_I3_the_hearts_flow_is_brought_within_its_bounds_with_a_reason(wanted: float, allowed: float) -> None:
    verdict = ask(HEART, Run(wanted))
    assert verdict.command == Run(allowed)
    assert (verdict.limiting is None) == (wanted == allowed)
    assert bool(verdict.reasons) == (wanted != allowed)


@pytest.mark.parametrize("flow", [0.0, -5.0, nan, inf, -inf])
def test_the_heart_gets_no_impossible_flow(flow: float) -> None:
    assert not ask(HEART, Run(flow)).accepted


def test_the_heart_does_not_dose() -> None:
    assert not ask(HEART, dose(100.0)).accepted
    assert not ask(HEART, Switch(True, 5.0)).accepted


# --- transfers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pump", TRANSFERS)
def test_a_fitting_dose_passes_as_it_is(pump: str) -> None:
    assert ask(pump, dose(1000.0)) == terms.Verdict(True, dose(1000.0))


@pytest.mark.parametrize("pump", TRANSFERS)
@pytest.mark.parametrize("command", [Run(100.0), Switch(True, 3.0), Level(3.0)])
def test_A5_a_transfer_pump_only_gets_finite_volumes(pump: str, command: Command) -> None:
    assert not ask(pump, command).accepted


@pytest.mark.parametrize("bad", [0.0, -1.0, nan, inf, -inf])
def test_A5_a_dose_is_finite_and_above_zero(bad: float) -> None:
    assert not ask(DRAW, dose(bad)).accepted
    assert not ask(DRAW, dose(1000.0, bad)).accepted


def test_A5_a_dose_has_a_longest_duration() -> None:
    just = 4.0 / 60.0 * (MAX_TRANSFER_S - SLACK_S) / SLACK
    assert ask(FEED, dose(just * 0.999, 4.0)).accepted
    verdict = ask(FEED, dose(just * 1.001, 4.0))
    assert "duration" in (verdict.limiting or "")


@given(st.floats(1.0, 50_000.0), st.floats(1.0, 10_000.0))
def test_A5_the_watch_over_a_dose_leaves_it_its_time_and_has_an_end(ul: float, flow: float) -> None:
    limit_s = transfer_limit_s(dose(ul, flow))
    assert limit_s <= MAX_TRANSFER_S
    if ask(FEED, dose(ul, flow), with_volumes(spent=Amount(2000.0))).accepted:
        assert limit_s >= ul / flow * 60.0 + SLACK_S


def test_a_flow_above_the_lines_is_refused_not_clipped() -> None:
    assert not ask(DRAW, dose(1000.0, 4001.0)).accepted


def test_I4_a_dose_that_might_overfill_is_refused_whole() -> None:
    ceiling = LIMITS.vessels["spent"].ceiling_ul
    room = ceiling - 20_000.0 - SIGMAS * 50.0
    assert ask(DRAW, dose(room - 1.0, 4000.0)).accepted
    verdict = ask(DRAW, dose(room + 1.0))
    assert not verdict.accepted
    assert verdict.command is None
    assert "spent could rise" in (verdict.limiting or "")


def test_I4_a_dose_that_might_run_dry_is_refused() -> None:
    floor = LIMITS.vessels["spent"].floor_ul
    room = 20_000.0 - floor - SIGMAS * 50.0
    assert ask(DISCARD, dose(room - 1.0)).accepted
    assert "spent could fall" in (ask(DISCARD, dose(room + 1.0)).limiting or "")


def test_I4_doubt_about_a_volume_takes_room() -> None:
    assert ask(DRAW, dose(15_000.0)).accepted
    assert not ask(DRAW, dose(15_000.0), with_volumes(spent=Amount(20_000.0, 2000.0))).accepted
    assert not ask(DRAW, dose(1000.0), with_volumes(loop=Amount(40_000.0, nan))).accepted
    assert not ask(DRAW, dose(1000.0), with_volumes(spent=Amount(nan))).accepted


@pytest.mark.parametrize("pump", TRANSFERS)
def test_I2_an_unknown_volume_is_no_room(pump: str) -> None:
    for vessel in (LIMITS.pumps[pump].source, LIMITS.pumps[pump].target):
        volumes = {name: volume for name, volume in peace().volumes.items() if name != vessel}
        assert f"that of {vessel} is not known" in (ask(pump, dose(500.0), peace(volumes=volumes)).limiting or "")


def test_I4_what_has_ended_but_is_not_booked_takes_room_and_makes_none() -> None:
    ended = Underway(FEED, 15_000.0, "before", running=False)
    assert ask(DRAW, dose(5000.0)).accepted
    assert ask(DRAW, dose(4000.0), peace(underway=(ended,))).accepted
    assert not ask(DRAW, dose(5000.0), peace(underway=(ended,))).accepted
    leaving = Underway(DISCARD, 15_000.0, "before", running=False)
    assert not ask(DRAW, dose(19_900.0), peace(underway=(leaving,))).accepted, "what might leave makes no room"


def test_one_transfer_at_a_time_on_the_weighed_vessel() -> None:
    for other in TRANSFERS:
        for pump in TRANSFERS:
            verdict = ask(pump, dose(500.0), peace(underway=(Underway(other, 500.0, "other"),)))
            assert not verdict.accepted, (other, pump)
            assert "one at a time" in (verdict.limiting or "")


def test_draw_and_return_never_run_together() -> None:
    assert not ask(RETURN, dose(500.0), peace(underway=(Underway(DRAW, 0.0),))).accepted
    assert not ask(DRAW, dose(500.0), peace(underway=(Underway(RETURN, 0.0),))).accepted


def test_A4_the_same_dose_again_is_not_refused_for_itself() -> None:
    big = dose(12_000.0, name="one")
    assert ask(DRAW, big, peace(underway=(Underway(DRAW, 12_000.0, "one"),))).accepted


@pytest.mark.parametrize(
    "valve", [None, Seen(False, 0.0, NOW_S), Seen(True, 1.0, NOW_S - 60.0)], ids=["never seen", "closed", "stale"]
)
def test_I2_the_return_pump_needs_a_valve_that_is_known_to_be_open(valve: Seen | None) -> None:
    seen = {name: value for name, value in peace().seen.items() if name != VALVE}
    if valve is not None:
        seen[VALVE] = valve
    assert "valve" in (ask(RETURN, dose(500.0), peace(seen=seen)).limiting or "")
    assert ask(DRAW, dose(500.0), peace(seen=seen)).accepted


@pytest.mark.parametrize(
    "heart", [None, Seen(False, 0.0, NOW_S), Seen(True, 2000.0, NOW_S - 60.0)], ids=["never seen", "stands", "stale"]
)
def test_I1_nothing_is_drawn_while_the_heart_is_not_known_to_flow(heart: Seen | None) -> None:
    seen = {name: value for name, value in peace().seen.items() if name != HEART}
    if heart is not None:
        seen[HEART] = heart
    assert "no_heart_flow" in (ask(DRAW, dose(500.0), peace(seen=seen)).limiting or "")
    assert ask(RETURN, dose(500.0), peace(seen=seen)).accepted
    assert ask(HEART, Run(2000.0), peace(seen=seen)).accepted


# --- switches ---------------------------------------------------------------------------------------------


def test_A1_a_heater_is_only_ever_on_for_a_finite_time() -> None:
    assert ask(HEATER, Switch(True, 12.0)).command == Switch(True, 12.0)
    assert ask(HEATER, Switch(True, 900.0), with_reading(TEMPERATURE, Told(30.0))).command == Switch(True, MAX_PULSE_S)
    assert not ask(HEATER, Switch(True)).accepted
    for bad in (0.0, -1.0, nan, inf):
        assert not ask(HEATER, Switch(True, bad)).accepted
    assert not ask(HEATER, Run(5.0)).accepted


@given(
    celsius=st.floats(20.0, 38.5),
    asked=st.lists(st.floats(0.1, 100.0), min_size=1, max_size=30),
    gap_s=st.floats(0.5, 9.0),
)
def test_I1_pulses_together_do_not_heat_beyond_the_ceiling_while_the_reading_stands_still(
    celsius: float, asked: list[float], gap_s: float
) -> None:
    """Any pulses, at any rhythm: the last ends before the heat since the last change of the reading is too much."""
    rule = next(rule for rule in LIMITS.interlocks if rule.name == "temperature")
    since_s, until_s = NOW_S, NOW_S
    for number, pulse_s in enumerate(asked):
        now_s = since_s + number * gap_s
        told = Told(celsius, at_s=now_s, same_since_s=since_s)
        view = replace(with_reading(TEMPERATURE, told), now_s=now_s)
        verdict = ask(HEATER, Switch(True, pulse_s), view)
        if verdict.accepted:
            assert isinstance(verdict.command, Switch)
            assert verdict.command.for_s is not None
            assert 0.0 < verdict.command.for_s <= pulse_s
            assert verdict.limiting is None or "full power" in verdict.limiting or "bounds" in verdict.limiting
            until_s = max(until_s, now_s + verdict.command.for_s)
    assert celsius + rule.rise_per_s * (until_s - since_s) <= rule.ceiling + 1e-6


def test_I1_a_probe_that_moves_lets_a_regulator_heat() -> None:
    """Neither a window at full power in the cold nor the usual share of it at the set-point is shortened."""
    for celsius, pulse_s in ((24.0, 20.0), (36.5, 20.0), (37.0, 20.0), (37.5, 12.0)):
        told = Told(celsius, same_since_s=NOW_S - 4.0)
        assert ask(HEATER, Switch(True, pulse_s), with_reading(TEMPERATURE, told)).command == Switch(True, pulse_s)


def test_I1_without_the_bound_a_stuck_probe_lets_every_pulse_through() -> None:
    """The mutation that the campaign found: it is the ceiling that ends the heat, nothing else."""
    bare = replace(LIMITS, interlocks=tuple(replace(rule, rise_per_s=0.0) for rule in LIMITS.interlocks))
    view = with_reading(TEMPERATURE, Told(38.4, same_since_s=NOW_S - 60.0))
    intent = Intent(HEATER, Switch(True, 60.0), "test", "a test")
    assert kernel.decide(intent, view, bare).command == Switch(True, 60.0)
    verdict = kernel.decide(intent, view, LIMITS)
    assert not verdict.accepted
    assert "full power could pass 39.5" in (verdict.limiting or "")


def test_a_valve_may_be_held_open() -> None:
    assert ask(VALVE, Switch(True)).accepted


# --- interlocks at the decision ---------------------------------------------------------------------------


@pytest.mark.parametrize("told", [Told(38.6), Told(37.0, at_s=NOW_S - 16.0), None], ids=["hot", "stale", "missing"])
def test_I1_the_heater_is_refused_at_the_very_decision(told: Told | None) -> None:
    verdict = ask(HEATER, Switch(True, 5.0), with_reading(TEMPERATURE, told))
    assert not verdict.accepted
    assert "interlock temperature" in (verdict.limiting or "")


def test_cold_is_what_a_heater_is_for() -> None:
    assert ask(HEATER, Switch(True, 5.0), with_reading(TEMPERATURE, Told(30.0))).accepted


def test_I1_too_much_pressure_stops_the_heart_and_doubt_holds_it_at_its_basal_flow() -> None:
    assert not ask(HEART, Run(1600.0), with_reading("p_heart.pressure", Told(61.0))).accepted
    blind = with_reading("p_heart.pressure", None)
    verdict = ask(HEART, Run(2000.0), blind)
    assert verdict.command == Run(RIG.organs.hearts["heart"].basal_ul_min)
    assert "p_heart.pressure" in (verdict.limiting or "")
    assert ask(HEART, Run(500.0), blind).command == Run(500.0)
    assert ask(HEART, Run(9000.0), blind).command == Run(RIG.organs.hearts["heart"].basal_ul_min)


def test_I1_too_much_pressure_or_none_known_stops_the_return() -> None:
    assert not ask(RETURN, dose(500.0), with_reading("p_filter.pressure", Told(81.0))).accepted
    assert not ask(RETURN, dose(500.0), with_reading("p_filter.pressure", None)).accepted


def test_I5_a_latched_interlock_refuses_until_it_is_reset() -> None:
    trip = Trip("over_pressure_heart", "p_heart.pressure", "99 is above 60", 0.0, (HEART,), latched=True, present=False)
    watch = Watch((trip,))
    verdict = ask(HEART, Run(2000.0), peace(watch=watch))
    assert "reset it" in (verdict.limiting or "")
    assert ask(HEART, Run(2000.0), peace(watch=watch.reset())).accepted


def test_I5_an_emergency_leaves_basal_states_and_nothing_else() -> None:
    view = peace(emergency="ben: smoke")
    for name, basal in LIMITS.basal.items():
        assert ask(name, basal, view).accepted
    assert "ben: smoke" in (ask(HEART, Run(2000.0), view).limiting or "")
    for pump in TRANSFERS:
        assert not ask(pump, dose(100.0), view).accepted
    assert not ask(HEATER, Switch(True, 5.0), view).accepted
    assert not ask(AIR, Level(30.0), view).accepted


# --- gases ------------------------------------------------------------------------------------------------


def gases(air: float, co2: float, o2: float) -> View:
    flows = {AIR: air, CO2: co2, O2: o2}
    return peace(seen={**peace().seen, **{name: Seen(flow > 0, flow, NOW_S) for name, flow in flows.items()}})


@pytest.mark.parametrize(("gas", "most"), [(AIR, 50.0), (CO2, 4.5), (O2, 20.0)])
def test_gas_flows_stay_within_their_bounds(gas: str, most: float) -> None:
    assert ask(gas, Level(1000.0)).command == Level(most)
    for bad in (nan, inf):
        assert not ask(gas, Level(bad)).accepted
    assert not ask(gas, Run(3.0)).accepted


def test_co2_follows_air() -> None:
    assert ask(CO2, Level(3.0), gases(0.0, 0.0, 0.0)).command == Level(0.0)
    tightened = ask(CO2, Level(4.5), gases(20.0, 0.0, 0.0))
    assert tightened.command == Level(pytest.approx(20.0 * 0.09 / 0.91))  # type: ignore[arg-type]
    assert "mixture" in (tightened.limiting or "")
    assert ask(CO2, Level(4.5), gases(45.5, 0.0, 0.0)).command == Level(4.5)


def test_air_does_not_leave_co2_behind() -> None:
    verdict = ask(AIR, Level(10.0), gases(47.0, 3.0, 0.0))
    assert verdict.command == Level(pytest.approx(3.0 * 0.91 / 0.09))  # type: ignore[arg-type]
    assert ask(AIR, Level(10.0), gases(0.0, 3.0, 0.0)).command == Level(10.0), "more air is never worse"
    assert not ask(O2, Level(0.0), gases(10.0, 3.0, 20.0)).accepted
    assert not ask(AIR, Level(0.0), gases(47.0, 30.0, 0.0)).accepted, "more than there can be of it"


# --- over all of it ---------------------------------------------------------------------------------------

numbers = st.one_of(st.floats(-1e6, 1e6), st.sampled_from([nan, inf, -inf, 0.0, 1e-300]))
commands: st.SearchStrategy[Command] = st.one_of(
    st.builds(Run, numbers),
    st.builds(Dispense, numbers, numbers, st.sampled_from(["a", "b"])),
    st.builds(Dispense, st.floats(1.0, 30_000.0), st.floats(500.0, 5000.0), st.just("c")),
    st.builds(Switch, st.booleans(), st.one_of(st.none(), numbers)),
    st.builds(Level, numbers),
    st.just(Stop()),
)
readings = st.builds(
    Told,
    st.one_of(numbers, st.floats(0.0, 100.0)),
    st.sampled_from(list(Quality)),
    st.floats(NOW_S - 40.0, NOW_S + 5.0),
    st.floats(0.0, NOW_S),
)
volumes = st.builds(Amount, st.one_of(numbers, st.floats(0.0, 60_000.0)), st.floats(0.0, 3000.0))


@st.composite
def views(draw: st.DrawFn) -> View:
    base = peace()
    if draw(st.booleans()):  # a rig in order whose vessels are anywhere, so that doses do pass
        return replace(base, volumes={name: draw(volumes) for name in base.volumes})
    told = {name: value for name in base.readings if (value := draw(st.one_of(st.none(), readings))) is not None}
    amounts = {name: amount for name in base.volumes if (amount := draw(st.one_of(st.none(), volumes))) is not None}
    seen = {
        name: Seen(draw(st.booleans()), draw(st.floats(0.0, 5000.0)), draw(st.floats(NOW_S - 60.0, NOW_S)))
        for name in draw(st.sets(st.sampled_from(ALL)))
    }
    underway = draw(
        st.lists(
            st.builds(Underway, st.sampled_from(TRANSFERS), st.floats(0.0, 30_000.0), st.just("x"), st.booleans()),
            max_size=3,
        )
    )
    emergency = draw(st.one_of(st.none(), st.just("ben: fire")))
    return replace(base, readings=told, volumes=amounts, seen=seen, underway=tuple(underway), emergency=emergency)


@given(st.sampled_from(ALL), commands, views())
def test_I3_I4_no_state_of_the_world_lets_anything_past_the_bounds(actuator: str, command: Command, view: View) -> None:
    verdict = ask(actuator, command, view)
    allowed = verdict.command
    if not verdict.accepted:
        assert allowed is None
        assert verdict.reasons
        assert verdict.limiting in verdict.reasons
        return
    assert (verdict.limiting is not None) == (allowed != command)
    assert type(allowed) is type(command)
    match allowed:
        case Run(flow_ul_min=flow):
            assert LIMITS.pumps[actuator].role == "heart"
            assert LIMITS.pumps[actuator].min_ul_min <= flow <= LIMITS.pumps[actuator].max_ul_min
        case Dispense(volume_ul=ul, flow_ul_min=flow, dose_id=name):
            assert allowed == command, "a dose is never shortened in silence"
            pump = LIMITS.pumps[actuator]
            assert flow <= pump.max_ul_min
            source, target = view.volumes[pump.source], view.volumes[pump.target]
            assert source.ul - SIGMAS * source.sd_ul - ul >= LIMITS.vessels[pump.source].floor_ul
            assert target.ul + SIGMAS * target.sd_ul + ul <= LIMITS.vessels[pump.target].ceiling_ul
            assert not any(other.running and other.actuator in pump.excludes for other in view.underway)
            assert isfinite(ul)
            assert ul > 0
            assert name
        case Switch(on=True, for_s=for_s) if actuator == HEATER:
            assert for_s is not None
            assert 0 < for_s <= MAX_PULSE_S
        case Level(value=value):
            low, high = LIMITS.levels[actuator]
            assert low <= value <= high
        case _:
            pass
    if view.emergency is not None and allowed != LIMITS.basal[actuator]:
        assert isinstance(allowed, Stop) or (isinstance(allowed, Switch) and not allowed.on)


@given(st.sampled_from(ALL), commands, views())
def test_I3_what_was_tightened_is_content_with_itself(actuator: str, command: Command, view: View) -> None:
    allowed = ask(actuator, command, view).command
    if allowed is not None and not (isinstance(allowed, Level)):
        assert ask(actuator, allowed, view).command == allowed


@given(st.sampled_from(TRANSFERS), st.floats(1.0, 20_000.0), views())
def test_I3_a_world_with_more_doubt_never_allows_more(pump: str, ul: float, view: View) -> None:
    doubtful = replace(
        view, volumes={name: Amount(value.ul, value.sd_ul * 2.0 + 1.0) for name, value in view.volumes.items()}
    )
    if ask(pump, dose(ul), doubtful).accepted:
        assert ask(pump, dose(ul), view).accepted


@given(st.sampled_from(ALL), commands, views())
def test_I3_an_emergency_never_allows_more(actuator: str, command: Command, view: View) -> None:
    calm, emergency = replace(view, emergency=None), replace(view, emergency="ben: fire")
    if ask(actuator, command, emergency).accepted:
        assert ask(actuator, command, calm) == ask(actuator, command, emergency)
