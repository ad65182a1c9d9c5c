"""Alarms after ISA-18.2: what a person must do something about, in time.

States: normal, unacknowledged, acknowledged, returned (the cause is gone, nobody has acknowledged yet). Each definition
says what happens if nobody acts, what to do, and how long there is (L7). An alarm that comes and goes takes ever longer
to return, so that a flickering cause makes few notices (L3). A journal that cannot be written silences no alarm, and a
restart forgets none: what stood when the process before ended stands again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, Protocol

logger = logging.getLogger(__name__)

Priority = Literal["critical", "high", "medium", "low"]
URGENCY: dict[Priority, int] = {"critical": 0, "high": 1, "medium": 2, "low": 3}
CHATTER_WITHIN_S = 3600.0
CHATTER_AFTER = 3
CHATTER_MOST = 7
"""From the fourth time within an hour on, an alarm's off-delay doubles each time, up to 2⁷ times."""


ROWS = ("alarm.raised", "alarm.unacknowledged", "alarm.acknowledged", "alarm.returned", "alarm.normal")
"""Kinds of journal rows that tell the life of alarms."""


class AlarmState(StrEnum):
    """Where an alarm stands in its life."""

    NORMAL = "normal"
    UNACKNOWLEDGED = "unacknowledged"
    ACKNOWLEDGED = "acknowledged"
    RETURNED = "returned"


@dataclass(frozen=True, slots=True)
class Definition:
    """One kind of alarm; `on_delay_s` and `off_delay_s` keep a flickering cause from flickering here (L2)."""

    kind: str
    priority: Priority
    consequence: str
    response: str
    respond_within: str
    on_delay_s: float = 0.0
    off_delay_s: float = 30.0
    event: bool = False
    """An event has no level that goes away by itself: it returns as soon as it is acknowledged."""


DEFINITIONS: dict[str, Definition] = {
    each.kind: each
    for each in (
        Definition(
            "no_heart_flow", "critical", "the tissue runs out of oxygen within minutes",
            "look at the pump: tubing, power, cassette; start it by hand if you must", "5 min", 5.0,
        ),
        Definition(
            "temperature", "critical", "heat kills tissue within an hour, cold slows it",
            "compare with a thermometer; check heater, relay and probe", "15 min", 5.0,
        ),
        Definition(
            "over_pressure_heart", "critical", "the heart is stopped: no circulation",
            "look for a kink or a clot in the heart line; it is tried again by itself, ever more seldom", "5 min", 2.0,
        ),
        Definition(
            "over_pressure_filter", "high", "no medium can be given back",
            "check the return valve and replace the sterile filter", "2 h", 2.0,
        ),
        Definition(
            "over_pressure", "high", "its pump stands, and nothing moves through the line",
            "look for a kink, a closed clamp or a clogged dialyser in the line named", "2 h", 2.0,
        ),
        Definition(
            "not_commissioned", "low", "a pump, gas, probe or valve may be another than the rig file says",
            "run `choroid commission` before tissue goes in, and after every change of the wiring", "1 d",
        ),
        Definition(
            "hazard_accepted", "low", "a hazard of this rig has no interlock; the rig file names who accepted that and why",
            "see `choroid check --hazards`; add the sensor and the interlock when you can", "1 d",
        ),
        Definition(
            "device_lost", "high", "its reading is missing, and what depends on it stops or is refused",
            "check power, cable and address; it reconnects by itself", "30 min", 20.0, 10.0,
        ),
        Definition(
            "command_failed", "high", "an output may not be as it was commanded; it was brought to its basal state",
            "look at the device named", "15 min", event=True,
        ),
        Definition(
            "foreign_command", "critical", "two masters at one output: a dose may go out twice, flow and gas may be wrong",
            "find who else commands it (another controller, a tool, somebody at its panel) and end that; read the levels",
            "15 min", event=True,
        ),
        Definition(
            "stray_flow", "high", "liquid went into a vessel that was not to get it; it is booked by the pump's count",
            "look at the pump's cable and at what it pumps into; read the level", "15 min", event=True,
        ),
        Definition(
            "transfer_overlong", "high", "a transfer was stopped before its end",
            "check the line for a kink; see the ledger for what was moved", "30 min", event=True,
        ),
        Definition(
            "lease_expired", "medium", "an output went to its basal state because nobody renewed it",
            "see who held it in the journal", "1 h", event=True,
        ),
        Definition(
            "gas_mixture", "critical", "with too much CO2 the medium turns acid within minutes; CO2 was shut",
            "check the air supply and its flow controller", "10 min", 5.0,
        ),
        Definition(
            "air_lost", "critical",
            "without power it is closed; oxygen carries the CO2 in its place, several times what tissue needs",
            "check power and cable of the air's flow controller, and that the oxygen lasts", "30 min", 30.0, 30.0,
        ),
        Definition(
            "acidity", "critical", "beyond 0.3 pH for an hour tissue suffers; where the gas has failed it goes on turning",
            "check the gas bottles and their flow controllers, then the pH probe", "10 min", 60.0, 60.0,
        ),
        Definition(
            "heart_backwards", "critical", "the chamber is drained within minutes",
            "stop the heart by hand, look which way it turns and how its tubing lies", "2 min", 10.0,
        ),
        Definition(
            "sensor_flat", "high", "a stuck probe is believed by nobody: what depends on it rests or goes to its basal state",
            "check the probe and its cable; restart it", "30 min",
        ),
        Definition(
            "activity_fall", "high", "a fall by half of the own baseline may be the first sign of dying tissue",
            "look at medium, oxygen and warmth of the last hours, then at the array", "1 h",
        ),
        Definition(
            "closed_valve", "high", "a pump pressed against a closed valve; it was stopped",
            "check the return valve and its relay", "30 min",
        ),
        Definition(
            "journal_lost", "critical",
            "heart, temperature and gas go on with a record of their own; no dose, no stimulation; protocols wait",
            "stop the controller, run `choroid repair` on its data folder, start it again", "30 min",
        ),
        Definition(
            "journal_unwritten", "critical", "rows wait in memory and are lost if this process ends; no dose is given",
            "make room on the disk, or end the program that holds the file; it goes on by itself then", "30 min", 2.0, 10.0,
        ),
        Definition(
            "history_lost", "medium", "readings wait in memory and are lost with it",
            "make room on the disk", "4 h", 30.0,
        ),
        Definition(
            "telemetry_lost", "low", "dashboards and archives elsewhere see no new readings; they wait in the outbox",
            "see whether the broker runs and the network reaches it", "1 d", 60.0, 10.0,
        ),
        Definition(
            "defect", "high", "a part of this program failed; the rig is looked after without it",
            "send the log to the developers, then restart the controller", "4 h", event=True,
        ),
        Definition(
            "balance_drift", "high", "the spent vessel does not weigh what was moved into it: a leak or a drip",
            "look at the spent vessel and its lines", "1 h", event=True,
        ),
        Definition(
            "pump_drift", "high", "a pump delivers more or less than it believes",
            "change the tubing and calibrate the pump", "1 d", event=True,
        ),
        Definition(
            "calibration_due", "low", "when the calibration has expired, the pump gives no volumes any more",
            "calibrate the pump", "3 d",
        ),
        Definition(
            "calibration_invalid", "high", "the pump gives no volumes, and protocols are held; the heart goes on",
            "read why, and calibrate the pump", "4 h",
        ),
        Definition(
            "probe_calibration_over", "low", "nobody vouches for what the probe reads: grades and pH may be off",
            "calibrate the probe: the recipe sensor-calibration, or `choroid calibrate sensor`", "3 d",
        ),
        Definition(
            "tubing_due", "low", "the tubing nears the end of its life: less flow, then a crack",
            "have new tubing ready and fit it at the next pause", "3 d",
        ),
        Definition(
            "tubing_over", "high", "tubing beyond its life may crack and spill medium",
            "fit new tubing, enter it (`choroid tubing`) and calibrate the pump", "1 d",
        ),
        Definition(
            "medium_expired", "medium", "medium past its date may be spoilt, and goes on being fed",
            "put in a fresh bottle and enter its lot (on the page, or `choroid load`)", "1 d",
        ),
        Definition(
            "stock_low", "medium", "when it is used up the protocol is held, and the tissue lives on what is in the loop",
            "put in a fresh bottle and enter its lot (on the page, or `choroid load`)", "1 d",
        ),
        Definition(
            "waste_full", "medium", "when it is full nothing is discarded any more, and the protocol is held",
            "empty it and enter that (on the page, or `choroid level … --changed`)", "1 d",
        ),
        Definition(
            "level_due", "low", "nobody knows how full the loop is: draws become smaller from day to day, then none",
            "read the loop's level and enter it (on the page, or `choroid level`)", "7 d",
        ),
        Definition(
            "assay_doubtful", "medium", "an assay contradicts the estimate of the medium; one of the two is wrong",
            "look again or assay again; if it is right, enter it with --sure", "1 d", event=True,
        ),
        Definition(
            "run_held", "high", "a protocol waits for a person",
            "read its message, then resume or abort it", "2 h", event=True,
        ),
        Definition(
            "run_unanswered", "critical", "a protocol has waited for hours and nobody has answered",
            "call somebody who can; the organoid is circulated, warmed and gassed, and nothing else", "30 min", event=True,
        ),
        Definition(
            "emergency_stop", "critical", "everything but the basal circulation stands",
            "make the rig safe, then reset with a reason", "5 min", event=True,
        ),
        Definition(
            "guard_lost", "high", "if this computer fails, nothing brings the rig to rest",
            "restart the controller soon", "2 h", event=True,
        ),
        Definition(
            "interlock_bypassed", "high", "an interlock does not act: what it prevents can happen",
            "stay at the rig, replace the probe, then end the bypass (docs/safety.md)", "30 min", 0.0, 0.0,
        ),
        Definition(
            "slow_loop", "medium", "the controller reacts late",
            "find what loads this computer", "1 h", 10.0,
        ),
    )
}  # fmt: skip


def alarm_kind(interlock: str) -> str | None:
    """Return the kind of alarm that an interlock raises; None when it raises none."""
    if interlock in DEFINITIONS:
        return interlock
    return "over_pressure" if interlock.startswith("over_pressure_") else None


@dataclass(frozen=True, slots=True)
class Alarm:
    """One alarm that is not normal."""

    id: str
    kind: str
    source: str
    state: AlarmState
    priority: Priority
    detail: str
    raised_utc: str
    raised_s: float
    consequence: str
    response: str
    respond_within: str
    acknowledged_by: str = ""
    times: int = 1
    """How often an event has happened since it was last acknowledged."""


class Row(Protocol):
    """What is needed of a journal row."""

    @property
    def kind(self) -> str:
        """One of :data:`ROWS`."""

    @property
    def utc(self) -> str:
        """When it was written (ISO 8601)."""

    @property
    def body(self) -> Mapping[str, Any]:
        """What it says."""


def _made(kind: str, source: str, detail: str, raised_utc: str, raised_s: float) -> Alarm:
    definition = DEFINITIONS[kind]
    return Alarm(
        f"{kind}:{source}",
        kind,
        source,
        AlarmState.UNACKNOWLEDGED,
        definition.priority,
        detail,
        raised_utc,
        raised_s,
        definition.consequence,
        definition.response,
        definition.respond_within,
    )


class Alarms:
    """Every alarm of a rig. `record` writes to the journal; `utc` and `now_s` come from the clock."""

    def __init__(self, record: Callable[[str, Mapping[str, Any]], object], utc: Callable[[], str]) -> None:
        self._record = record
        self._utc = utc
        self._alarms: dict[str, Alarm] = {}
        self._pending_on: dict[str, float] = {}
        self._pending_off: dict[str, float] = {}
        self._beginnings: dict[str, list[float]] = {}
        self._now_s = 0.0
        self.raised = 0

    def restore(self, rows: Iterable[Row], now_s: float) -> None:
        """Take up what stood when the process before ended, by its journal rows :data:`ROWS`. Writes none."""
        self._now_s = now_s
        now = datetime.fromisoformat(self._utc())
        for row in rows:
            identifier = row.body["alarm"]
            kind, _, source = identifier.partition(":")
            known = self._alarms.get(identifier)
            if row.kind == "alarm.raised" and kind in DEFINITIONS:  # a kind of another release is let go
                gone_s = max((now - datetime.fromisoformat(row.utc)).total_seconds(), 0.0)
                self._alarms[identifier] = _made(kind, source, row.body["detail"], row.utc, now_s - gone_s)
            elif known is not None and row.kind == "alarm.normal":
                del self._alarms[identifier]
            elif known is not None:
                state, user = AlarmState(row.kind.removeprefix("alarm.")), row.body.get("user", known.acknowledged_by)
                self._alarms[identifier] = replace(known, state=state, acknowledged_by=user)

    def active(self) -> list[Alarm]:
        """Every alarm that is not normal, the most urgent first."""
        return sorted(self._alarms.values(), key=lambda alarm: (URGENCY[alarm.priority], alarm.raised_s, alarm.id))

    def event(self, kind: str, source: str, detail: str) -> None:
        """Something happened that a person must know; it stays until acknowledged. Never raises."""
        if kind not in DEFINITIONS:
            kind, detail = "defect", f"{kind}: {detail}"
        identifier = f"{kind}:{source}"
        known = self._alarms.get(identifier)
        if known is None:
            self._raise(identifier, kind, source, detail)
        else:
            self._alarms[identifier] = replace(known, detail=detail, times=known.times + 1)

    def levels(
        self, present: Mapping[tuple[str, str], str], now_s: float, unseen: Collection[tuple[str, str]] = ()
    ) -> None:
        """The causes that are there now, (kind, source) -> detail; raises, returns and clears by their delays.

        `unseen` are causes of which nobody can say now whether they are there: their alarms stay as they are.
        """
        self._now_s = now_s
        if not present and not self._alarms and not self._pending_on:
            return
        here = {f"{kind}:{source}": (kind, source, detail) for (kind, source), detail in present.items()}
        for identifier, (kind, source, detail) in here.items():
            self._pending_off.pop(identifier, None)
            known = self._alarms.get(identifier)
            if known is None:
                since_s = self._pending_on.setdefault(identifier, now_s)
                if now_s - since_s >= DEFINITIONS[kind].on_delay_s:
                    self._raise(identifier, kind, source, detail)
            elif known.state is AlarmState.RETURNED:
                self._began(identifier)
                self._change(known, AlarmState.UNACKNOWLEDGED, detail=detail)
            elif known.detail != detail:
                self._alarms[identifier] = replace(known, detail=detail)
        dark = {f"{kind}:{source}" for kind, source in unseen}
        for identifier in [name for name in self._pending_on if name not in here and name not in dark]:
            del self._pending_on[identifier]
        for identifier, alarm in list(self._alarms.items()):
            definition = DEFINITIONS[alarm.kind]
            if identifier in here or definition.event or alarm.state is AlarmState.RETURNED:
                continue
            if identifier in dark:
                self._pending_off.pop(identifier, None)
                continue
            since_s = self._pending_off.setdefault(identifier, now_s)
            if now_s - since_s >= self._off_delay_s(identifier, definition):
                del self._pending_off[identifier]
                if alarm.state is AlarmState.ACKNOWLEDGED:
                    self._clear(alarm)
                else:
                    self._change(alarm, AlarmState.RETURNED)

    def acknowledge(self, identifier: str, user: str) -> Alarm:
        """Somebody has seen it. Raises KeyError for an alarm that is not active."""
        alarm = self._alarms[identifier]
        if alarm.state is AlarmState.RETURNED or DEFINITIONS[alarm.kind].event:
            self._row("alarm.acknowledged", {"alarm": identifier, "user": user})
            self._clear(alarm)
            return replace(alarm, state=AlarmState.NORMAL, acknowledged_by=user)
        if alarm.state is AlarmState.UNACKNOWLEDGED:
            self._change(alarm, AlarmState.ACKNOWLEDGED, user=user)
        return self._alarms[identifier]

    def _off_delay_s(self, identifier: str, definition: Definition) -> float:
        chatter = len(self._beginnings.get(identifier, ())) - CHATTER_AFTER
        return float(definition.off_delay_s * 2 ** min(max(chatter, 0), CHATTER_MOST))

    def _began(self, identifier: str) -> None:
        earlier = self._beginnings.get(identifier, [])
        self._beginnings[identifier] = [at_s for at_s in earlier if self._now_s - at_s < CHATTER_WITHIN_S] + [
            self._now_s
        ]

    def _raise(self, identifier: str, kind: str, source: str, detail: str) -> None:
        self._pending_on.pop(identifier, None)
        self._began(identifier)
        self.raised += 1
        alarm = self._alarms[identifier] = _made(kind, source, detail, self._utc(), self._now_s)
        self._row("alarm.raised", {"alarm": identifier, "priority": alarm.priority, "detail": detail})

    def _change(self, alarm: Alarm, state: AlarmState, *, detail: str | None = None, user: str = "") -> None:
        self._alarms[alarm.id] = replace(
            alarm, state=state, detail=detail or alarm.detail, acknowledged_by=user or alarm.acknowledged_by
        )
        row: dict[str, Any] = {"alarm": alarm.id}
        self._row(f"alarm.{state.value}", row | ({"user": user} if user else {}))

    def _clear(self, alarm: Alarm) -> None:
        del self._alarms[alarm.id]
        self._row("alarm.normal", {"alarm": alarm.id})

    def _row(self, kind: str, body: Mapping[str, Any]) -> None:
        try:
            self._record(kind, body)
        except Exception:
            logger.exception("%s could not be recorded: %s", kind, body)
