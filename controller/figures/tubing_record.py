"""Revolutions of each pump's tubing, from the journal's hourly counts (:mod:`controller.upkeep.upkeep`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.figures.transfers import seconds
from controller.journal.terms import Entry
from controller.rig.description import Rig
from controller.upkeep.tubing import fitted

ROWS = ("tubing.installed", "tubing.turned")


@dataclass(slots=True)
class Worn:
    """Tubing of one pump at the period's end: revolutions in total and within the period, life, time of fitting."""

    life_revolutions: float
    material: str
    installed: float | None = None
    """UTC seconds; None for the tubing that was fitted when the journal began."""
    revolutions: float = 0.0
    within: float = 0.0
    counted: bool = False
    """Whether the period has a count."""

    def count(self, revolutions: float, *, within: bool) -> None:
        """Apply a row's running count of this tubing."""
        if within:
            self.within += max(revolutions - self.revolutions, 0.0)
            self.counted = True
        self.revolutions = revolutions


def worn(rig: Rig, rows: Iterable[Entry], begin: float, end: float) -> Mapping[str, Worn]:
    """Return the tubing by pump; `rows` of :data:`ROWS` from the journal's begin. A count belongs to the later row."""
    found: dict[str, Worn] = {}

    def of(pump: str) -> Worn:
        if pump not in found:
            tubing = fitted(rig, pump)
            found[pump] = Worn(tubing.life_revolutions, tubing.material)
        return found[pump]

    pumps = {line.pump for line in rig.lines.values()}
    for row in rows:
        at = seconds(row.utc)
        if at >= end:
            break
        body: Mapping[str, Any] = row.body
        if row.kind == "tubing.installed":
            if body["pump"] in pumps:
                known = of(body["pump"])
                known.life_revolutions, known.material = float(body["life_revolutions"]), str(body["material"])
                known.installed, known.revolutions = at, 0.0
            continue
        for pump, count in body["pumps"].items():
            if pump in pumps:
                of(pump).count(float(count["revolutions"]), within=at >= begin)
    return found
