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
    """One pump's tubing at the period's end: revolutions since it was fitted and within the period, life, when fitted."""

    life_revolutions: float
    material: str
    installed: float | None = None
    """UTC seconds; None for what was there when the journal began."""
    revolutions: float = 0.0
    within: float = 0.0
    counted: bool = False
    """Whether there is a count from within the period."""

    def count(self, revolutions: float, *, within: bool) -> None:
        """A row's running count of this tubing."""
        if within:
            self.within += max(revolutions - self.revolutions, 0.0)
            self.counted = True
        self.revolutions = revolutions


def worn(rig: Rig, rows: Iterable[Entry], begin: float, end: float) -> Mapping[str, Worn]:
    """By pump; `rows` of :data:`ROWS` from the journal's beginning. A count between two rows is that of the later one."""
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
