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


def last_told(journal: Journal, signal: str, *, unnamed: int | None = None) -> int:
    """Return the number of the last row that is evidence of a signal in an hour of the journal; 0 if there is none.

    The hour's row names it (`told`): a result that came between the last minute of an hour and its row belongs to the next
    hour. Where it names none, all rows before it are, or `unnamed` is returned.
    """
    last = journal.last(LOOK)
    if last is None:
        return 0
    return int(last.body.get("told", {}).get(signal, last.seq if unnamed is None else unnamed))


class LdhSigns:
    """Follows the assays of LDH in the circulating medium of one rig."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        """Begin after the last assay that is evidence in the journal: each counts once."""
        self._journal = journal
        self._clock = clock
        self.told = last_told(journal, "ldh")
        """The last row that has become evidence."""
        self._read_to = 0
        self._found: list[tuple[datetime, int, Assay, str]] = []
        """The assays of the present culture by time of sampling: time, row, assay, method."""
        self._late: set[int] = set()
        """Rows whose sample was too old when they were entered: they never become evidence."""
        self.method = ""
        """How the last one that became evidence was measured: another method has another scale."""
        self._read()
        told = [each for each in self._found if each[1] <= self.told and each[1] not in self._late]
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
        if seq <= self.told or self._age_h(assay) > LATE_H or assay.value < MIN_U_L:
            return None
        self.told, self.method = seq, method
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
                self.method = ""
                continue
            if row.body["analyte"] != LDH or row.body["where"] != "loop" or not row.body["used"]:
                continue
            assay = Assay.from_json(row.body)
            if not (0.0 <= assay.value <= ANALYTES[LDH].high and 0.0 <= assay.sd <= ANALYTES[LDH].high):
                continue  # none that can be entered
            if (datetime.fromisoformat(row.utc) - assay.taken).total_seconds() > LATE_H * HOUR_S:
                self._late.add(row.seq)
            self._found.append((assay.taken, row.seq, assay, str(row.body.get("method", ""))))
            self._found.sort(key=lambda each: each[:2])

    def _age_h(self, assay: Assay) -> float:
        return max((self._clock.utc() - assay.taken).total_seconds() / HOUR_S, 0.0)
