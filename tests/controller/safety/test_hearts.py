"""What bounds a rig with several hearts, with one pump on several lines, or with none."""

from __future__ import annotations

import pytest

from controller.alarms.definitions import DEFINITIONS, alarm_kind
from controller.guard.guarding import guard_plan
from controller.guard.plan import GuardPlan
from controller.process.trip_record import TripRecord
from controller.rig.description import Rig
from controller.safety.interlocks import watch
from controller.safety.kernel import decide
from controller.safety.limits import basal_states, limits_of
from controller.safety.terms import Cause, Intent, Response, Seen, Trip, View
from drivers.commands import Dispense, Run, Stop
from tests.controller.safety.facts import LIMITS, NOW_S
from tests.controller.safety.hearts import HEARTS, dish, gauge, pump, single_pass, three_hearts


def with_cassette() -> Rig:
    """The rig with three hearts; the left pump's head has a second cassette, into a chamber of its own."""
    rig = three_hearts()
    line = rig.lines["to_left"].model_copy(update={"to": "fourth"})
    limit = rig.safety.over_pressure["to_left"].model_copy(update={"point": "p_fourth.pressure"})
    over_pressure = {**rig.safety.over_pressure, "to_fourth": limit}
    return rig.model_copy(
        update={
            "vessels": rig.vessels | {"fourth": rig.vessels["left"]},
            "lines": rig.lines | {"to_fourth": line},
            "safety": rig.safety.model_copy(update={"over_pressure": over_pressure}),
        }
    )


def test_one_heart_keeps_its_names() -> None:
    (heart,) = LIMITS.hearts
    assert (heart.title, heart.interlock, heart.draws, heart.loop_draws) == (
        "the heart",
        "no_heart_flow",
        (),
        ("reglo.draw",),
    )
    assert [rule.name for rule in LIMITS.interlocks] == ["temperature", "over_pressure_heart", "over_pressure_filter"]


def test_several_hearts_have_limits_of_their_own() -> None:
    limits = limits_of(three_hearts())
    assert [heart.interlock for heart in limits.hearts] == [f"no_heart_flow.{heart}" for heart in HEARTS]
    assert [heart.pump for heart in limits.hearts] == list(map(pump, HEARTS))
    assert {heart.lease_s for heart in limits.hearts} == {30.0}
    for name in HEARTS:
        assert limits.basal[pump(name)] == Run(1600.0)
        bounds = limits.pumps[pump(name)]
        assert (bounds.role, bounds.source, bounds.target) == ("heart", "loop", name)
        rule = next(rule for rule in limits.interlocks if rule.name == f"over_pressure_heart.to_{name}")
        assert (rule.point, rule.trips, rule.on_doubt) == (gauge(name), (pump(name),), Response.BASAL)
        assert rule.max_hold_s > 0.0, "a heart is tried again without a person"


def test_names_are_unique_and_raise_the_alarms_of_a_heart() -> None:
    limits = limits_of(with_cassette())
    names = [*(heart.interlock for heart in limits.hearts), *(rule.name for rule in limits.interlocks)]
    assert len(set(names)) == len(names)
    for name in names:
        kind = alarm_kind(name)
        assert kind in DEFINITIONS, name
        if "heart" in name:
            assert DEFINITIONS[kind].priority == "critical"


def test_a_second_cassette_in_a_hearts_pump_is_a_heart_too() -> None:
    """A pump with two lines is never taken for one that gives doses, whatever the order of the lines."""
    rig = with_cassette()
    for lines in (rig.lines, dict(reversed(rig.lines.items()))):
        limits = limits_of(rig.model_copy(update={"lines": lines}))
        bounds = limits.pumps[pump("left")]
        assert (bounds.role, bounds.target, bounds.max_ul_min) == ("heart", "left", 4000.0)
        assert limits.basal[pump("left")] == Run(1600.0)
        assert all(pump(heart) not in each.draws for each in limits.hearts for heart in HEARTS)


def test_the_draws_of_a_loop_stop_when_no_heart_mixes_it() -> None:
    limits = limits_of(three_hearts())
    (draw,) = limits.hearts[0].loop_draws
    running = {pump(name): Seen(True, 2000.0, NOW_S) for name in HEARTS}
    for standing in range(1, len(HEARTS) + 1):
        seen = running | {pump(name): Seen(False, 0.0, NOW_S) for name in HEARTS[:standing]}
        trips = {
            trip.interlock: trip
            for trip in watch(View(NOW_S, {}, {}, seen=seen), limits).trips
            if "flow" in trip.interlock
        }
        assert set(trips) == {f"no_heart_flow.{name}" for name in HEARTS[:standing]}
        forced = {point for trip in trips.values() for point in trip.actuators}
        assert forced == ({draw} if standing == len(HEARTS) else set())


def test_a_heart_that_draws_from_a_bottle_stops_what_draws_from_its_chamber() -> None:
    """Another heart's chamber keeps its draws, and what fills or draws from the bottle goes on."""
    limits = limits_of(single_pass())
    assert {heart.title: heart.draws for heart in limits.hearts} == {
        "heart left": ("reglo.draw",),
        "heart middle": (),
        "heart right": (),
    }


def test_chambers_behind_a_junction_and_an_overflow_belong_to_the_heart() -> None:
    rig = single_pass()
    branch = rig.lines["from_left"].model_copy(update={"from_": "split", "to": "left"})
    over = rig.lines["from_left"].model_copy(update={"from_": "left", "to": "right"})
    lines = {
        "main": rig.lines["to_middle"].model_copy(update={"to": "split"}),
        "branch": branch,
        "over": over,
        "take": rig.lines["take_left"].model_copy(update={"from_": "right"}),
    }
    heart = rig.organs.hearts["middle"].model_copy(update={"line": "main"})
    small = rig.model_copy(
        update={
            "lines": lines,
            "junctions": {"split": None},
            "organs": rig.organs.model_copy(update={"hearts": {"only": heart}}),
            "safety": rig.safety.model_copy(update={"over_pressure": {}}),
        }
    )
    (limits,) = limits_of(small).hearts
    assert (limits.title, limits.draws) == ("the heart", ("reglo.draw",))


def test_without_a_kidney_a_line_is_bounded_by_what_its_pump_can_move() -> None:
    limits = limits_of(single_pass())
    assert limits.pumps["dose_fresh.pump"].max_ul_min == 105_000.0
    assert limits.pumps["dose_fresh.pump"].excludes == ()
    wanted = Intent("dose_fresh.pump", Dispense(1.0, 105_001.0, "d"), "test", "a test")
    assert any(reason.startswith("flow:") for reason in decide(wanted, View(NOW_S, {}, {}), limits).reasons)


def test_a_rig_without_a_heart_needs_no_flow() -> None:
    limits = limits_of(dish())
    assert (limits.hearts, limits.pumps, limits.basal, limits.interlocks) == ((), {}, {}, ())
    assert watch(View(NOW_S, {}, {}), limits).trips == ()


# --- the guard --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rig", [three_hearts(), single_pass(), with_cassette()])
def test_the_guard_keeps_every_heart_at_its_basal_flow(rig: Rig) -> None:
    plan = guard_plan(rig)
    for heart in HEARTS:
        assert plan.rest[pump(heart)] == Run(1600.0)
        assert pump(heart) not in plan.dosing
    assert basal_states(rig)["reglo.draw"] == Stop()
    assert "reglo.draw" in plan.dosing
    assert GuardPlan.from_json(plan.to_json()) == plan


# --- the record of trips ----------------------------------------------------------------------------------


def trip(interlock: str, point: str) -> Trip:
    return Trip(interlock, point, "why", NOW_S, (), cause=Cause.LOW)


def test_two_valves_that_close_make_one_row_each() -> None:
    rows: list[tuple[str, str]] = []
    record = TripRecord(lambda kind, body: rows.append((kind, body.get("point", ""))))
    both = (trip("closed_valve", "relay.a"), trip("closed_valve", "relay.b"))
    for _ in range(3):
        record.note(both)
    assert rows == [("safety.trip", "relay.a"), ("safety.trip", "relay.b")]
    record.note(both[1:])
    assert rows[2:] == [("safety.clear", "relay.a")]
    record.note(())
    assert rows[3:] == [("safety.clear", "")]


def test_one_heart_that_stands_makes_the_row_of_before() -> None:
    rows: list[tuple[str, dict[str, object]]] = []
    record = TripRecord(lambda kind, body: rows.append((kind, dict(body))))
    seen = {"reglo.heart": Seen(False, 0.0, NOW_S)}
    record.note(tuple(each for each in watch(View(NOW_S, {}, {}, seen), LIMITS).trips if "flow" in each.interlock))
    record.note(())
    row = {"interlock": "no_heart_flow", "point": "reglo.heart", "detail": "the heart stands"}
    assert rows == [
        ("safety.trip", row | {"cause": "low", "response": "off"}),
        ("safety.clear", {"interlock": "no_heart_flow"}),
    ]
