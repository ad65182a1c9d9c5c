"""What was learnt of a rig in its first hour, kept in the journal: a probe that drifts must not be its own reference later.

A value is learnt once. It counts until the rig is commissioned again, or until the part of the rig file that it depends on
changes.
"""

from __future__ import annotations

from typing import Protocol

from controller.journal.journal import Journal
from controller.journal.terms import JournalUnwritten

ROW = "agreement.reference"
COMMISSIONING = "commissioning"
SETTLE_S = 1800.0
"""How long a rig must have run undisturbed before something is learnt (s)."""
LEARN_S = 1200.0
"""Time over which it is averaged (s)."""


class Memory(Protocol):
    """Keeps what was learnt."""

    def get(self, name: str, of: str) -> float | None:
        """Return the value that was learnt for the part `of`; None if there is none."""

    def learn(self, name: str, of: str, value: float) -> None:
        """Keep a value."""


class References:
    """The memory of a rig, in its journal."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        commissioned = journal.last(COMMISSIONING)
        since = -1 if commissioned is None else commissioned.seq
        rows = [row for row in journal.entries(kinds=(ROW,)) if row.seq > since]
        self._known = {(row.body["name"], row.body["of"]): float(row.body["value"]) for row in rows}

    def get(self, name: str, of: str) -> float | None:
        """Return the value that was learnt for the part `of`; None if there is none."""
        return self._known.get((name, of))

    def learn(self, name: str, of: str, value: float) -> None:
        """Keep a value; it is kept in memory alone while the journal cannot be written."""
        self._known[name, of] = value
        try:
            self._journal.append(ROW, {"name": name, "of": of, "value": value})
        except JournalUnwritten:
            return


class Learner:
    """Averages a figure after an undisturbed time, once; `value` is None until then."""

    def __init__(self, memory: Memory, name: str, of: str) -> None:
        self._memory, self._name, self._of = memory, name, of
        self._since_s: float | None = None
        self._seen: list[float] = []
        self.value = memory.get(name, of)

    def note(self, figure: float | None, at_s: float) -> None:
        """Take in the figure of this moment; None is a disturbance, after which the time begins again."""
        if self.value is not None:
            return
        if figure is None:
            self._since_s, self._seen = None, []
            return
        self._since_s = at_s if self._since_s is None else self._since_s
        if at_s - self._since_s >= SETTLE_S:
            self._seen.append(figure)
        if at_s - self._since_s >= SETTLE_S + LEARN_S:
            self.value = sum(self._seen) / len(self._seen)
            self._memory.learn(self._name, self._of, self.value)
