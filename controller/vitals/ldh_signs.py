"""What assays of LDH tell of the tissue: each is evidence once, and its ratio to the culture's first one.

All of it follows from the journal.
"""

from __future__ import annotations

from datetime import datetime
from math import hypot

from controller.core.clock import Clock
from controller.journal.journal import Journal
from controller.tissue.record import PLACED
from protocols.assay import ANALYTES, LDH, Assay
from protocols.interval import Interval
from protocols.tissue_loss import LdhSeen

ASSAY, LOOK = "assay", "tissue.look"
LATE_H = 24.0
"""Maximum age (h) of a sample that becomes evidence: half of the LDH of a loss is gone after two days [P]."""
VALID_H = 7 * 24.0
"""Time (h) for which the ratio is used in grades and in the care rating."""
HOUR_S = 3600.0
MIN_U_L = 0.01
"""Result (U/L) below which nothing was found: it is no scale for later ones."""


class LdhSigns:
    """Follows the assays of LDH in the circulating medium of one rig."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        """Begin after the last hour whose evidence is in the journal: an assay counts once."""
        self._journal = journal
        self._clock = clock
        last = journal.last(LOOK)
        self._told = 0 if last is None else last.seq
        """The last row that has become evidence."""
        self._read_to = 0
        self._found: list[tuple[datetime, int, Assay, str]] = []
        """The assays of the present culture by time of sampling: time, row, assay, method."""
        self.method = ""
        """How the last one that became evidence was measured: another method has another scale."""
        self._read()
        told = [each for each in self._found if each[1] <= self._told]
        if told:
            self.method = told[-1][3]

    @property
    def assayed(self) -> bool:
        """Whether LDH of this culture was assayed."""
        return bool(self._found)

    def value(self) -> Interval | None:
        """Return the newest result (U/L) if it has not been evidence yet and its sample is no older than :data:`LATE_H`."""
        self._read()
        if not self._found:
            return None
        _, seq, assay, method = self._found[-1]
        if seq <= self._told or self._age_h(assay) > LATE_H or assay.value < MIN_U_L:
            return None
        self._told, self.method = seq, method
        return Interval.around(assay.value, assay.sd, floor=0.0)

    def seen(self) -> LdhSeen:
        """Return the ratio of the newest result to the first one by the same method, and the age of its sample."""
        self._read()
        if not self._found:
            return LdhSeen(None, None)
        newest, method = self._found[-1][2], self._found[-1][3]
        scales = (assay for _, _, assay, how in self._found if how == method and assay.value >= MIN_U_L)
        first = next(scales, newest)
        age_h = self._age_h(newest)
        if first is newest or age_h > VALID_H:
            return LdhSeen(None, age_h)
        ratio = newest.value / first.value
        if newest.value < MIN_U_L:
            return LdhSeen(Interval.around(ratio, newest.sd / first.value, floor=0.0), age_h)
        rel_sd = hypot(newest.sd / newest.value, first.sd / first.value)
        return LdhSeen(Interval.around(ratio, rel_sd * ratio, floor=0.0), age_h)

    # --- inside -----------------------------------------------------------------------------------------

    def _read(self) -> None:
        for row in self._journal.entries(kinds=(ASSAY, PLACED), after=self._read_to):
            self._read_to = row.seq
            if row.kind == PLACED:
                self._found.clear()  # other tissue has its own baseline
                continue
            if row.body["analyte"] != LDH or row.body["where"] != "loop" or not row.body["used"]:
                continue
            assay = Assay.from_json(row.body)
            if not (0.0 <= assay.value <= ANALYTES[LDH].high and 0.0 <= assay.sd <= ANALYTES[LDH].high):
                continue  # none that can be entered
            self._found.append((assay.taken, row.seq, assay, str(row.body.get("method", ""))))
            self._found.sort(key=lambda each: each[:2])

    def _age_h(self, assay: Assay) -> float:
        return max((self._clock.utc() - assay.taken).total_seconds() / HOUR_S, 0.0)
