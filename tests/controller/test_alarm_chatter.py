"""Alarms that come and go quickly stay few (L3), and every interlock has one that leaves time to act (L7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controller.alarms.definitions import DEFINITIONS
from controller.alarms.states import Alarms, AlarmState
from controller.safety.interlocks import CLOSED_VALVE, GAS_MIXTURE, NO_HEART_FLOW

NORMAL, UNACKNOWLEDGED = AlarmState.NORMAL, AlarmState.UNACKNOWLEDGED
ACKNOWLEDGED, RETURNED = AlarmState.ACKNOWLEDGED, AlarmState.RETURN_TO_NORMAL_UNACKNOWLEDGED
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


def test_L2_a_pause_restarts_either_delay() -> None:
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
    """Ten minutes of any flicker: no more rows than the off-delay allows; an unacknowledged alarm is raised once."""
    room = Room()
    for present in flicker:
        room.live(CAUSE if present else {}, 0.0)
    assert room.alarms.raised <= 1
    assert len(room.rows) <= 1 + 2 * 600 / OFF_S


@given(flicker=st.lists(st.booleans(), min_size=600, max_size=600))
def test_L3_chatter_bounded_although_an_operator_acknowledges_at_once(flicker: list[bool]) -> None:
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
