"""Write to the stimulation ledger from the real-time thread; while it cannot be written, nothing may be stimulated."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

from controller.core.disk import remedy
from nerves.ledger import Fate, StimulationLedger


class LedgerRecorder:
    """The ledger, and why it cannot be written."""

    def __init__(self, ledger: StimulationLedger) -> None:
        self._ledger = ledger
        self._unsure: list[Fate] = []
        """Last words that no commit has made sure yet; a ledger that was in trouble gets them when it can be written."""
        self.trouble = ""
        """Why no stimulation is possible; empty when the ledger can be written."""

    def write(self, write: Callable[[], None]) -> bool:
        """Write to the ledger; return whether it succeeded."""
        if self.trouble:
            return False
        try:
            write()
        except sqlite3.Error as error:
            self._in_trouble(error)
            return False
        return True

    def last_words(self, fates: Sequence[Fate]) -> None:
        """Write what became of pulses; again later if the ledger cannot be written now."""
        self._unsure += fates
        self.write(lambda: self._ledger.fates(fates))

    def commit(self) -> bool:
        """Commit what was written; return whether it succeeded."""
        if self.trouble:
            return False
        try:
            self._ledger.commit()
        except sqlite3.Error as error:
            self._in_trouble(error)
            return False
        self._unsure.clear()
        return True

    def forget(self, never: set[int]) -> None:
        """Forget the last words of pulses that are not in the ledger."""
        self._unsure = [fate for fate in self._unsure if fate[0] not in never]

    def try_again(self) -> None:
        """Try a ledger that was in trouble."""
        if self.trouble:
            self.trouble = ""
            self.write(lambda: self._ledger.fates(self._unsure))
            self.commit()

    def _in_trouble(self, error: sqlite3.Error) -> None:
        self.trouble = (
            f"the stimulation ledger {self._ledger.path.name} cannot be written ({error});"
            f" stimulation is refused until it can be written again. {remedy(error, self._ledger.path.parent)}"
        )
        self._ledger.abandon()
