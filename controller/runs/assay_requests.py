"""The assay that a run requests and that is not entered yet: what, why, since when. An entered result answers it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from controller.core.clock import Clock
from controller.journal.journal import Journal
from controller.journal.terms import Entry
from protocols.assay import Assay
from protocols.assay_requests import ASSAY_WANTED, DAYS_AHEAD

NOTE = f"note.{ASSAY_WANTED}"
LOOK_S = 10.0
"""Time from one reading of the journal for the alarm to the next."""


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """A request that stands: the analytes of it that are not entered yet, and what entering them is expected to save."""

    run: str
    analytes: tuple[str, ...]
    where: str
    saving_ul: float
    demand_ul: float
    """Fresh medium of the next :data:`~protocols.assay_requests.DAYS_AHEAD` days without the assay."""
    since: datetime
    """Since when one of the analytes is requested without an answer."""
    text: str

    def to_json(self) -> dict[str, Any]:
        """Return plain data for people."""
        return {
            "run": self.run,
            "analytes": list(self.analytes),
            "vessel": self.where,
            "saving_ml": self.saving_ul / 1000.0,
            "demand_ml": self.demand_ul / 1000.0,
            "days": DAYS_AHEAD,
            "since_utc": self.since.isoformat(timespec="seconds"),
            "text": self.text,
        }


class AssayRequests:
    """The requests of the run that has not ended; `run` returns its id, or None."""

    def __init__(self, journal: Journal, clock: Clock, run: Callable[[], str | None]) -> None:
        self._journal = journal
        self._clock = clock
        self._run = run
        self._next_s = 0.0
        self._causes: dict[tuple[str, str], str] = {}

    def causes(self, now_s: float) -> dict[tuple[str, str], str]:
        """Return the cause of the alarm `assay_wanted`, read from the journal every :data:`LOOK_S`."""
        if now_s >= self._next_s:
            self._next_s = now_s + LOOK_S
            found = self.open()
            self._causes = {} if found is None else {(ASSAY_WANTED, found.where): found.text}
        return self._causes

    def open(self) -> OpenRequest | None:
        """Return the request that stands; None if nothing is requested, or all of it is answered or out of date.

        A newer request of the run replaces the one before. A result answers it when it is used and its sample was taken
        after the request. A request is out of date when the days are over for which its saving was expected.
        """
        run = self._run()
        if run is None:
            return None
        asked = list(self._journal.entries(run=run, kinds=(NOTE,), newest_first=True))
        if not asked or self._clock.utc() - _when(asked[0]) > timedelta(days=DAYS_AHEAD):
            return None
        results = [Assay.from_json(row.body) for row in self._journal.entries(kinds=("assay",), after=asked[-1].seq)]
        newest = asked[0]
        left = _unanswered(newest, results)
        if not left:
            return None
        since = newest
        for earlier in asked[1:]:
            if not set(left) & set(_unanswered(earlier, results)):
                break
            since = earlier
        body = newest.body
        return OpenRequest(
            run, left, str(body["where"]), body["saving_ul"], body["demand_ul"], _when(since), str(body["text"])
        )


def _when(entry: Entry) -> datetime:
    """Return the time of a row, to the second, as times of sampling are."""
    return datetime.fromisoformat(entry.utc).replace(microsecond=0)


def _unanswered(request: Entry, results: Iterable[Assay]) -> tuple[str, ...]:
    """Return the analytes of a request for which no result of a later sample is used."""
    since, where = _when(request), request.body["where"]
    known = {each.analyte for each in results if each.used and each.where == where and each.taken >= since}
    return tuple(str(name) for name in request.body["analytes"] if name not in known)
