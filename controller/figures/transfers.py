"""Booked transfers: the requested volume, the weighed volume, and the time."""

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
"""A peristaltic pump deviates from its calibration by 5 to 15 % in the first days of a tubing (biology.md §2) (%)."""


@dataclass(frozen=True, slots=True)
class BookedTransfer:
    """One booked transfer. UTC seconds, µL, µL/min, kPa; `begin` is None if no step began it."""

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
    """Volume of the spent vessel afterwards, by the balance (µL)."""

    @property
    def weighed(self) -> bool:
        """Whether the balance saw all of it: only such a transfer shows the accuracy of the pump."""
        return "balance" in self.source and self.ended in ("done", PORTION) and bool(self.asked_ul)


def transfers(rows: Iterable[Entry]) -> list[BookedTransfer]:
    """Return the transfers from the journal's rows of the kinds :data:`ROWS`, in order."""
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
                body.get("liquid_ul", body["ul"]),
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
    """Return UTC seconds since 1970 of an ISO 8601 text."""
    return datetime.fromisoformat(utc).timestamp()


def volume(key: str, label: str, some: list[BookedTransfer], days: float) -> Figure:
    """Return the total volume of some transfers (mL), and the volume per day."""
    if not some:
        return figure(key, label, "mL", 0.0, basis="no transfer was booked")
    total = sum(each.ul for each in some) / ML
    sd = math.sqrt(sum(each.sd_ul**2 for each in some)) / ML
    return figure(key, label, "mL", total, sd=sd, basis=f"{len(some)} transfers, {total / days:.3g} mL/d")


def accuracy(key: str, label: str, some: list[BookedTransfer]) -> Figure:
    """Return the deviation of the weighed from the requested volume (%), over all doses."""
    weighed = [each for each in some if each.weighed]
    if not weighed:
        why = "no transfer" if not some else "no transfer was seen whole by the balance"
        return missing(key, label, "%", f"{why} in the period")
    asked = sum(each.asked_ul or 0.0 for each in weighed)
    error = 100.0 * (sum(each.ul for each in weighed) / asked - 1.0)
    sd = 100.0 * math.sqrt(sum(each.sd_ul**2 for each in weighed)) / asked
    worst = max((_off(each) for each in weighed), key=abs)
    basis = f"balance against asked, {len(weighed)} of {len(some)} doses; the worst single one {100.0 * worst:+.1f} %"
    return figure(key, label, "%", error, sd=sd, limits=DOSE_ERROR_PCT, judged=abs(error), basis=basis)


def _off(each: BookedTransfer) -> float:
    """Return the relative deviation of one dose."""
    return each.ul / (each.asked_ul or math.inf) - 1.0
