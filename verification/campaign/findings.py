"""Violations found in a trial, each subject once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that must never happen, but did."""

    at_s: float
    invariant: str
    text: str


class Findings:
    """A list of violations without repetitions of the same subject."""

    def __init__(self) -> None:
        self.all: list[Violation] = []
        self._known: set[tuple[str, str]] = set()

    def tell(self, invariant: str, subject: str, text: str) -> None:
        """Record a violation at the present time."""
        if (invariant, subject) not in self._known:
            self._known.add((invariant, subject))
            self.all.append(Violation(round(asyncio.get_running_loop().time(), 3), invariant, text))
