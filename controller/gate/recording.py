"""The gate's journal rows, and the wait for the disk before a dose.

Rows are queued at once and never delay life support (D2). A dose is given only after its row is durable.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from controller.gate.readback import command_text
from controller.journal.journal import Journal
from controller.safety.terms import Intent, Verdict

logger = logging.getLogger(__name__)


class Recorder:
    """Writes rows. `alarm(kind, source, detail)` is called if the journal takes none."""

    def __init__(self, journal: Journal, alarm: Callable[[str, str, str], None]) -> None:
        self._journal = journal
        self._alarm = alarm

    def write(self, kind: str, body: Mapping[str, Any]) -> int | None:
        """Queue one row. Return its number, or None after an alarm if the journal does not take it."""
        try:
            return self._journal.append(kind, body)
        except Exception as error:  # sqlite3, the operating system, a closed file: all have the same consequence
            self._report(error)
            return None

    def on_disk(self, seq: int | None) -> bool:
        """Return whether a row is durable."""
        return seq is not None and self._journal.on_disk(seq)

    async def refusal(self, seq: int | None) -> str | None:
        """Wait until row `seq` is durable. Return why it cannot be, or None."""
        if seq is None:
            return "no dose is given without its row in the journal"
        try:
            await self._journal.durable(seq)
        except Exception as error:
            self._report(error)
            return f"no dose is given before its row in the journal is on the disk: {error}"
        return None

    def _report(self, error: Exception) -> None:
        logger.error("the journal cannot be written: %r", error)
        self._alarm("journal_unwritten", "journal", f"{type(error).__name__}: {error}")


def act_row(intent: Intent, verdict: Verdict) -> dict[str, Any]:
    """Return the row of an intent with the kernel's decision."""
    row: dict[str, Any] = {
        "actuator": intent.actuator,
        "command": command_text(intent.command),
        "by": intent.requester,
        "why": intent.reason,
    }
    if intent.positions:
        row["positions"] = dict(intent.positions)
    if verdict.command is not None and verdict.command != intent.command:
        row["allowed"] = command_text(verdict.command)
    if verdict.reasons:
        row["reasons"] = list(verdict.reasons)
        row["limiting"] = verdict.limiting
    return row
