"""The safety kernel in any world: doubtful input is unsafe, and a trip follows its level.

Single decisions: test_kernel.py; rigs with other hearts: test_kernel_any_rig.py.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.state import Reading
from controller.safety.interlocks import evaluate, watch
from controller.safety.kernel import decide
from controller.safety.limits import FLAT_TEMPERATURE_S
from controller.safety.terms import Cause, Intent, Seen, Trip, Verdict, View, Watch
from drivers.commands import Command, Dispense, Level, Quality, Run, Stop, Switch
from tests.controller.safety.facts import (
    AIR,
    AT_ONCE,
    CO2,
    DISCARD,
    DRAW,
    FEED,
    HEART,
    HEATER,
    NOW_S,
    O2,
    RETURN,
    TEMPERATURE,
    VALVE,
)
from tests.controller.safety.worlds import FILTER_KPA, GOOD, HEART_KPA, SEEN, VOLUMES, reading

LIMITS = AT_ONCE
PULSE = Switch(True, 10.0)


def calm() -> View:
    """A rig that is well, with the return valve open."""
    return View(NOW_S, GOOD, VOLUMES, SEEN)


def with_reading(point: str, value: Reading | None) -> View:
    readings = {name: known for name, known in GOOD.items() if name != point}
    return replace(calm(), readings=readings if value is None else readings | {point: value})


def ask(actuator: str, command: Command, view: View | None = None) -> Verdict:
    return decide(Intent(actuator, command, "test", "a test"), view or calm(), LIMITS)


def tripped(view: View) -> dict[str, Trip]:
    return {trip.interlock: trip for trip in evaluate(view, LIMITS)}


def dose(volume_ul: float = 1000.0, flow_ul_min: float = 4000.0, name: str = "d-1") -> Dispense:
    return Dispense(volume_ul, flow_ul_min, name)


def test_a_calm_rig_lets_through_what_it_lives_on() -> None:
    assert tripped(calm()) == {}
    wanted: dict[str, Command] = {
        HEART: Run(2000.0), HEATER: PULSE, VALVE: Switch(True), AIR: Level(47.0), CO2: Level(3.0), O2: Level(0.0),
        DRAW: dose(), RETURN: dose(), DISCARD: dose(), FEED: dose(),
    }  # fmt: skip
    for actuator, command in wanted.items():
        assert ask(actuator, command) == Verdict(True, command), actuator


# --- I2: doubtful input is unsafe --------------------------------------------------------------------------

DOUBTS: dict[str, tuple[Reading | None, str]] = {
    "missing": (None, "never read"),
    "stale": (reading(37.0, at_s=NOW_S - 16.0), "stale"),
    "never taken": (reading(37.0, at_s=-math.inf), "stale"),
    "at no time": (reading(37.0, at_s=math.nan), "stale"),
    "flat": (reading(37.0, since_s=NOW_S - FLAT_TEMPERATURE_S - 1.0), "flat"),
    "future": (reading(37.0, at_s=NOW_S + 5.0), "future"),
    "above any probe": (reading(60.5), "out of range"),
    "below any probe": (reading(-1.0), "out of range"),
    "NaN": (reading(math.nan), "not a number"),
    "infinite": (reading(-math.inf), "not a number"),
    "MISSING": (replace(reading(37.0), quality=Quality.MISSING), "no good reading"),
    "SUSPECT": (replace(reading(37.0), quality=Quality.SUSPECT), "no good reading"),
}


@pytest.mark.parametrize("name", sorted(DOUBTS))
def test_I2_doubtful_input_is_unsafe(name: str) -> None:
    value, why = DOUBTS[name]
    view = with_reading(TEMPERATURE, None if value is None else replace(value, unit="degC"))
    trip = tripped(view)["temperature"]
    assert trip.cause is Cause.DOUBT
    assert why in trip.detail
    assert HEATER in trip.actuators
    verdict = ask(HEATER, PULSE, view)
    assert not verdict.accepted
    assert "interlock temperature" in (verdict.limiting or "")
    assert ask(HEATER, Switch(False), view).accepted
    assert ask(HEART, Run(2000.0), view) == Verdict(True, Run(2000.0))


@pytest.mark.parametrize("name", sorted(set(DOUBTS) - {"flat", "above any probe", "below any probe"}))
def test_I2_a_doubtful_pressure_stops_the_return_and_slows_the_heart(name: str) -> None:
    """A dead gauge must not cost the tissue its circulation, but no more than the basal flow may go through."""
    value, _ = DOUBTS[name]
    assert not ask(RETURN, dose(), with_reading(FILTER_KPA, value)).accepted
    verdict = ask(HEART, Run(2000.0), with_reading(HEART_KPA, value))
    assert verdict.command == LIMITS.basal[HEART] == Run(1600.0)
    assert "over_pressure_heart" in (verdict.limiting or "")
    assert ask(HEART, Run(500.0), with_reading(HEART_KPA, value)).command == Run(500.0)


def test_I2_the_last_good_reading_counts_while_it_is_fresh_and_a_clock_may_be_a_second_off() -> None:
    for quality in (Quality.SUSPECT, Quality.MISSING, Quality.STALE):
        fresh, old = reading(37.0, "degC", at_s=NOW_S - 15.0), reading(37.0, "degC", at_s=NOW_S - 15.1)
        assert (
            tripped(with_reading(TEMPERATURE, replace(reading(37.0, "degC"), quality=quality, last_good=fresh))) == {}
        )
        assert tripped(with_reading(TEMPERATURE, replace(reading(37.0, "degC"), quality=quality, last_good=old))) != {}
    assert tripped(with_reading(TEMPERATURE, reading(37.0, "degC", at_s=NOW_S + 0.5))) == {}
    assert tripped(with_reading(TEMPERATURE, reading(37.0, "degC", at_s=NOW_S - 15.0))) == {}


@given(
    value=st.floats(), age_s=st.floats(), flat_s=st.floats(0.0, 4000.0), quality=st.sampled_from(Quality),
)  # fmt: skip
def test_I2_heat_only_ever_follows_a_fresh_good_reading_below_the_limit(
    value: float, age_s: float, flat_s: float, quality: Quality
) -> None:
    view = with_reading(TEMPERATURE, Reading(value, "degC", quality, NOW_S - age_s, "", NOW_S - flat_s))
    sound = (
        quality is Quality.GOOD
        and 0.0 <= value <= 38.5
        and -1.0 <= NOW_S - (NOW_S - age_s) <= 15.0
        and flat_s <= FLAT_TEMPERATURE_S
    )
    assert ask(HEATER, PULSE, view).accepted == sound


# --- I1: levels, not edges ---------------------------------------------------------------------------------


def test_I1_level_triggered() -> None:
    """It trips for as long as the level is left, however it got there, and no memory is needed to see it."""
    hot = with_reading(TEMPERATURE, reading(38.6, "degC"))
    memory = Watch()
    for later in range(5):
        view = replace(hot, now_s=NOW_S + later, watch=memory)
        memory = watch(view, LIMITS)
        (trip,) = memory.trips
        assert (trip.cause, trip.present, trip.since_s) == (Cause.HIGH, True, NOW_S)
        assert not ask(HEATER, PULSE, view).accepted
    assert not ask(HEATER, PULSE, hot).accepted  # with no memory at all: a controller that has just begun
    within = replace(with_reading(TEMPERATURE, reading(38.45, "degC")), now_s=NOW_S + 5.0, watch=memory)
    assert [trip.cause for trip in watch(within, LIMITS).trips] == [Cause.HIGH]  # inside the dead-band
    cool = replace(with_reading(TEMPERATURE, reading(38.3, "degC")), now_s=NOW_S + 5.0, watch=memory)
    assert watch(cool, LIMITS).trips == ()
    assert ask(HEATER, PULSE, cool).accepted


def at(now_s: float, memory: Watch, point: str | None = None, kpa: float = 0.0) -> View:
    """Everything fresh at that moment; `point`, when it is given, says so much."""
    view = calm() if point is None else with_reading(point, reading(kpa, at_s=now_s))
    return _kept_fresh(replace(view, now_s=now_s, watch=memory))


def test_I1_pressure_at_the_filter_holds_then_latches_until_a_person_resets_it() -> None:
    memory, now_s = Watch(), NOW_S
    for strike in range(3):
        memory = watch(at(now_s, memory, FILTER_KPA, 90.0), LIMITS)
        assert memory.trips[0].latched == (strike == 2)
        now_s += 59.0
        assert not ask(RETURN, dose(), at(now_s, memory)).accepted  # held, although the pressure has fallen
        assert ask(RETURN, Stop(), at(now_s, memory)).accepted
        now_s += 2.0
        memory = watch(at(now_s, memory), LIMITS)
        assert bool(memory.trips) == (strike == 2)
        now_s += 1.0
    late = at(now_s + 86_400.0, memory)
    assert "latched" in (ask(RETURN, dose(), late).limiting or "")
    assert ask(RETURN, dose(), replace(late, watch=memory.reset())).accepted


def test_I1_pressure_at_the_heart_holds_ever_longer_and_is_tried_at_the_basal_flow() -> None:
    """Tissue without circulation dies for certain, so a heart is tried again without an operator."""
    memory, now_s = Watch(), NOW_S
    for hold_s in (60.0, 60.0, 120.0, 240.0, 300.0, 300.0):
        memory = watch(at(now_s, memory, HEART_KPA, 70.0), LIMITS)
        held = at(now_s + hold_s - 1.0, memory)
        assert not ask(HEART, Run(2000.0), held).accepted  # although the pressure has fallen
        assert ask(HEART, Stop(), held).accepted
        now_s += hold_s
        memory = watch(at(now_s, memory), LIMITS)
        assert ask(HEART, Run(2000.0), at(now_s, memory)).command == LIMITS.basal[HEART]
        assert [trip.latched for trip in memory.trips] == [False]
        now_s += 1.0
    assert ask(HEART, Run(2000.0), at(now_s + 118.0, memory)).command == LIMITS.basal[HEART]
    assert ask(HEART, Run(2000.0), at(now_s + 119.0, memory)).command == Run(2000.0)


STEP_S = 20.0
BOUTS = st.lists(
    st.tuples(st.integers(1, 4), st.sampled_from([1, 3, 4, 10, 16, 22, 95])), min_size=1, max_size=7
)  # fmt: skip
"""How many steps of high pressure, and of peace after it: shorter and longer than each hold, probation, half an hour."""


@settings(max_examples=60, deadline=None)
@given(bouts=BOUTS)
def test_I1_whatever_the_pressure_does_a_heart_is_held_soon_tried_and_never_latched(
    bouts: list[tuple[int, int]],
) -> None:
    memory, now_s = Watch(), NOW_S
    for high, peace in bouts:
        for step in range(1, high + peace + 1):
            now_s += STEP_S
            pressed = step <= high
            view = at(now_s, memory, *((HEART_KPA, 70.0) if pressed else ()))
            memory = watch(view, LIMITS)
            assert not any(trip.latched for trip in memory.trips)
            since_s = max(step - high, 0) * STEP_S
            verdict = ask(HEART, Run(2000.0), view)
            if since_s < 60.0:
                assert not verdict.accepted
            elif since_s < 180.0:
                assert verdict.command in (None, LIMITS.basal[HEART]), "never at once with its full flow"
            elif since_s >= 420.0:
                assert verdict.command == Run(2000.0)
            if since_s >= 300.0:
                assert verdict.accepted


@settings(max_examples=60, deadline=None)
@given(bouts=BOUTS)
def test_I1_whatever_the_pressure_does_a_filter_latches_at_three_strikes_within_half_an_hour(
    bouts: list[tuple[int, int]],
) -> None:
    memory, now_s = Watch(), NOW_S
    begun_s: list[float] = []
    latched = False
    for high, peace in bouts:
        begun_s.append(now_s + STEP_S)
        latched = latched or sum(begun_s[-1] - each_s <= 1800.0 for each_s in begun_s) >= 3
        for step in range(1, high + peace + 1):
            now_s += STEP_S
            pressed = step <= high
            view = at(now_s, memory, *((FILTER_KPA, 90.0) if pressed else ()))
            memory = watch(view, LIMITS)
            assert any(trip.latched for trip in memory.trips) == latched
            since_s = max(step - high, 0) * STEP_S
            assert ask(RETURN, dose(), view).accepted == (not latched and since_s >= 60.0)
    forgiven = memory.reset()
    assert not any(trip.latched for trip in forgiven.trips)
    assert forgiven.strikes == ()


def _kept_fresh(view: View) -> View:
    readings = {name: replace(known, at_s=view.now_s, same_since_s=view.now_s) for name, known in GOOD.items()}
    readings |= {name: known for name, known in view.readings.items() if known.value != GOOD[name].value}  # type: ignore[misc]
    return replace(view, readings=readings, seen={name: replace(seen, at_s=view.now_s) for name, seen in SEEN.items()})


# --- gas ----------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(steps=st.lists(st.tuples(st.sampled_from([AIR, CO2, O2]), st.floats(0.0, 60.0)), max_size=12))
def test_no_order_of_set_points_ever_makes_too_much_co2(steps: list[tuple[str, float]]) -> None:
    seen = dict(SEEN)
    for gas, value in steps:
        verdict = ask(gas, Level(value), replace(calm(), seen=seen))
        if isinstance(verdict.command, Level):
            seen[gas] = Seen(verdict.command.value > 0, verdict.command.value, NOW_S - 1.0)
        total = sum(seen[each].level for each in (AIR, CO2, O2))
        assert seen[CO2].level <= 0.0912 * total + 1e-9


def test_a_gas_level_is_finite() -> None:
    for value in (math.nan, math.inf, -math.inf):
        assert not ask(AIR, Level(value)).accepted
    assert ask(O2, Level(-3.0)).command == Level(0.0)
