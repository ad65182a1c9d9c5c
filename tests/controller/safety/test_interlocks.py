"""Interlocks: which input counts as unsafe, how long a trip lasts, when it latches."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.safety.interlocks import STRIKES_WITHIN_S, evaluate, watch
from controller.safety.kernel import decide
from controller.safety.terms import Airless, Cause, Intent, Response, Seen, Trip, Underway, View, Watch
from drivers.commands import Level, Quality
from tests.controller.safety.facts import (
    AIR,
    AT_ONCE,
    CO2,
    DRAW,
    FILTER_PRESSURE,
    HEART,
    HEART_PRESSURE,
    HEATER,
    NOW_S,
    O2,
    PH,
    RETURN,
    RIG,
    TEMPERATURE,
    VALVE,
    Told,
    peace,
    with_reading,
)

LIMITS = AT_ONCE
RULES = {rule.name: rule for rule in LIMITS.interlocks}


def tripped(view: View) -> dict[str, Trip]:
    return {trip.interlock: trip for trip in evaluate(view, LIMITS)}


def test_a_rig_at_peace_trips_nothing() -> None:
    assert evaluate(peace(), LIMITS) == ()
    assert watch(peace(), LIMITS) == Watch()


DOUBTFUL = {
    "missing": None,
    "failed": Told(37.0, Quality.MISSING),
    "not a number": Told(nan),
    "infinite": Told(inf),
    "in another unit": Told(37.0, unit="K"),
    "without a unit": Told(37.0, unit=""),
    "stale": Told(37.0, at_s=NOW_S - 15.1),
    "never": Told(37.0, at_s=-inf),
    "from the future": Told(37.0, at_s=NOW_S + 1.1),
    "below what a probe can say": Told(-1.0),
    "above what a probe can say": Told(61.0),
    "flat": Told(37.0, same_since_s=NOW_S - 1801.0),
}


@pytest.mark.parametrize("told", DOUBTFUL.values(), ids=DOUBTFUL.keys())
def test_I2_input_that_cannot_be_trusted_counts_as_unsafe(told: Told | None) -> None:
    trip = tripped(with_reading(TEMPERATURE, told))["temperature"]
    assert trip.cause is Cause.DOUBT
    assert trip.response is Response.OFF
    assert HEATER in trip.actuators
    assert trip.detail


@pytest.mark.parametrize(
    "told",
    [
        Told(37.0, at_s=NOW_S - 15.0),
        Told(37.0, at_s=NOW_S + 1.0),
        Told(37.0, Quality.SUSPECT, last_good=Told(37.0)),
        Told(37.0, same_since_s=NOW_S - 180.0),
        Told(35.0),
        Told(38.5),
    ],
)
def test_I2_the_bounds_of_trust_belong_to_it(told: Told) -> None:
    assert tripped(with_reading(TEMPERATURE, told)) == {}


@pytest.mark.parametrize(
    ("point", "name"), [(HEART_PRESSURE, "over_pressure_heart"), (FILTER_PRESSURE, "over_pressure_filter")]
)
def test_I2_pressures_are_doubted_too_but_may_be_flat(point: str, name: str) -> None:
    assert tripped(with_reading(point, None))[name].cause is Cause.DOUBT
    assert tripped(with_reading(point, Told(3.0, at_s=NOW_S - 10.1)))[name].cause is Cause.DOUBT
    assert name not in tripped(with_reading(point, Told(0.0, same_since_s=0.0)))


@pytest.mark.parametrize("unit", ["bar", "psi", "mbar", "degC", ""])
def test_Q1_a_pressure_in_another_unit_is_unsafe_input(unit: str) -> None:
    trips = tripped(with_reading(HEART_PRESSURE, Told(1.5, unit=unit)))
    assert (trips["over_pressure_heart"].cause, trips["over_pressure_heart"].response) == (Cause.DOUBT, Response.BASAL)
    trips = tripped(with_reading(FILTER_PRESSURE, Told(1.5, unit=unit)))
    assert (trips["over_pressure_filter"].cause, trips["over_pressure_filter"].response) == (Cause.DOUBT, Response.OFF)
    assert tripped(with_reading(HEART_PRESSURE, Told(1.5, unit="kPa"))) == {}


def test_Q1_gas_and_pH_in_another_unit_count_as_unread() -> None:
    """A dead air line shows in the shares of the gas; a flow in L/min and a pH in mV show nothing."""
    view = peace()
    rich = replace(view, readings={**view.readings, AIR: Told(0.0), CO2: Told(20.0)})
    assert "gas_mixture" in {trip.interlock for trip in evaluate(replace(rich, watch=Watch(rich_since_s=0.0)), LIMITS)}
    airless = {**view.readings, AIR: Told(47.0, unit="L/min"), PH: Told(7.4, unit="mV")}
    assert "gas_mixture" in tripped(replace(view, readings=airless))
    assert "gas_mixture" not in tripped(replace(view, readings={**airless, PH: Told(7.4, unit="pH")}))


def test_I1_levels() -> None:
    hot = tripped(with_reading(TEMPERATURE, Told(38.51)))["temperature"]
    assert (hot.cause, hot.response) == (Cause.HIGH, Response.OFF)
    cold = tripped(with_reading(TEMPERATURE, Told(34.9)))["temperature"]
    assert (cold.cause, cold.response) == (Cause.LOW, Response.ALARM)
    heart = tripped(with_reading(HEART_PRESSURE, Told(60.1)))["over_pressure_heart"]
    assert (heart.response, heart.actuators) == (Response.OFF, (HEART,))
    sterile = tripped(with_reading(FILTER_PRESSURE, Told(80.1)))["over_pressure_filter"]
    assert (sterile.response, sterile.actuators) == (Response.OFF, (RETURN,))


def test_a_dead_pressure_sensor_does_not_stop_the_heart() -> None:
    trip = tripped(with_reading(HEART_PRESSURE, None))["over_pressure_heart"]
    assert trip.response is Response.BASAL


@pytest.mark.parametrize("heart", [None, Seen(False, 0.0, NOW_S), Seen(True, 2000.0, NOW_S - 20.1)])
def test_no_heart_flow_is_told_and_stops_what_draws(heart: Seen | None) -> None:
    seen = {name: value for name, value in peace().seen.items() if name != HEART}
    if heart is not None:
        seen[HEART] = heart
    trip = tripped(peace(seen=seen))["no_heart_flow"]
    assert trip.actuators == (DRAW,)
    assert trip.response is Response.OFF


def test_a_pump_against_a_closed_valve_is_stopped() -> None:
    running = (Underway(RETURN, 500.0),)
    assert tripped(peace(underway=running)) == {}
    closed = {**peace().seen, VALVE: Seen(False, 0.0, NOW_S)}
    assert tripped(peace(seen=closed, underway=running))["closed_valve"].actuators == (RETURN,)
    ended = (Underway(RETURN, 500.0, "x", running=False),)
    assert tripped(peace(seen=closed, underway=ended)) == {}


# --- gas --------------------------------------------------------------------------------------------------


def at(view: View, now_s: float, memory: Watch) -> View:
    """`view` later: everything is as fresh as before."""
    late_s = now_s - NOW_S
    readings = {
        name: replace(told, at_s=told.at_s + late_s, same_since_s=told.same_since_s + late_s)
        for name, told in view.readings.items()
        if isinstance(told, Told)
    }
    seen = {name: replace(what, at_s=what.at_s + late_s) for name, what in view.seen.items()}
    return replace(view, now_s=now_s, readings=readings, seen=seen, watch=memory)


def follow(view: View, seconds: float, memory: Watch | None = None, begin_s: float = NOW_S) -> Watch:
    """Watch the same world for `seconds`, once a second."""
    memory = memory or Watch()
    for second in range(int(seconds) + 1):
        memory = watch(at(view, begin_s + second, memory), LIMITS)
    return memory


def test_air_that_fails_shuts_co2_after_a_while_and_holds_it_shut() -> None:
    airless = with_reading(AIR, Told(0.0))
    assert follow(airless, 19).trips == ()
    (trip,) = follow(airless, 21).trips
    assert trip.interlock == "gas_mixture"
    assert trip.actuators == (CO2,)
    shut = replace(airless, readings={**airless.readings, CO2: Told(0.0)})
    memory = follow(shut, 100, follow(airless, 21), NOW_S + 22)
    assert [trip.present for trip in memory.trips] == [False]
    assert follow(shut, 40, memory, NOW_S + 123).trips == ()


def test_a_moment_of_odd_flows_is_not_a_failure_of_air() -> None:
    memory = follow(with_reading(AIR, Told(0.0)), 15)
    memory = follow(peace(), 1, memory, NOW_S + 16)
    assert follow(with_reading(AIR, Told(0.0)), 15, memory, NOW_S + 18).trips == ()


UNHEARD = [None, Told(47.0, Quality.MISSING), Told(nan)]


@pytest.mark.parametrize("air", UNHEARD)
def test_I2_while_air_has_no_reading_ph_decides_on_co2(air: Told | None) -> None:
    """A flow controller without a link keeps its flow, one without power closes; the readings do not tell which it is."""

    def airless(ph: float) -> View:
        view = with_reading(AIR, air)
        return replace(view, readings={**view.readings, PH: Told(ph)})

    mixture = LIMITS.mixture
    assert mixture is not None
    shut = mixture.ph_shut
    assert follow(airless(shut + 0.01), 120).trips == ()
    memory = follow(airless(shut - 0.01), 0)
    (trip,) = memory.trips
    assert (trip.interlock, trip.actuators) == ("gas_mixture", (CO2,))
    assert AIR in trip.detail
    assert f"pH {shut - 0.01:.2f}" in trip.detail
    assert memory.no_air
    memory = follow(airless(shut - 0.01), 300, memory, NOW_S + 1)
    assert [trip.present for trip in memory.trips] == [True], "shut as long as the medium is sour"
    memory = follow(no_co2(airless(shut + 0.01)), 20, memory, NOW_S + 302)
    assert [trip.present for trip in memory.trips] == [False], "and held for a while"
    memory = follow(no_co2(airless(shut + 0.01)), 20, memory, NOW_S + 323)
    assert memory.trips == ()
    assert memory.no_air, "until it has a reading again"
    assert follow(peace(), 0, memory, NOW_S + 344).airless is None


def no_co2(view: View) -> View:
    return replace(view, readings={**view.readings, CO2: Told(0.0)})


def without_air(ph: float | None, co2: float, o2: float | None) -> View:
    """Return a view in which air has no reading; the other two flow, and have a reading unless it is None."""
    readings = {**with_reading(AIR, None).readings, CO2: Told(co2)}
    told = {PH: ph, O2: o2}
    readings = {point: reading for point, reading in readings.items() if point not in told}
    readings |= {point: Told(value) for point, value in told.items() if value is not None}
    return replace(peace(readings=readings), seen={**peace().seen, O2: Seen(True, 20.0, NOW_S - 1.0)})


def taken_for_closed() -> Watch:
    return Watch(airless=Airless(600.0))


@pytest.mark.parametrize("ph", [None, 7.4])
def test_without_air_co2_is_a_share_of_the_oxygen_that_is_read(ph: float | None) -> None:
    carbogen = replace(without_air(ph, 1.2, 20.0), watch=taken_for_closed())
    assert follow(carbogen, 300, taken_for_closed()).trips == ()
    verdict = decide(Intent(CO2, Level(3.0), "test", ""), carbogen, LIMITS)
    assert verdict.command == Level(pytest.approx(20.0 * 0.06 / 0.94))  # type: ignore[arg-type]
    alone = replace(without_air(ph, 1.2, None), watch=taken_for_closed())
    assert decide(Intent(CO2, Level(3.0), "test", ""), alone, LIMITS).command == Level(0.0)
    assert follow(alone, 19, taken_for_closed()).trips == ()
    assert follow(alone, 21, taken_for_closed()).trips != (), "and what flows already is shut"
    lower = decide(Intent(O2, Level(1.0), "test", ""), carbogen, LIMITS)
    assert not lower.accepted, "oxygen does not leave the CO2 behind"


def test_a_medium_that_turns_alkaline_shows_that_air_flows_unread() -> None:
    """A trial; each that fails makes the next one wait twice as long."""
    mixture = LIMITS.mixture
    assert mixture is not None
    alkaline, sour = without_air(mixture.ph_alkaline + 0.01, 1.2, 20.0), without_air(mixture.ph_shut - 0.01, 4.5, 20.0)
    memory, now_s, waits = taken_for_closed(), NOW_S, []
    for _ in range(5):
        begun_s = now_s
        while memory.no_air:
            memory = watch(at(alkaline, now_s, memory), LIMITS)
            now_s += 1.0
        waits.append(now_s - 1.0 - begun_s)
        asked = decide(Intent(CO2, Level(3.0), "test", ""), at(alkaline, now_s, memory), LIMITS)
        assert asked.command == Level(3.0)
        memory = watch(at(sour, now_s, memory), LIMITS)
        assert memory.no_air
        assert memory.trips[-1].interlock == "gas_mixture"
        now_s += 1.0
    assert waits[0] == 600.0
    assert waits[1:4] == [
        pytest.approx(1200.0, abs=2.0),
        pytest.approx(2400.0, abs=2.0),
        pytest.approx(3600.0, abs=2.0),
    ]
    assert waits[4] == pytest.approx(3600.0, abs=2.0)


def test_an_alkaline_moment_is_no_proof() -> None:
    mixture = LIMITS.mixture
    assert mixture is not None
    memory = follow(without_air(mixture.ph_alkaline + 0.01, 1.2, 20.0), 590, taken_for_closed())
    memory = follow(without_air(mixture.ph_alkaline - 0.01, 1.2, 20.0), 0, memory, NOW_S + 591)
    assert follow(without_air(mixture.ph_alkaline + 0.01, 1.2, 20.0), 590, memory, NOW_S + 592).no_air


def test_I5_a_reset_does_not_bring_air_back() -> None:
    assert taken_for_closed().reset().no_air


@pytest.mark.parametrize("air", UNHEARD)
@pytest.mark.parametrize(
    "ph",
    [None, Told(7.4, Quality.MISSING), Told(nan), Told(7.4, at_s=NOW_S - 600.0), Told(7.4, same_since_s=NOW_S - 600.0)],
)
def test_I2_air_and_ph_without_readings_shut_co2(air: Told | None, ph: Told | None) -> None:
    view = with_reading(AIR, air)
    readings = {name: told for name, told in view.readings.items() if name != PH}
    view = replace(view, readings=readings if ph is None else {**readings, PH: ph})
    (trip,) = watch(view, LIMITS).trips
    assert (trip.interlock, trip.actuators) == ("gas_mixture", (CO2,))


def test_co2_without_a_reading_could_not_be_shut() -> None:
    assert follow(with_reading(CO2, None), 300).trips == ()
    assert follow(with_reading(CO2, Told(3.0, Quality.MISSING)), 300).trips == ()


def test_oxygen_without_a_reading_counts_as_none() -> None:
    assert follow(with_reading(O2, None), 300).trips == ()


# --- memory -----------------------------------------------------------------------------------------------


def test_a_trip_keeps_the_time_it_began() -> None:
    memory = follow(with_reading(TEMPERATURE, Told(39.0)), 30)
    assert memory.trips[0].since_s == NOW_S
    assert memory.trips[0].seen_s == NOW_S + 30


def test_L2_a_trip_clears_only_inside_its_deadband() -> None:
    memory = follow(with_reading(TEMPERATURE, Told(39.0)), 5)
    memory = follow(with_reading(TEMPERATURE, Told(38.45)), 5, memory, NOW_S + 6)
    assert memory.trips[0].cause is Cause.HIGH
    assert follow(with_reading(TEMPERATURE, Told(38.35)), 0, memory, NOW_S + 12).trips == ()
    assert follow(with_reading(TEMPERATURE, Told(38.45)), 5).trips == ()


def test_a_trip_tells_the_limit_that_was_passed_and_inside_the_deadband_where_it_clears() -> None:
    memory = follow(with_reading(HEART_PRESSURE, Told(99.0)), 5)
    assert memory.trips[0].detail == "99 is above 60"
    memory = follow(with_reading(HEART_PRESSURE, Told(58.0)), 5, memory, NOW_S + 6)
    assert memory.trips[0].detail == "58 is above 54"
    cold = follow(with_reading(TEMPERATURE, Told(34.0)), 5)
    assert cold.trips[0].detail == "34 is below 35"


def test_a_pressure_trip_outlasts_its_cause() -> None:
    memory = follow(with_reading(HEART_PRESSURE, Told(99.0)), 2)
    held = Trip("over_pressure_heart", HEART_PRESSURE, "99 is above 60", NOW_S, (HEART,), False, Cause.HIGH)
    assert memory.trips == (replace(held, seen_s=NOW_S + 2),)
    memory = follow(peace(), 58, memory, NOW_S + 3)
    assert memory.trips == (replace(held, seen_s=NOW_S + 2, present=False),)
    tried = follow(peace(), 0, memory, NOW_S + 62)
    assert tried.trips == (replace(memory.trips[0], response=Response.BASAL),), "tried at the basal flow first"
    assert follow(peace(), 118, tried, NOW_S + 63).trips == tried.trips
    assert follow(peace(), 0, tried, NOW_S + 182).trips == ()


def test_I2_a_sensor_that_dies_does_not_loosen_a_held_trip() -> None:
    memory = follow(with_reading(HEART_PRESSURE, Told(99.0)), 2)
    held = follow(with_reading(HEART_PRESSURE, None), 30, memory, NOW_S + 3)
    assert held.trips[0].response is Response.OFF
    late = follow(with_reading(HEART_PRESSURE, None), 60, held, NOW_S + 34)
    assert late.trips[0].response is Response.BASAL


def test_a_heart_is_tried_again_for_ever_and_ever_more_seldom() -> None:
    """Three kinks in half an hour once latched it: the tissue had no circulation until an operator came."""
    memory, begin_s, stood = Watch(), NOW_S, []
    for _ in range(7):
        memory = follow(with_reading(HEART_PRESSURE, Told(99.0)), 3, memory, begin_s)
        off_s = 0
        while memory.trips[0].response is Response.OFF:
            off_s += 1
            memory = follow(peace(), 0, memory, begin_s + 3 + off_s)
        assert not memory.trips[0].latched
        assert memory.trips[0].response is Response.BASAL, "never at once with its full flow"
        stood.append(off_s)
        begin_s += 4 + off_s
    assert stood == [60, 60, 120, 240, 300, 300, 300]
    assert follow(peace(), 120, memory, begin_s).trips == ()


def strike(memory: Watch, begin_s: float) -> Watch:
    """One bout of pressure at the filter, and long enough after it for the trip to clear."""
    memory = follow(with_reading(FILTER_PRESSURE, Told(99.0)), 3, memory, begin_s)
    return follow(peace(), 90, memory, begin_s + 4)


def test_I5_three_strikes_latch_until_a_reset() -> None:
    memory = strike(strike(Watch(), NOW_S), NOW_S + 100)
    assert memory.trips == ()
    memory = strike(memory, NOW_S + 200)
    assert [trip.latched for trip in memory.trips] == [True]
    memory = follow(peace(), 3600, memory, NOW_S + 300)
    assert [trip.latched for trip in memory.trips] == [True], "no time heals a latch"
    assert memory.reset().trips == ()
    again = strike(memory.reset(), NOW_S + 4000)
    assert again.trips == (), "a reset forgives the strikes as well"


def test_strikes_far_apart_do_not_latch() -> None:
    memory = Watch()
    for number in range(5):
        memory = strike(memory, NOW_S + number * (STRIKES_WITHIN_S + 1.0))
    assert memory.trips == ()


def test_one_long_bout_is_one_strike() -> None:
    memory = follow(with_reading(HEART_PRESSURE, Told(99.0)), 600)
    assert len(memory.strikes) == 1


def test_I5_a_reset_does_not_hide_what_is_still_wrong() -> None:
    memory = strike(strike(strike(Watch(), NOW_S), NOW_S + 100), NOW_S + 200)
    still = follow(with_reading(FILTER_PRESSURE, Told(99.0)), 0, memory.reset(), NOW_S + 300)
    assert still.trips[0].response is Response.OFF


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from([5.0, 58.0, 70.0, nan]), st.integers(1, 120)), max_size=12))
def test_I1_whatever_went_before_high_pressure_is_always_a_trip(bouts: list[tuple[float, int]]) -> None:
    memory, now_s = Watch(), NOW_S
    for kpa, seconds in bouts:
        memory = follow(with_reading(HEART_PRESSURE, Told(kpa)), seconds, memory, now_s)
        now_s += seconds + 1
        trips = {trip.interlock: trip for trip in memory.trips}
        if kpa > 60.0:
            assert trips["over_pressure_heart"].response is Response.OFF
        elif kpa != kpa:
            assert trips["over_pressure_heart"].response is not Response.ALARM
    assert len({(trip.interlock, trip.point) for trip in memory.trips}) == len(memory.trips)


def test_every_interlock_names_points_and_actuators_of_the_rig() -> None:
    assert set(RULES) == {"temperature", "over_pressure_heart", "over_pressure_filter"}
    for rule in RULES.values():
        assert rule.trips
        assert set(rule.trips) <= set(LIMITS.basal)
        assert rule.stale_s > RIG.devices[rule.point.partition(".")[0]].every_s
