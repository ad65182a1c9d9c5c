"""When each quantity of the circulating medium was last assayed. It follows from the journal."""

from __future__ import annotations

from datetime import datetime

from controller.core.clock import Clock
from controller.journal.journal import Journal
from protocols.assay import Assay
from protocols.tissue.sources import Knowing, KnownBy

ASSAY = "assay"
HOUR_S = 3600.0


class MediumAssays:
    """Follows the assays of the circulating medium that are used in its estimate."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._read_to = 0
        self._taken: dict[str, datetime] = {}
        """By species the time of its newest sample."""

    def source(self, species: str, valid_h: float) -> KnownBy:
        """Return how a species is known by its assays: measured for `valid_h` after a sample, else estimated at best."""
        for row in self._journal.entries(kinds=(ASSAY,), after=self._read_to):
            self._read_to = row.seq
            assay = Assay.from_json(row.body)
            if assay.where == "loop" and assay.used:
                self._taken[assay.species] = max(assay.taken, self._taken.get(assay.species, assay.taken))
        taken = self._taken.get(species)
        if taken is None:
            return KnownBy(Knowing.ESTIMATED)
        age_h = max((self._clock.utc() - taken).total_seconds() / HOUR_S, 0.0)
        return KnownBy(Knowing.MEASURED if age_h <= valid_h else Knowing.ESTIMATED, "assay", age_h)
