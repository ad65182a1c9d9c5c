"""Data types of commissioning: a check with its result, the report, and the dialogue with a person."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any

Ask = Callable[[str], Awaitable[bool]]
"""Asks a person; returns True if they confirm."""
Tell = Callable[[str], None]
"""Reports progress to a person."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check: its subject, the expected effect, whether it passed, and what was found."""

    subject: str
    effect: str
    ok: bool
    detail: str

    def __str__(self) -> str:
        return f"{'ok  ' if self.ok else 'FAIL'} {self.subject}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Report:
    """The result of commissioning; `wiring` is the hash of the wiring that it is valid for."""

    rig: str
    wiring: str
    by: str
    utc: str
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return bool(self.checks) and all(check.ok for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """Return the form of the journal and of `--json`."""
        return {
            "rig": self.rig,
            "wiring": self.wiring,
            "by": self.by,
            "utc": self.utc,
            "passed": self.passed,
            "checks": [asdict(check) for check in self.checks],
        }
