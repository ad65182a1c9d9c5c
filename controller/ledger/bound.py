"""The mass-balance bound of a running rig: from the lactate that its estimator says the tissue made.

`choroid verify comparison` uses what the tissue truly made (:mod:`controller.ledger.saving` has the formula); a real rig has
only its estimates, rows `estimate` of the journal. The production between two of them is that of their mean rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from controller.core.clock import Clock
from controller.journal.journal import Journal
from controller.ledger.ledger import Ledger
from controller.ledger.saving import DAY_S, MIN_DAYS, bound_ul, lactate_limit_mm
from controller.rig.description import Rig

LOOK_S = 60.0
"""Time from one reading of the journal to the next."""


@dataclass
class LactateMade:
    """Sums the lactate that the tissue has made since `begin` (UTC seconds), from the rates of successive estimates."""

    begin: float
    made_umol: float = 0.0
    held_umol: float | None = None
    """Lactate of the circulating medium in the first estimate, less what was made until then."""
    circulating_ul: float = 0.0
    _last: tuple[float, float] | None = field(default=None)
    """Time and rate (µmol/day) of the last estimate."""

    def add(self, at: float, row: Mapping[str, Any]) -> None:
        """Add the body of a row `estimate`. The first rate is assumed for the time before it, too."""
        estimate = row["estimate"]
        rate = float(estimate["lactate_umol_d"]["value"])
        self.circulating_ul = float(row["inputs"].get("loop_ul", self.circulating_ul))
        before_s, before = self._last or (self.begin, rate)
        self.made_umol += (rate + before) / 2.0 * max(at - before_s, 0.0) / DAY_S
        self._last = (max(at, before_s), rate)
        if self.held_umol is None:
            mm = float(estimate["loop"]["lactate_mm"]["value"])
            self.held_umol = max(mm * self.circulating_ul / 1000.0 - self.made_umol, 0.0)

    def bound_ul(self, end: float, limit_mm: float) -> float | None:
        """Return the bound until `end` (UTC seconds); None without an estimate."""
        if self._last is None or self.held_umol is None:
            return None
        at, rate = self._last
        made = self.made_umol + rate * max(end - at, 0.0) / DAY_S
        return bound_ul(made, limit_mm, self.circulating_ul, self.held_umol)


def bound_of_period(
    rig: Rig, estimates: Iterable[tuple[float, Mapping[str, Any]]], begin: float, end: float
) -> float | None:
    """Return the mass-balance bound (µL) of a period by its `estimates` (UTC seconds, body); None where nothing tells it."""
    limit_mm = lactate_limit_mm(rig)
    if limit_mm is None or end - begin < MIN_DAYS * DAY_S:
        return None
    made = LactateMade(begin)
    for at, row in estimates:
        made.add(at, row)
    return made.bound_ul(end, limit_mm)


class FreshBound:
    """The mass-balance bound since the journal began, followed as estimates are written."""

    def __init__(self, rig: Rig, journal: Journal, ledger: Ledger, clock: Clock) -> None:
        self._limit_mm = lactate_limit_mm(rig)
        self._journal = journal
        self._clock = clock
        self._made = LactateMade(ledger.opened.timestamp())
        self._seq = 0
        self._next_s = 0.0
        self._ul: float | None = None

    def ul(self) -> float | None:
        """Return the bound (µL), read again every :data:`LOOK_S`; None in the first day and where nothing tells it."""
        now_s = self._clock.now_s()
        if self._limit_mm is not None and now_s >= self._next_s:
            self._next_s = now_s + LOOK_S
            for entry in self._journal.entries(kinds=("estimate",), after=self._seq):
                self._seq = entry.seq
                self._made.add(datetime.fromisoformat(entry.utc).timestamp(), entry.body)
            end = self._clock.utc().timestamp()
            old_enough = end - self._made.begin >= MIN_DAYS * DAY_S
            self._ul = self._made.bound_ul(end, self._limit_mm) if old_enough else None
        return self._ul
