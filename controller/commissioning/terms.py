"""The terms of commissioning: a check and what it found, the report, and how a person is asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any

Ask = Callable[[str], Awaitable[bool]]
"""Asks a person; True when they confirm."""
Tell = Callable[[str], None]
"""Tells a person how far the procedure is."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check: of what, by what effect, whether it passed, and what was found."""

    subject: str
    effect: str
    ok: bool
    detail: str

    def __str__(self) -> str:
        return f"{'ok  ' if self.ok else 'FAIL'} {self.subject}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Report:
    """What commissioning found; `wiring` is the hash of what it is valid for."""

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
        """Return it as the journal and `--json` have it."""
        return {
            "rig": self.rig,
            "wiring": self.wiring,
            "by": self.by,
            "utc": self.utc,
            "passed": self.passed,
            "checks": [asdict(check) for check in self.checks],
        }
