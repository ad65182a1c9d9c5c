"""Journal and ledger of a rig in virtual time, without a controller."""

from __future__ import annotations

from pathlib import Path

from controller.core.clock import Clock
from controller.journal.journal import Journal
from controller.ledger.ledger import Ledger
from controller.rig.description import Rig
from tests.execution.world import EPOCH


class LedgerBench:
    """A rig's journal and ledger; `alarms` has what the ledger told people."""

    def __init__(self, rig: Rig, folder: Path) -> None:
        self.rig = rig
        self.clock = Clock(follow_system=False, epoch=EPOCH)
        self.journal = Journal(folder / "journal.db", self.clock, durable=False)
        self.alarms: list[tuple[str, str, str]] = []
        self.ledger = self.opened()

    def opened(self) -> Ledger:
        """Return the ledger as a new process has it."""
        return Ledger(self.rig, self.journal, self.clock, alarm=lambda *alarm: self.alarms.append(alarm))
