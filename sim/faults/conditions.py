"""Faults on a condition: a point's reading, or a step of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sim.faults.schedule import Fault
from sim.lab import SimulatedLab


@dataclass(frozen=True, slots=True)
class PointBeyond:
    """The output of a probe, errors and faults included, is above or below a bound (in its point's unit)."""

    point: str
    above: float = -math.inf
    below: float = math.inf

    def holds(self, lab: SimulatedLab) -> bool:
        """Return whether the condition holds now."""
        return self.above < lab.plant.sense(self.point) < self.below


@dataclass(frozen=True, slots=True)
class StepBegun:
    """A run of the protocol `run` has begun a step: `verb` as in the journal's rows."""

    run: str
    verb: str

    def matches(self, kind: str, body: Mapping[str, Any], protocol: str | None) -> bool:
        """Return whether this journal row is the one to wait for."""
        return kind == "step" and body.get("verb") == self.verb and protocol == self.run


@dataclass(slots=True)
class Conditional:
    """A fault and its condition; with `again` it occurs whenever the condition becomes true again."""

    fault: Fault
    when: PointBeyond | StepBegun
    again: bool = False
    _was: bool = field(default=False, init=False)
    _begun: bool = field(default=False, init=False)

    def begin(self) -> None:
        """Begin to watch; earlier events do not count."""
        self._was = self._begun = False

    def met(self, lab: SimulatedLab) -> bool:
        """Return whether the condition has become true since the last call."""
        if isinstance(self.when, StepBegun):
            begun, self._begun = self._begun, False
            return begun
        was, self._was = self._was, self.when.holds(lab)
        return self._was and not was

    def on_row(self, kind: str, body: Mapping[str, Any], protocol: str | None) -> None:
        """Take note of a journal row of a run of `protocol`."""
        if isinstance(self.when, StepBegun) and self.when.matches(kind, body, protocol):
            self._begun = True

    def fault_at(self, at_s: float) -> Fault:
        """Return the fault with its time (s since the start)."""
        return replace(self.fault, at_s=round(at_s, 6))
