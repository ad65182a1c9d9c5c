"""Transfers as they were booked: what was asked, what the balance saw, when it flowed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from controller.figures.figure import Figure, FigureLimits, figure, missing
from controller.journal.terms import Entry
from controller.steps.steps import PORTION

ML = 1000.0
ROWS = ("step.act", "moved")
DOSE_ERROR_PCT = FigureLimits(5.0, 10.0)
"""A peristaltic pump leaves its calibration by 5 to 15 % in the first days of a tubing (biology.md §2)."""


@dataclass(frozen=True, slots=True)
class BookedTransfer:
    """One booked transfer. UTC seconds, µL, µL/min, kPa; `begin` is None where no step began it."""

    line: str
    begin: float | None
    end: float
    asked_ul: float | None
    ul: float
    sd_ul: float
    source: str
    ended: str
    flow_ul_min: float | None = None
    peak_kpa: float | None = None
    spent_ul: float | None = None
    """What the spent vessel held afterwards, by the balance."""

    @property
    def weighed(self) -> bool:
        """Whether the balance saw it whole: only such a transfer says how well the pump doses."""
        return "balance" in self.source and self.ended in ("done", PORTION) and bool(self.asked_ul)


def transfers(rows: Iterable[Entry]) -> list[BookedTransfer]:
    """From the journal's rows of the kinds :data:`ROWS`, in order."""
    begun: dict[tuple[str | None, int, int], Entry] = {}
    found = []
    for row in rows:
        body = row.body
        key = (row.run, body.get("n", -1), body.get("act", -1))
        if row.kind == "step.act":
            begun[key] = row
            continue
        act = begun.pop(key, None)
        found.append(
            BookedTransfer(
                body["line"],
                None if act is None else seconds(act.utc),
                seconds(row.utc),
                body.get("asked_ul"),
                body["ul"],
                body["sd_ul"],
                body["source"],
                body.get("end", ""),
                None if act is None else act.body.get("flow_ul_min"),
                body.get("peak_kpa"),
                body.get("spent_ul"),
            )
        )
    return found


def seconds(utc: str) -> float:
    """UTC seconds since 1970 of an ISO 8601 text."""
    return datetime.fromisoformat(utc).timestamp()


def volume(key: str, label: str, some: list[BookedTransfer], days: float) -> Figure:
    """The volume of some transfers together (mL), and how much that is in a day."""
    if not some:
        return figure(key, label, "mL", 0.0, basis="no transfer was booked")
    total = sum(each.ul for each in some) / ML
    sd = math.sqrt(sum(each.sd_ul**2 for each in some)) / ML
    return figure(key, label, "mL", total, sd=sd, basis=f"{len(some)} transfers, {total / days:.3g} mL/d")


def accuracy(key: str, label: str, some: list[BookedTransfer]) -> Figure:
    """What pumps delivered by the balance against what they were asked (%), all doses together."""
    weighed = [each for each in some if each.weighed]
    if not weighed:
        why = "no transfer" if not some else "no transfer was seen whole by the balance"
        return missing(key, label, "%", f"{why} in the period")
    asked = sum(each.asked_ul or 0.0 for each in weighed)
    error = 100.0 * (sum(each.ul for each in weighed) / asked - 1.0)
    sd = 100.0 * math.sqrt(sum(each.sd_ul**2 for each in weighed)) / asked
    worst = max(weighed, key=lambda each: abs(each.ul / (each.asked_ul or math.inf) - 1.0))
    off = 100.0 * (worst.ul / (worst.asked_ul or math.inf) - 1.0)
    basis = f"balance against asked, {len(weighed)} of {len(some)} doses; the worst single one {off:+.1f} %"
    return figure(key, label, "%", error, sd=sd, limits=DOSE_ERROR_PCT, judged=abs(error), basis=basis)
