"""Alarm statistics of a period from the journal: count, time to acknowledge, standing alarms (ISA-18.2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

from controller.alarms.definitions import DEFINITIONS, URGENCY
from controller.figures.transfers import seconds
from controller.journal.terms import Entry
from controller.rig.quantities import parse_quantity

ROWS = (
    "alarm.raised",
    "alarm.unacknowledged",
    "alarm.acknowledged",
    "alarm.return_to_normal_unacknowledged",
    "alarm.normal",
    "controller.started",
)


@dataclass(slots=True)
class Occurrence:
    """One alarm from its raising to its end (UTC seconds); `ended` None: it stands."""

    alarm: str
    priority: str
    detail: str
    raised: float
    acknowledged: float | None = None
    by: str = ""
    ended: float | None = None
    forgotten: bool = False
    """Whether it ended by a restart of the controller without acknowledgement."""
    times: int = 1
    """How often its cause occurred until it ended."""


@dataclass(frozen=True, slots=True)
class AlarmFigures:
    """All occurrences of one alarm in a period. Times in s."""

    alarm: str
    priority: str
    count: int
    times: int
    acknowledged: int
    median_ack_s: float | None
    longest_ack_s: float | None
    late: int
    """Number of occurrences that were not acknowledged within the time to respond."""
    within_s: float | None
    standing: bool
    present_s: float
    detail: str

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {name: getattr(self, name) for name in self.__slots__}


def occurrences(rows: Iterable[Entry]) -> Iterator[Occurrence]:
    """Yield every occurrence, in the order of raising."""
    standing: dict[str, Occurrence] = {}
    found: list[Occurrence] = []
    for row in rows:
        at = seconds(row.utc)
        if row.kind == "controller.started":
            for each in standing.values():
                each.ended, each.forgotten = at, each.acknowledged is None
            standing.clear()
            continue
        name = str(row.body.get("alarm", ""))
        known = standing.get(name)
        if row.kind == "alarm.raised":
            known = Occurrence(name, str(row.body.get("priority", "")), str(row.body.get("detail", "")), at)
            standing[name] = known
            found.append(known)
        elif known is None:
            continue
        elif row.kind == "alarm.unacknowledged":
            known.times += 1
        elif row.kind == "alarm.acknowledged" and known.acknowledged is None:
            known.acknowledged, known.by = at, str(row.body.get("user", ""))
        elif row.kind == "alarm.normal":
            known.ended = at
            del standing[name]
    yield from found


def alarm_figures(rows: Iterable[Entry], begin: float, end: float) -> list[AlarmFigures]:
    """Return the statistics of alarms that stood in [begin, end), the most urgent first; `rows` from the journal's begin."""
    groups: dict[str, list[Occurrence]] = {}
    for each in occurrences(rows):
        if each.raised < end and (each.ended is None or each.ended >= begin):
            groups.setdefault(each.alarm, []).append(each)
    figures = [_figures(name, found, begin, end) for name, found in groups.items()]
    urgency = {str(priority): rank for priority, rank in URGENCY.items()}
    return sorted(figures, key=lambda one: (urgency.get(one.priority, 9), -one.count, one.alarm))


def respond_within_s(kind: str) -> float | None:
    """Return the time to respond of a kind of alarm (s); None for a kind that this release does not know."""
    definition = DEFINITIONS.get(kind)
    return None if definition is None else parse_quantity(definition.respond_within, "s")


def _late(found: list[Occurrence], within_s: float | None, end: float) -> int:
    """Return how many occurrences were not acknowledged within the time to respond."""
    if within_s is None:
        return 0
    late = 0
    for each in found:
        seen = each.acknowledged if each.acknowledged is not None else min(each.ended or end, end)
        late += seen - each.raised > within_s
    return late


def _present_s(each: Occurrence, begin: float, end: float) -> float:
    """Return how long an occurrence stood in the period (s)."""
    return min(each.ended if each.ended is not None else end, end) - max(each.raised, begin)


def _figures(name: str, found: list[Occurrence], begin: float, end: float) -> AlarmFigures:
    within_s = respond_within_s(name.partition(":")[0])
    waits = [
        each.acknowledged - each.raised for each in found if each.acknowledged is not None and each.acknowledged < end
    ]
    late = _late(found, within_s, end)
    standing = any(each.ended is None or each.ended >= end for each in found)
    present_s = sum(_present_s(each, begin, end) for each in found)
    return AlarmFigures(
        alarm=name,
        priority=found[-1].priority,
        count=len(found),
        times=sum(each.times for each in found),
        acknowledged=len(waits),
        median_ack_s=median(waits) if waits else None,
        longest_ack_s=max(waits) if waits else None,
        late=late,
        within_s=within_s,
        standing=standing,
        present_s=present_s,
        detail=found[-1].detail,
    )
