"""The result of an intent."""

from __future__ import annotations

from dataclasses import dataclass

from drivers.commands import Command, Status


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an intent. `seq` is its journal row, None if nothing had to be done."""

    accepted: bool
    command: Command | None
    reasons: tuple[str, ...] = ()
    seq: int | None = None
    status: Status | None = None
    error: str | None = None

    @property
    def ok(self) -> bool:
        """Whether it was accepted, carried out and read back."""
        return self.accepted and self.error is None

    @property
    def why(self) -> str:
        """Why it is not `ok`, for people."""
        return self.error or "; ".join(self.reasons)
