"""The assays that a run requests and that are not entered yet: what, why, since when. An entered result answers them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from controller.core.clock import Clock
from controller.journal.journal import Journal
from controller.journal.terms import Entry
from protocols.assay import Assay
from protocols.assay_requests import ASSAY_WANTED, DAYS_AHEAD, MEDIUM, TISSUE

NOTE = f"note.{ASSAY_WANTED}"
SOURCES = {TISSUE: "tissue"}
"""Source of the alarm by purpose; of other purposes it is the vessel."""
LOOK_S = 10.0
"""Time from one reading of the journal for the alarm to the next."""


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """A request that stands: the analytes of it that are not entered yet, and what they are for."""

    run: str
    analytes: tuple[str, ...]
    where: str
    purpose: str
    """`medium` or `tissue` (:mod:`protocols.assay_requests`)."""
    saving_ul: float | None
    """Fresh medium that entering them is expected to save; None where they tell of the tissue."""
    demand_ul: float | None
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
            "purpose": self.purpose,
            "saving_ml": None if self.saving_ul is None else self.saving_ul / 1000.0,
            "demand_ml": None if self.demand_ul is None else self.demand_ul / 1000.0,
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
            self._causes = {(ASSAY_WANTED, SOURCES.get(each.purpose, each.where)): each.text for each in self.open()}
        return self._causes

    def open(self) -> tuple[OpenRequest, ...]:
        """Return the requests that stand: at most one of each purpose, that of the tissue first.

        A newer request of the run replaces the one before with the same purpose. A result answers it when it is used and its
        sample was taken after the request. A request is out of date when the days are over for which it was made.
        """
        run = self._run()
        if run is None:
            return ()
        asked = list(self._journal.entries(run=run, kinds=(NOTE,), newest_first=True))
        if not asked:
            return ()
        results = [Assay.from_json(row.body) for row in self._journal.entries(kinds=("assay",), after=asked[-1].seq)]
        found = (
            self._open([row for row in asked if row.body.get("purpose", MEDIUM) == purpose], results, run)
            for purpose in (TISSUE, MEDIUM)
        )
        return tuple(each for each in found if each is not None)

    def _open(self, asked: Sequence[Entry], results: Sequence[Assay], run: str) -> OpenRequest | None:
        """Return the newest of some requests (newest first), with the time of the oldest that it repeats."""
        if not asked or self._clock.utc() - _when(asked[0]) > timedelta(days=DAYS_AHEAD):
            return None
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
            run,
            left,
            str(body["where"]),
            str(body.get("purpose", MEDIUM)),
            body.get("saving_ul"),
            body.get("demand_ul"),
            _when(since),
            str(body["text"]),
        )


def _when(entry: Entry) -> datetime:
    """Return the time of a row, to the second, as times of sampling are."""
    return datetime.fromisoformat(entry.utc).replace(microsecond=0)


def _unanswered(request: Entry, results: Iterable[Assay]) -> tuple[str, ...]:
    """Return the analytes of a request for which no result of a later sample is used."""
    since, where = _when(request), request.body["where"]
    known = {each.analyte for each in results if each.used and each.where == where and each.taken >= since}
    return tuple(str(name) for name in request.body["analytes"] if name not in known)
