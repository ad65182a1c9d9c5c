"""The life of an alarm (ISA-18.2), its delays, and what its definition must say."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from controller.alarms.definitions import DEFINITIONS, URGENCY
from controller.alarms.states import Alarm, Alarms, AlarmState
from controller.journal.terms import Entry
from controller.rig.quantities import QuantityError
from tests.controller import make_alarm_page

LEVEL, POINT = "temperature", "t_chamber.temperature"
CAUSE = {(LEVEL, POINT): "39 is above 38.5"}
ID = f"{LEVEL}:{POINT}"
ON_S, OFF_S = DEFINITIONS[LEVEL].on_delay_s, DEFINITIONS[LEVEL].off_delay_s


class Watcher:
    """Alarms looked at once a second."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, Mapping[str, Any]]] = []
        self.alarms = Alarms(lambda kind, body: self.rows.append((kind, body)), lambda: "2026-01-01T00:00:00.000Z")
        self.now_s = 1000.0

    def live(self, seconds: float, present: Mapping[tuple[str, str], str]) -> None:
        for _ in range(int(seconds)):
            self.now_s += 1.0
            self.alarms.levels(present, self.now_s)

    @property
    def state(self) -> AlarmState:
        alarm = self.alarm
        return AlarmState.NORMAL if alarm is None else alarm.state

    @property
    def alarm(self) -> Alarm | None:
        return next((alarm for alarm in self.alarms.active() if alarm.id == ID), None)

    def bring_to(self, state: AlarmState) -> None:
        if state is AlarmState.NORMAL:
            return
        self.live(ON_S + 2, CAUSE)
        if state is AlarmState.ACKNOWLEDGED:
            self.alarms.acknowledge(ID, "anna")
        if state is AlarmState.RETURN_TO_NORMAL_UNACKNOWLEDGED:
            self.live(OFF_S + 2, {})
        assert self.state is state


N, U, A, R = (
    AlarmState.NORMAL,
    AlarmState.UNACKNOWLEDGED,
    AlarmState.ACKNOWLEDGED,
    AlarmState.RETURN_TO_NORMAL_UNACKNOWLEDGED,
)
ANNOUNCED = (N, U, A, R)
"""The states that come of causes and acknowledgement alone; all seven are in test_alarm_states.py."""
TABLE = {
    (N, "cause comes"): U,
    (N, "cause goes"): N,
    (N, "acknowledged"): N,
    (U, "cause comes"): U,
    (U, "cause goes"): R,
    (U, "acknowledged"): A,
    (A, "cause comes"): A,
    (A, "cause goes"): N,
    (A, "acknowledged"): A,
    (R, "cause comes"): U,
    (R, "cause goes"): R,
    (R, "acknowledged"): N,
}


def kept(kind: str, body: Mapping[str, Any]) -> Entry:
    """A row of the journal."""
    return Entry(1, 0.0, "2026-01-01T00:00:00.000Z", kind, None, body, "")


def after_a_restart(watcher: Watcher) -> Watcher:
    """A process that finds the rows of the one before, ten minutes later."""
    again = Watcher()
    again.now_s = 50.0
    again.alarms = Alarms(lambda kind, body: again.rows.append((kind, body)), lambda: "2026-01-01T00:10:00.000Z")
    again.alarms.restore([kept(kind, body) for kind, body in watcher.rows], again.now_s)
    return again


@pytest.mark.parametrize("state", ANNOUNCED)
def test_L1_a_restart_forgets_no_alarm(state: AlarmState) -> None:
    watcher = Watcher()
    watcher.bring_to(state)
    watcher.alarms.event("stray_flow", "dose_base.pump", "its count went on by 7.00 mL")
    watcher.alarms.event("run_held", "run-7", "seen already")
    watcher.alarms.acknowledge("run_held:run-7", "anna")
    again = after_a_restart(watcher)
    assert again.rows == [], "what is taken up is no news"
    assert again.state is state
    before, after = watcher.alarms.active(), again.alarms.active()
    assert [replace(alarm, raised_s=0.0) for alarm in after] == [replace(alarm, raised_s=0.0) for alarm in before]
    assert all(alarm.raised_s == 50.0 - 600.0 for alarm in after)
    # And it goes on from there as if nothing had been.
    again.live(OFF_S + 2, {})
    assert again.state is TABLE[state, "cause goes"]
    again.live(ON_S + 2, CAUSE)
    assert again.state is U


def test_L1_an_alarm_of_another_release_is_let_go() -> None:
    again = Watcher()
    again.alarms.restore([kept("alarm.raised", {"alarm": "of_old:reglo", "priority": "high", "detail": "?"})], 0.0)
    assert again.alarms.active() == []


def test_L1_a_cause_that_cannot_be_looked_at_changes_nothing() -> None:
    for state in ANNOUNCED:
        watcher = Watcher()
        watcher.bring_to(state)
        for _ in range(int(OFF_S + 200)):
            watcher.now_s += 1.0
            watcher.alarms.levels({}, watcher.now_s, [(LEVEL, POINT)])
        assert watcher.state is state
        watcher.live(OFF_S + 2, {})
        assert watcher.state is TABLE[state, "cause goes"]


def test_L2_what_was_about_to_be_raised_is_raised_when_it_is_seen_again() -> None:
    watcher = Watcher()
    watcher.live(ON_S - 1, CAUSE)
    for _ in range(30):
        watcher.now_s += 1.0
        watcher.alarms.levels({}, watcher.now_s, [(LEVEL, POINT)])
    assert watcher.alarm is None
    watcher.live(1, CAUSE)
    assert watcher.state is AlarmState.UNACKNOWLEDGED


def test_L1_the_table_is_complete() -> None:
    assert set(TABLE) == set(product(ANNOUNCED, ["cause comes", "cause goes", "acknowledged"]))


@pytest.mark.parametrize(("begin", "event", "end"), [(*key, end) for key, end in TABLE.items()])
def test_L1_every_transition(begin: AlarmState, event: str, end: AlarmState) -> None:
    watcher = Watcher()
    watcher.bring_to(begin)
    before = len(watcher.rows)
    match event:
        case "cause comes":
            watcher.live(ON_S + OFF_S + 5, CAUSE)
        case "cause goes":
            watcher.live(ON_S + OFF_S + 5, {})
        case _ if begin is N:
            with pytest.raises(KeyError):
                watcher.alarms.acknowledge(ID, "anna")
        case _:
            watcher.alarms.acknowledge(ID, "anna")
    assert watcher.state is end
    if begin is end:
        assert len(watcher.rows) == before, "what does not change is not told again"
    else:
        assert len(watcher.rows) > before


def test_L2_a_cause_shorter_than_its_on_delay_is_no_alarm() -> None:
    watcher = Watcher()
    for _ in range(10):
        watcher.live(ON_S, CAUSE)
        watcher.live(1, {})
    assert watcher.state is N
    assert watcher.rows == []
    watcher.live(ON_S + 1, CAUSE)
    assert watcher.state is U


def test_L2_a_gap_shorter_than_the_off_delay_is_no_return() -> None:
    watcher = Watcher()
    watcher.bring_to(U)
    for _ in range(5):
        watcher.live(OFF_S - 1, {})
        watcher.live(1, CAUSE)
    assert watcher.state is U
    assert len(watcher.rows) == 1


def test_L3_a_chattering_cause_makes_few_notices() -> None:
    watcher = Watcher()
    for _ in range(24 * 60):  # a day
        watcher.live(20, CAUSE)
        watcher.live(40, {})
    assert 0 < len(watcher.rows) < 60
    watcher.live(2 * 3600, {})
    assert watcher.state is R


def test_an_alarm_tells_its_latest_detail() -> None:
    watcher = Watcher()
    watcher.bring_to(U)
    watcher.live(1, {(LEVEL, POINT): "41 is above 38.5"})
    assert watcher.alarm is not None
    assert watcher.alarm.detail == "41 is above 38.5"
    assert len(watcher.rows) == 1


def test_an_event_stays_until_it_is_acknowledged() -> None:
    watcher = Watcher()
    for _ in range(50):
        watcher.alarms.event("command_failed", "relay.heater", "no answer")
        watcher.live(60, {})
    (alarm,) = watcher.alarms.active()
    assert alarm.state is U
    assert alarm.times == 50
    assert len(watcher.rows) == 1
    assert watcher.alarms.acknowledge(alarm.id, "anna").acknowledged_by == "anna"
    assert watcher.alarms.active() == []
    assert [kind for kind, _ in watcher.rows] == ["alarm.raised", "alarm.acknowledged", "alarm.normal"]


def test_alarms_are_ordered_by_urgency() -> None:
    watcher = Watcher()
    for kind in ("slow_loop", "command_failed", "emergency_stop", "lease_expired"):
        watcher.alarms.event(kind, "x", "y")
    urgencies = [URGENCY[alarm.priority] for alarm in watcher.alarms.active()]
    assert urgencies == sorted(urgencies)
    assert watcher.alarms.active()[0].kind == "emergency_stop"


def test_D4_who_acknowledged_is_recorded() -> None:
    watcher = Watcher()
    watcher.bring_to(U)
    watcher.alarms.acknowledge(ID, "anna")
    assert watcher.rows[-1] == ("alarm.acknowledged", {"alarm": ID, "user": "anna"})


def test_D2_a_journal_that_is_full_silences_no_alarm() -> None:
    def full(kind: str, body: Mapping[str, Any]) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    alarms = Alarms(full, lambda: "")
    alarms.event("journal_lost", "journal", "full")
    assert [alarm.kind for alarm in alarms.active()] == ["journal_lost"]


def test_a_kind_without_a_definition_is_raised_as_well() -> None:
    watcher = Watcher()
    watcher.alarms.event("dragons", "chamber", "here be")
    (alarm,) = watcher.alarms.active()
    assert "dragons" in alarm.detail


@pytest.mark.parametrize("definition", DEFINITIONS.values(), ids=DEFINITIONS.keys())
def test_L7_every_alarm_says_what_happens_what_to_do_and_by_when(definition: Any) -> None:
    from controller.rig.quantities import parse_quantity

    assert len(definition.consequence) > 15
    assert len(definition.response) > 15
    assert definition.priority in URGENCY
    try:
        assert parse_quantity(definition.respond_within, "s") > 0
    except QuantityError as error:
        pytest.fail(str(error))


def test_L7_every_alarm_that_is_raised_anywhere_is_defined() -> None:
    root = Path(__file__).resolve().parents[2]
    raised: set[str] = set()
    for folder in ("controller", "choroid"):
        for path in (root / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            raised |= set(re.findall(r"\b_?alarm\(\s*\"([a-z_]+)\"", text))
            raised |= set(re.findall(r"\.event\(\s*\"([a-z_]+)\"", text))
    assert raised >= {"command_failed", "emergency_stop", "run_held"}
    assert raised <= set(DEFINITIONS)


def test_the_page_is_of_these_definitions() -> None:
    assert make_alarm_page.PAGE.read_text(encoding="utf-8") == make_alarm_page.text(), (
        "next: python -m tests.controller.make_alarm_page"
    )
