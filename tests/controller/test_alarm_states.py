"""All seven states of ISA-18.2, each with everything that can happen to an alarm in it (L1), and shelving (L4)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest

from controller.alarms.definitions import DEFINITIONS
from controller.alarms.states import MAX_SHELF_S, Alarms, AlarmState, ShelfError
from controller.journal.terms import Entry

KIND, SOURCE = "history_lost", "history"
ID = f"{KIND}:{SOURCE}"
CAUSE = {(KIND, SOURCE): "disk full"}
SUPPRESSOR = ("journal_unwritten", "journal")
LONG_S = int(DEFINITIONS[KIND].on_delay_s + DEFINITIONS[KIND].off_delay_s + 5)
SHELF_S = 3600.0
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)

N, U, A, R = (
    AlarmState.NORMAL,
    AlarmState.UNACKNOWLEDGED,
    AlarmState.ACKNOWLEDGED,
    AlarmState.RETURN_TO_NORMAL_UNACKNOWLEDGED,
)
SH, SU, OO = AlarmState.SHELVED, AlarmState.SUPPRESSED_BY_DESIGN, AlarmState.OUT_OF_SERVICE
EVENTS = (
    "cause comes", "cause goes", "acknowledged", "shelved", "shelf time over", "suppressed", "suppression over",
    "taken out of service", "brought back",
)  # fmt: skip


class Desk:
    """Alarms looked at once a second; `cause` and `suppressor` are whether either alarm's cause is there."""

    def __init__(self, begin_s: float = 0.0) -> None:
        self.rows: list[Entry] = []
        self.now_s = begin_s
        self.cause = self.suppressor = False
        self.alarms = Alarms(self._record, self.utc)

    def _record(self, kind: str, body: Mapping[str, Any]) -> None:
        self.rows.append(Entry(len(self.rows) + 1, 0.0, self.utc(), kind, None, dict(body), ""))

    def utc(self) -> str:
        return (BEGIN + timedelta(seconds=self.now_s)).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def live(self, seconds: float = 1.0) -> None:
        for _ in range(int(seconds)):
            self.now_s += 1.0
            present = CAUSE if self.cause else {}
            self.alarms.levels(present | ({SUPPRESSOR: "disk full"} if self.suppressor else {}), self.now_s)

    @property
    def state(self) -> AlarmState:
        found = [each for each in (*self.alarms.active(), *self.alarms.suppressed()) if each.id == ID]
        assert len(found) <= 1, "active and suppressed at the same time"
        return found[0].state if found else N

    def restarted(self) -> Desk:
        again = Desk(self.now_s)
        again.cause, again.suppressor = self.cause, self.suppressor
        again.alarms.restore(self.rows, self.now_s)
        return again

    def bring_to(self, state: AlarmState) -> None:
        self.live()
        match state:
            case AlarmState.SHELVED:
                self.alarms.shelve(ID, SHELF_S, "anna", "new disk is being fitted")
            case AlarmState.OUT_OF_SERVICE:
                self.alarms.take_out_of_service(ID, "eve", "no disk")
            case AlarmState.SUPPRESSED_BY_DESIGN:
                self.do("suppressed")
            case AlarmState.NORMAL:
                pass
            case _:
                self.do("cause comes")
                if state is A:
                    self.do("acknowledged")
                if state is R:
                    self.do("cause goes")
        assert self.state is state

    def do(self, event: str) -> None:
        match event:
            case "cause comes":
                self.cause = True
                self.live(LONG_S)
            case "cause goes":
                self.cause = self.suppressor = False
                self.live(LONG_S)
            case "acknowledged":
                self.alarms.acknowledge(ID, "anna")
            case "shelved":
                self.alarms.shelve(ID, SHELF_S, "anna", "again")
            case "shelf time over":
                self.live(SHELF_S + 2)
            case "suppressed":
                self.cause = self.suppressor = True
                self.live(LONG_S)
            case "suppression over":
                self.suppressor = False
                self.live(LONG_S)
            case "taken out of service":
                self.alarms.take_out_of_service(ID, "eve", "no disk")
            case "brought back":
                self.alarms.bring_back(ID, "eve")


REFUSED = None
TABLE: dict[tuple[AlarmState, str], AlarmState | None] = {
    **{(N, event): to for event, to in zip(EVENTS, (U, N, REFUSED, SH, N, SU, N, OO, REFUSED), strict=True)},
    **{(U, event): to for event, to in zip(EVENTS, (U, R, A, SH, U, SU, U, OO, REFUSED), strict=True)},
    **{(A, event): to for event, to in zip(EVENTS, (A, N, A, SH, A, SU, A, OO, REFUSED), strict=True)},
    **{(R, event): to for event, to in zip(EVENTS, (U, R, N, SH, R, SU, R, OO, REFUSED), strict=True)},
    **{(SH, event): to for event, to in zip(EVENTS, (SH, SH, REFUSED, SH, N, SH, SH, OO, N), strict=True)},
    **{(SU, event): to for event, to in zip(EVENTS, (SU, N, REFUSED, SH, SU, SU, U, OO, REFUSED), strict=True)},
    **{(OO, event): to for event, to in zip(EVENTS, (OO, OO, REFUSED, REFUSED, OO, OO, OO, OO, N), strict=True)},
}


def test_L1_every_state_meets_every_event() -> None:
    assert set(TABLE) == set(product(AlarmState, EVENTS))


@pytest.mark.parametrize(("begin", "event", "end"), [(*key, end) for key, end in TABLE.items()])
def test_L1_every_transition_of_all_seven_states(begin: AlarmState, event: str, end: AlarmState | None) -> None:
    desk = Desk()
    desk.bring_to(begin)
    before = len(desk.rows)
    if end is None:
        with pytest.raises((KeyError, ShelfError)):
            desk.do(event)
        assert desk.state is begin
        assert len(desk.rows) == before, "what is refused leaves no trace of having been done"
        return
    desk.do(event)
    assert desk.state is end
    assert desk.restarted().state is end, "a restart forgets no state"


@pytest.mark.parametrize("suppressed", [SH, OO])
def test_L4_a_suppressed_alarm_is_announced_when_it_comes_back_with_its_cause(suppressed: AlarmState) -> None:
    desk = Desk()
    desk.bring_to(suppressed)
    desk.do("cause comes")
    assert desk.state is suppressed
    assert not desk.alarms.active()
    if suppressed is OO:
        desk.live(40 * 24 * 3600 // 60)  # it has no end of its own
        assert desk.state is suppressed
        desk.alarms.bring_back(ID, "eve")
        desk.live(1)
    else:
        desk.live(SHELF_S + 1)
    assert desk.state is U


def test_L4_shelving_expires_across_a_restart_at_the_same_time() -> None:
    desk = Desk()
    desk.do("cause comes")
    desk.alarms.shelve(ID, 600.0, "anna", "disk is being cleared")
    desk.live(300)
    again = desk.restarted()
    again.live(298)
    assert again.state is SH
    again.live(4)
    assert again.state is U


def test_L4_the_longest_shelf_time_depends_on_the_priority() -> None:
    for kind, definition in DEFINITIONS.items():
        alarms = Alarms(lambda _kind, _body: None, lambda: "2026-01-01T00:00:00.000Z")
        longest_s = MAX_SHELF_S[definition.priority]
        for wrong_s in (longest_s + 1, 0.0, -5.0, float("nan"), float("inf")):
            with pytest.raises(ShelfError):
                alarms.shelve(f"{kind}:x", wrong_s, "anna", "because")
        alarms.shelve(f"{kind}:x", longest_s, "anna", "because")
    assert MAX_SHELF_S["critical"] <= 3600.0


def test_L4_an_event_that_happens_while_it_is_shelved_is_announced_afterwards() -> None:
    desk = Desk()
    desk.live()
    desk.alarms.shelve("stray_flow:reglo.feed", 60.0, "anna", "I am priming it")
    desk.alarms.event("stray_flow", "reglo.feed", "7 mL")
    assert not desk.alarms.active()
    for later in (desk, desk.restarted()):
        later.live(61)
        assert [each.id for each in later.alarms.active()] == ["stray_flow:reglo.feed"]


def test_D4_who_suppressed_an_alarm_and_why_is_recorded() -> None:
    desk = Desk()
    desk.live()
    desk.alarms.shelve(ID, 60.0, "anna", "new disk")
    desk.alarms.take_out_of_service(ID, "eve", "no disk")
    desk.alarms.bring_back(ID, "ben")
    told = [(row.kind, row.body.get("user"), row.body.get("reason")) for row in desk.rows]
    assert told == [
        ("alarm.shelved", "anna", "new disk"),
        ("alarm.out_of_service", "eve", "no disk"),
        ("alarm.normal", "ben", None),
    ]
    for wrong in ("dragons:x", "history_lost", ":"):
        with pytest.raises(ShelfError):
            desk.alarms.shelve(wrong, 60.0, "anna", "why")
    with pytest.raises(ShelfError):
        desk.alarms.shelve(ID, 60.0, "anna", "  ")
