"""Bound on the steps of a run that take no time: a loop of such steps would fill the journal and never come to a wait."""

from __future__ import annotations

from protocols.program import BURST

MIN_S = 100.0
"""Minimum time (s) that :data:`BURST` steps take: readings and transfers take seconds each."""


class StepBudget:
    """Counts steps, and tells when too many were made in too little time."""

    def __init__(self) -> None:
        self._count = 0
        self._since_s = 0.0

    def spend(self, now_s: float) -> str:
        """Count one step at `now_s` (s, never going back); return why no more may follow, or an empty text."""
        if self._count == 0:
            self._since_s = now_s
        self._count += 1
        if self._count <= BURST:
            return ""
        self._count = 0
        if now_s - self._since_s >= MIN_S:
            return ""
        return (
            f"{BURST} steps in {now_s - self._since_s:.0f} s. Likely cause: the protocol loops over steps that take no time."
            " Next: add a wait or a reading to its loop"
        )
