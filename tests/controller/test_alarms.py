"""Alarms after ISA-18.2: each way through the states, no chatter, and each says what to do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.alarms import DEFINITIONS, Alarms, AlarmState
from controller.safety.interlocks import CLOSED_VALVE, GAS_MIXTURE, NO_HEART_FLOW

NORMAL, UNACKNOWLEDGED = AlarmState.NORMAL, AlarmState.UNACKNOWLEDGED
ACKNOWLEDGED, RETURNED = AlarmState.ACKNOWLEDGED, AlarmState.RETURNED
KIND, SOURCE = "temperature", "t_chamber.temperature"
ID = f"{KIND}:{SOURCE}"
CAUSE = {(KIND, SOURCE): "39 is above 38.5"}
ON_S, OFF_S = DEFINITIONS[KIND].on_delay_s, DEFINITIONS[KIND].off_delay_s
LEVELS = sorted(kind for kind, each in DEFINITIONS.items() if not each.event)
EVENTS = sorted(kind for kind, each in DEFINITIONS.items() if each.event)


class Room:
    """Alarms, second by second, and what they write."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, Mapping[str, Any]]] = []
        self.alarms = Alarms(
            lambda kind, body: self.rows.append((kind, dict(body))), lambda: "2026-01-01T00:00:00.000Z"
        )
        self.now_s = 100.0

    def live(self, present: Mapping[tuple[str, str], str], seconds: float) -> None:
        end_s = self.now_s + seconds
        while self.now_s <= end_s:
            self.alarms.levels(present, self.now_s)
            self.now_s += 1.0

    def state(self, identifier: str = ID) -> AlarmState:
        return next((alarm.state for alarm in self.alarms.active() if alarm.id == identifier), NORMAL)

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.rows]


def raised() -> Room:
    room = Room()
    room.live(CAUSE, ON_S)
    assert room.state() is UNACKNOWLEDGED
    return room


def test_L1_unacknowledged_acknowledged_normal() -> None:
    room = raised()
    room.alarms.acknowledge(ID, "ada")
    assert room.state() is ACKNOWLEDGED
    assert room.alarms.active()[0].acknowledged_by == "ada"
    room.live(CAUSE, 100.0)
    assert room.state() is ACKNOWLEDGED, "it stays while its cause does"
    room.live({}, OFF_S)
    assert room.state() is NORMAL
    assert room.kinds == ["alarm.raised", "alarm.acknowledged", "alarm.normal"]
    assert room.rows[1][1] == {"alarm": ID, "user": "ada"}


def test_L1_unacknowledged_returned_normal() -> None:
    room = raised()
    room.live({}, OFF_S)
    assert room.state() is RETURNED
    room.live({}, 10_000.0)
    assert room.state() is RETURNED, "nobody has seen it yet"
    assert room.alarms.acknowledge(ID, "ada").state is NORMAL
    assert room.state() is NORMAL
    assert room.kinds == ["alarm.raised", "alarm.returned", "alarm.acknowledged", "alarm.normal"]


def test_L1_returned_and_raised_again() -> None:
    room = raised()
    room.live({}, OFF_S)
    room.live({(KIND, SOURCE): "40 is above 38.5"}, 0.0)
    assert room.state() is UNACKNOWLEDGED
    assert room.alarms.active()[0].detail == "40 is above 38.5"
    assert room.alarms.raised == 1, "the same alarm, which nobody has seen yet"
    room.live({}, OFF_S)
    assert room.state() is RETURNED, "and its way goes on as before"


def test_L1_normal_and_raised_again_is_a_new_alarm() -> None:
    room = raised()
    room.alarms.acknowledge(ID, "ada")
    room.live({}, OFF_S)
    room.live(CAUSE, ON_S)
    assert room.state() is UNACKNOWLEDGED
    assert room.alarms.raised == 2
    assert room.alarms.active()[0].acknowledged_by == ""


def test_L1_acknowledging_twice_changes_nothing() -> None:
    room = raised()
    room.alarms.acknowledge(ID, "ada")
    rows = list(room.rows)
    assert room.alarms.acknowledge(ID, "bob").acknowledged_by == "ada"
    assert room.rows == rows


def test_L1_only_what_is_active_can_be_acknowledged() -> None:
    with pytest.raises(KeyError):
        Room().alarms.acknowledge(ID, "ada")


@pytest.mark.parametrize("kind", EVENTS)
def test_L1_an_event_stays_until_it_is_acknowledged(kind: str) -> None:
    room = Room()
    room.alarms.event(kind, "x", "once")
    room.alarms.event(kind, "x", "twice")
    room.live({}, 10_000.0)
    assert room.state(f"{kind}:x") is UNACKNOWLEDGED
    assert [alarm.detail for alarm in room.alarms.active()] == ["twice"]
    assert room.alarms.raised == 1
    room.alarms.acknowledge(f"{kind}:x", "ada")
    assert room.alarms.active() == []
    assert room.kinds == ["alarm.raised", "alarm.acknowledged", "alarm.normal"]
    room.alarms.event(kind, "x", "again")
    assert room.state(f"{kind}:x") is UNACKNOWLEDGED
    assert room.alarms.raised == 2


@pytest.mark.parametrize("kind", LEVELS)
def test_L2_on_and_off_delays(kind: str) -> None:
    definition = DEFINITIONS[kind]
    name, present = f"{kind}:x", {(kind, "x"): "so"}
    room = Room()
    room.alarms.levels(present, 0.0)
    if definition.on_delay_s:
        assert room.state(name) is NORMAL
        room.alarms.levels(present, definition.on_delay_s - 0.01)
        assert room.state(name) is NORMAL
    room.alarms.levels(present, definition.on_delay_s)
    assert room.state(name) is UNACKNOWLEDGED
    room.alarms.levels({}, 1000.0)
    room.alarms.levels({}, 1000.0 + definition.off_delay_s - 0.01)
    assert room.state(name) is UNACKNOWLEDGED
    room.alarms.levels({}, 1000.0 + definition.off_delay_s)
    assert room.state(name) is RETURNED


def test_L2_a_pause_begins_either_delay_anew() -> None:
    room = Room()
    for _ in range(20):
        room.live(CAUSE, ON_S - 2.0)
        room.live({}, 0.0)
    assert room.alarms.raised == 0
    room.live(CAUSE, ON_S)
    for _ in range(20):
        room.live({}, OFF_S - 2.0)
        room.live(CAUSE, 0.0)
    assert room.state() is UNACKNOWLEDGED
    assert room.kinds == ["alarm.raised"]


@given(flicker=st.lists(st.booleans(), min_size=600, max_size=600))
def test_L3_chatter_bounded(flicker: list[bool]) -> None:
    """Ten minutes of any flicker: no more rows than the off-delay lets through, and an alarm that nobody sees is one."""
    room = Room()
    for present in flicker:
        room.live(CAUSE if present else {}, 0.0)
    assert room.alarms.raised <= 1
    assert len(room.rows) <= 1 + 2 * 600 / OFF_S


@given(flicker=st.lists(st.booleans(), min_size=600, max_size=600))
def test_L3_chatter_bounded_although_somebody_acknowledges_at_once(flicker: list[bool]) -> None:
    room = Room()
    for present in flicker:
        room.live(CAUSE if present else {}, 0.0)
        if room.state() in (UNACKNOWLEDGED, RETURNED):
            room.alarms.acknowledge(ID, "ada")
    assert room.alarms.raised <= 1 + 600 / (ON_S + OFF_S)


def test_L3_a_hundred_sources_are_a_hundred_alarms_and_no_more() -> None:
    room = Room()
    room.live({("device_lost", f"d{n}"): "silent" for n in range(100)}, 1000.0)
    assert room.alarms.raised == len(room.rows) == 100


def test_the_most_urgent_comes_first_then_the_oldest() -> None:
    room = Room()
    room.alarms.event("lease_expired", "a", "medium")
    room.alarms.event("run_held", "b", "high")
    room.live({("no_heart_flow", "c"): "critical"}, 10.0)
    room.alarms.event("emergency_stop", "d", "critical, later")
    assert [alarm.source for alarm in room.alarms.active()] == ["c", "d", "b", "a"]


@pytest.mark.parametrize("kind", sorted(DEFINITIONS))
def test_L7_every_definition_has_consequence_response_and_time(kind: str) -> None:
    definition = DEFINITIONS[kind]
    assert definition.kind == kind
    assert len(definition.consequence) > 10
    assert len(definition.response) > 10
    assert definition.response != definition.consequence
    assert re.fullmatch(r"\d+ (min|h|d)", definition.respond_within)
    assert definition.priority in ("critical", "high", "medium", "low")
    assert definition.on_delay_s >= 0.0
    assert definition.event or definition.off_delay_s > 0.0
    room = Room()
    if definition.event:
        room.alarms.event(kind, "x", "so")
    else:
        room.live({(kind, "x"): "so"}, definition.on_delay_s)
    (alarm,) = room.alarms.active()
    assert (alarm.consequence, alarm.response, alarm.respond_within) == (
        definition.consequence,
        definition.response,
        definition.respond_within,
    )


def test_L7_critical_leaves_minutes_and_every_interlock_has_its_alarm() -> None:
    for definition in DEFINITIONS.values():
        if definition.priority == "critical":
            assert definition.respond_within.endswith(" min"), definition.kind
    assert {
        NO_HEART_FLOW,
        CLOSED_VALVE,
        GAS_MIXTURE,
        "temperature",
        "over_pressure_heart",
        "over_pressure_filter",
    } <= set(LEVELS)
