"""What happened in a period, told from the journal: protocols, people, grades, scores, restarts, interlocks, failures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.figures.transfers import seconds
from controller.journal.terms import Entry

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
    "alarm.returned",
    "alarm.normal",
    "estimate",
    "ledger.opened",
    "moved",
    "step",
    "step.act",
    "step.done",
    "viability",
)
"""Kinds of rows that only the controller writes for itself; all others may name a person."""
MOST_TOLD = 200


@dataclass(slots=True)
class RunRecord:
    """One run of a protocol. UTC seconds; `ended` None means that it goes on. `held` are (begin, end) in the period."""

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
        """Plain data."""
        return {name: getattr(self, name) for name in self.__slots__}


def runs(rows: Iterable[Entry], begin: float, end: float) -> list[RunRecord]:
    """The runs under way at any time in [begin, end); `rows` of :data:`RUN_ROWS` from the journal's beginning."""
    found: dict[str, RunRecord] = {}
    held_since: dict[str, float] = {}
    for row in rows:
        at = seconds(row.utc)
        if row.run is None or at >= end:
            continue
        body = row.body
        if row.kind == "run.start":
            found[row.run] = RunRecord(
                row.run, str(body["protocol"]), str(body.get("user", "")), str(body.get("reason", "")), at
            )
            continue
        run = found.get(row.run)
        if run is None:
            continue
        if row.kind == "run.state":
            run.state = str(body["to"])
            if run.state in HELD:
                held_since.setdefault(run.id, at)
            elif (since := held_since.pop(run.id, None)) is not None and at >= begin:
                run.held.append((max(since, begin), at))
            if run.state in OVER:
                run.ended = at
        elif at < begin:
            continue
        elif row.kind == "run.message":
            run.messages.append((at, str(body["text"])))
        elif row.kind == "step":
            run.steps += 1
        else:
            run.done += 1
    for name, since in held_since.items():
        found[name].held.append((max(since, begin), end))
    return [run for run in found.values() if run.ended is None or run.ended >= begin]


@dataclass(frozen=True, slots=True)
class Deed:
    """What a person did: when (UTC seconds), who, what, why, and the journal's row."""

    at: float
    who: str
    what: str
    why: str
    seq: int

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {name: getattr(self, name) for name in self.__slots__}


def deeds(rows: Iterable[Entry]) -> list[Deed]:
    """Rows that name who did it, oldest first."""
    found = []
    for row in rows:
        who = row.body.get("user") or row.body.get("by")
        if isinstance(who, str) and who:
            found.append(Deed(seconds(row.utc), who, _what(row), str(row.body.get("reason", "")), row.seq))
    return found


def _what(row: Entry) -> str:
    body = row.body
    match row.kind:
        case "run.start":
            return f"started protocol {body.get('protocol')} ({row.run})"
        case "run.state":
            return f"{body.get('event')} of {row.run}: {body.get('from')} → {body.get('to')}"
        case "alarm.acknowledged":
            return f"acknowledged alarm {body.get('alarm')}"
        case "ledger.reconciled":
            return f"set {body['vessel']} to {body['ul'] / 1000:.2f} mL ({body['change_ul'] / 1000:+.2f} mL)"
        case "safety.estop":
            return "emergency stop"
        case "safety.reset":
            return f"reset; latched were: {', '.join(body.get('latched', ())) or 'none'}"
        case "page.signed_in":
            return f"signed in as {body.get('role')}"
    rest = ", ".join(
        f"{key} {value}" for key, value in body.items() if key not in ("user", "by", "reason") and _short(value)
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
        """Plain data."""
        return {name: getattr(self, name) for name in self.__slots__}


def grades(rows: Iterable[Entry]) -> list[GradeRecord]:
    """The grades given, oldest first."""
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
    """One viability score (0..1) with its interval, if the release that wrote it knew one, and the share of inputs known."""

    at: float
    score: float
    low: float | None
    high: float | None
    coverage: float
    limiting: str
    version: str


def scores(rows: Iterable[Entry]) -> list[ScoreRecord]:
    """The viability scores, oldest first."""
    found = []
    for row in rows:
        body: Mapping[str, Any] = row.body
        if isinstance(body.get("score"), int | float):
            coverage = body.get("coverage", body.get("confidence", 0.0))
            limiting, version = str(body.get("limiting", "")), str(body.get("version", ""))
            at = seconds(row.utc)
            found.append(
                ScoreRecord(at, body["score"], body.get("low"), body.get("high"), float(coverage), limiting, version)
            )
    return found


@dataclass(slots=True)
class PeriodEvents:
    """What failed, was refused or was begun anew in a period; texts with UTC seconds, at most :data:`MOST_TOLD` a kind."""

    trips: list[tuple[float, str]] = field(default_factory=list)
    failures: list[tuple[float, str]] = field(default_factory=list)
    refusals: list[tuple[float, str]] = field(default_factory=list)
    starts: list[tuple[float, str, str, str]] = field(default_factory=list)
    """(when, rig, rig hash, release) of each start of the controller."""
    untold: int = 0

    def tell(self, where: list[tuple[float, str]], at: float, text: str) -> None:
        """Keep it, or count that it was not kept."""
        if len(where) < MOST_TOLD:
            where.append((at, text))
        else:
            self.untold += 1


def faults(rows: Iterable[Entry]) -> PeriodEvents:
    """From rows of :data:`FAULT_ROWS` in the period."""
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
