"""Events of a period from the journal: runs, actions of people, grades, scores, restarts, interlocks, failures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.figures.transfers import seconds
from controller.journal.terms import Entry
from controller.vitals.score_rows import ROW as SCORE_ROW

RUN_ROWS = ("run.start", "run.state", "run.message", "step", "step.done")
OVER = ("complete", "stopped", "aborted")
HELD = ("holding", "held")
FAULT_ROWS = ("safety.trip", "safety.latch", "act.refused", "act.outcome", "step.refused", "controller.started")
MACHINE = (
    "act",
    "act.outcome",
    "act.refused",
    "alarm.raised",
    "alarm.return_to_normal_unacknowledged",
    "alarm.normal",
    "clock.stepped",
    "estimate",
    "ledger.balanced",
    "ledger.opened",
    "ledger.tared",
    "moved",
    "probe.health",
    "step",
    "step.act",
    "step.done",
    SCORE_ROW,
)
"""Kinds of rows that only the controller writes for itself; all others may name a person."""
MAX_TEXTS = 200


@dataclass(slots=True)
class RunRecord:
    """One run of a protocol. UTC seconds; `ended` None: it goes on. `held` are (begin, end) within the period."""

    id: str
    protocol: str
    user: str
    reason: str
    started: float
    state: str = "running"
    ended: float | None = None
    steps: int = 0
    done: int = 0
    held: list[tuple[float, float]] = field(default_factory=list)
    messages: list[tuple[float, str]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {name: getattr(self, name) for name in self.__slots__}

    def underway_since(self, begin: float) -> bool:
        """Return whether the run had not ended before `begin` (UTC seconds)."""
        return self.ended is None or self.ended >= begin

    def take(self, row: Entry, at: float, begin: float) -> None:
        """Count a row of the run, unless it lies before the period."""
        if at < begin:
            return
        if row.kind == "run.message":
            self.messages.append((at, str(row.body["text"])))
        elif row.kind == "step":
            self.steps += 1
        else:
            self.done += 1


def runs(rows: Iterable[Entry], begin: float, end: float) -> list[RunRecord]:
    """Return the runs that were underway in [begin, end); `rows` of :data:`RUN_ROWS` from the journal's begin."""
    found: dict[str, RunRecord] = {}
    held_since: dict[str, float] = {}
    for row in rows:
        at = seconds(row.utc)
        if row.run is None or at >= end:
            continue
        if row.kind == "run.start":
            found[row.run] = _started(row.run, row, at)
        elif (run := found.get(row.run)) is not None:
            if row.kind == "run.state":
                _change(run, str(row.body["to"]), at, begin, held_since)
            else:
                run.take(row, at, begin)
    for name, since in held_since.items():
        found[name].held.append((max(since, begin), end))
    return [run for run in found.values() if run.underway_since(begin)]


def _started(run: str, row: Entry, at: float) -> RunRecord:
    body = row.body
    return RunRecord(run, str(body["protocol"]), str(body.get("user", "")), str(body.get("reason", "")), at)


def _change(run: RunRecord, state: str, at: float, begin: float, held_since: dict[str, float]) -> None:
    """Apply a change of state, and record the time for which the run was held."""
    run.state = state
    if state in HELD:
        held_since.setdefault(run.id, at)
    elif (since := held_since.pop(run.id, None)) is not None and at >= begin:
        run.held.append((max(since, begin), at))
    if state in OVER:
        run.ended = at


@dataclass(frozen=True, slots=True)
class PersonAction:
    """An action of a person: time (UTC seconds), who, what, why, and the number of the journal's row."""

    at: float
    who: str
    what: str
    why: str
    seq: int

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {name: getattr(self, name) for name in self.__slots__}


def person_actions(rows: Iterable[Entry]) -> list[PersonAction]:
    """Return the rows that name a person, oldest first."""
    found = []
    for row in rows:
        who = row.body.get("user") or row.body.get("by")
        if isinstance(who, str) and who:
            found.append(PersonAction(seconds(row.utc), who, _what(row), str(row.body.get("reason", "")), row.seq))
    return found


def _answered(row: Entry, body: Mapping[str, Any]) -> str:
    sha256 = f", sha256 {body['value']}" if "file" in body else ""
    return f"answered step {body['n']} of {row.run}: {body['text']}{sha256}"


_WHAT: Mapping[str, Callable[[Entry, Mapping[str, Any]], str]] = {
    "run.start": lambda row, body: f"started protocol {body.get('protocol')} ({row.run})",
    "run.state": lambda row, body: f"{body.get('event')} of {row.run}: {body.get('from')} → {body.get('to')}",
    "step.answered": _answered,
    "alarm.acknowledged": lambda row, body: f"acknowledged alarm {body.get('alarm')}",
    "ledger.reconciled": lambda row, body: (
        f"set {body['vessel']} to {body['ul'] / 1000:.2f} mL ({body['change_ul'] / 1000:+.2f} mL)"
    ),
    "ledger.sampled": lambda row, body: f"took a sample of {body['ul'] / 1000:.2f} mL from {body['vessel']}",
    "safety.estop": lambda row, body: "emergency stop",
    "safety.reset": lambda row, body: f"reset; latched were: {', '.join(body.get('latched', ())) or 'none'}",
    "users.password_set": lambda row, body: "set a new password",
    "page.signed_in": lambda row, body: f"signed in as {body.get('role')}",
}


def _what(row: Entry) -> str:
    """Return what a row says that a person did."""
    if (text := _WHAT.get(row.kind)) is not None:
        return text(row, row.body)
    rest = ", ".join(
        f"{key} {value}" for key, value in row.body.items() if key not in ("user", "by", "reason") and _short(value)
    )
    return f"{row.kind}: {rest}" if rest else row.kind


def _short(value: object) -> bool:
    return isinstance(value, int | float) or (isinstance(value, str) and len(value) <= 60)


@dataclass(frozen=True, slots=True)
class GradeRecord:
    """One graded batch."""

    at: float
    grade: str
    confidence: float
    limiting: str
    reasons: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {name: getattr(self, name) for name in self.__slots__}


def grades(rows: Iterable[Entry]) -> list[GradeRecord]:
    """Return the grades, oldest first."""
    return [
        GradeRecord(
            seconds(row.utc),
            str(row.body["grade"]),
            float(row.body.get("confidence", 0.0)),
            str(row.body.get("limiting", "")),
            tuple(str(reason) for reason in row.body.get("reasons", ())),
        )
        for row in rows
        if isinstance(row.body.get("grade"), str)
    ]


@dataclass(frozen=True, slots=True)
class ScoreRecord:
    """One score (0..1) with its interval, and the share of known inputs; of an estimate, `score` is its median."""

    at: float
    score: float
    low: float
    high: float
    coverage: float
    limiting: str
    version: str
    text: str = ""
    """What was said of the tissue."""


@dataclass(frozen=True, slots=True)
class ScoreRecords:
    """The scores of a period, oldest first."""

    viability: tuple[ScoreRecord, ...] = ()
    """Estimates of viability."""
    care_rating: tuple[ScoreRecord, ...] = ()


def scores(rows: Iterable[Entry]) -> ScoreRecords:
    """Return estimates of viability and care ratings from rows of the kind :data:`controller.vitals.score_rows.ROW`."""
    estimates, ratings = [], []
    for row in rows:
        at = seconds(row.utc)
        if isinstance(estimate := row.body["viability"], Mapping):
            estimates.append(_estimated(at, estimate))
        if isinstance(rating := row.body["care_rating"], Mapping):
            ratings.append(_rated(at, rating))
    return ScoreRecords(tuple(estimates), tuple(ratings))


def _rated(at: float, body: Mapping[str, Any]) -> ScoreRecord:
    """Return a care rating."""
    coverage, limiting, version = float(body["coverage"]), str(body["limiting"]), str(body["version"])
    return ScoreRecord(at, body["score"], body["low"], body["high"], coverage, limiting, version)


def _estimated(at: float, estimate: Mapping[str, Any]) -> ScoreRecord:
    """Return an estimate of viability: its median and interval, and the share of what can be measured that was."""
    measured, unmeasured = len(estimate["measured"]), len(estimate["unmeasured"])
    causes = ", ".join(estimate["causes"])
    return ScoreRecord(
        at,
        estimate["value"],
        estimate["low"],
        estimate["high"],
        measured / (measured + unmeasured),
        causes or "nothing that is measured",
        estimate["version"],
        " ".join(estimate["sentences"]),
    )


@dataclass(slots=True)
class PeriodEvents:
    """Failures, refusals and starts of a period; texts with UTC seconds, at most :data:`MAX_TEXTS` of each kind."""

    trips: list[tuple[float, str]] = field(default_factory=list)
    failures: list[tuple[float, str]] = field(default_factory=list)
    refusals: list[tuple[float, str]] = field(default_factory=list)
    starts: list[tuple[float, str, str, str]] = field(default_factory=list)
    """(when, rig, rig hash, release) of each start of the controller."""
    untold: int = 0

    def tell(self, where: list[tuple[float, str]], at: float, text: str) -> None:
        """Add an event to a list; only count it when the list is full."""
        if len(where) < MAX_TEXTS:
            where.append((at, text))
        else:
            self.untold += 1


def faults(rows: Iterable[Entry]) -> PeriodEvents:
    """Collect trips, failures, refusals and starts of a period from its rows of :data:`FAULT_ROWS`."""
    found = PeriodEvents()
    for row in rows:
        at, body = seconds(row.utc), row.body
        match row.kind:
            case "safety.trip":
                found.tell(found.trips, at, f"{body['interlock']} on {body['point']}: {body['detail']}")
            case "safety.latch":
                found.tell(found.trips, at, f"{body['interlock']} latched: {body['detail']}")
            case "act.outcome" if "error" in body:
                found.tell(found.failures, at, f"{body.get('actuator', 'a command')}: {body['error']}")
            case "act.refused":
                text = f"{body['actuator']} {body['command']} by {body['by']}: {'; '.join(body.get('reasons', ()))}"
                found.tell(found.refusals, at, text)
            case "step.refused":
                found.tell(found.refusals, at, f"step {body.get('n')}: {'; '.join(body.get('reasons', ()))}")
            case "controller.started":
                start = (at, str(body.get("rig", "")), str(body.get("rig_hash", "")), str(body.get("version", "")))
                found.starts.append(start)
    return found
