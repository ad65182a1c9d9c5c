"""Results of at-line analysers: fetched, journalled, and entered as assays; each counts once.

A result is first journalled as it came (`analysis`), then entered, then its outcome is journalled (`analysis.settled`).
A result that was journalled and not settled, because the process ended in between, is entered at the next start; one that the
analyser sends again is known by its key. Nothing here moves anything.

A result that the analyser flags or has no value for, or that contradicts the estimate, is kept and not used; an alarm asks a
person, who can enter it with `choroid assay enter … --sure`. Its sample has left the rig all the same, and is booked.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol
from zoneinfo import ZoneInfo

from controller.core.clock import Clock
from controller.estimator.assays import AssayError, AssayRefused, AssayTwice
from controller.journal.journal import Journal
from controller.journal.terms import JournalLost, JournalUnwritten
from controller.ledger.ledger import Alarm
from controller.rig.description import Rig
from drivers.errors import DeviceError
from drivers.results import AnalyserResult, ResultSource
from protocols.assay import ANALYTES

_ID = re.compile(
    r"(?P<place>.*?)(?:[-_ ](?P<month>\d\d)(?P<day>\d\d))?[-_ ](?P<hour>[01]\d|2[0-3])(?P<minute>[0-5]\d)", re.DOTALL
)
AHEAD = timedelta(minutes=5)
"""A sample that was taken later than this after the begin of its measurement was taken on the day before."""


class SampleIdError(ValueError):
    """A sample ID whose time is none."""


@dataclass(frozen=True, slots=True)
class SampleId:
    """A place of the rig, and when the sample was taken by the clock of the laboratory; None where the ID does not say."""

    place: str
    taken: datetime | None


def parse_sample_id(text: str, places: Collection[str], short: Mapping[str, str], before: datetime) -> SampleId | None:
    """Return what a sample ID says, or None if it names no place of the rig.

    Args:
        text: The ID as entered at the analyser; upper and lower case count as the same.
        places: Names of places that are understood.
        short: Short names, with the places that they stand for.
        before: Begin of the measurement, or else the present, by the same clock: the sample was taken before.

    Raises:
        SampleIdError: It names a place, and a time that cannot be.
    """
    known = {name.lower(): name for name in places} | {name.lower(): place for name, place in short.items()}
    whole = known.get(text.strip().lower())
    if whole is not None:
        return SampleId(whole, None)
    found = _ID.fullmatch(text.strip())
    place = None if found is None else known.get(found["place"].strip().lower())
    if found is None or place is None:
        return None
    hour, minute = int(found["hour"]), int(found["minute"])
    if found["month"] is None:
        taken = before.replace(hour=hour, minute=minute, second=0, microsecond=0)
        return SampleId(place, taken if taken <= before + AHEAD else taken - timedelta(days=1))
    try:
        taken = datetime(before.year, int(found["month"]), int(found["day"]), hour, minute, tzinfo=before.tzinfo)
    except ValueError:
        raise SampleIdError(f"“{text}” has no day of the year before its time") from None
    if taken > before + timedelta(days=1):
        taken = taken.replace(year=before.year - 1)
    return SampleId(place, taken)


logger = logging.getLogger(__name__)

RECEIVED, SETTLED = "analysis", "analysis.settled"
MIN_EVERY_S = 60.0
"""An analyser is asked no more often: a result takes minutes (manual of the Cedex Bio HT)."""
MAX_RESULTS = 500
"""Maximum number of results that are taken in one poll."""
Start = Callable[[str, Coroutine[Any, Any, object]], None]


class BookSample(Protocol):
    """Books a sample whose result is not used, as :meth:`controller.estimator.assays.Assays.book`."""

    def __call__(self, volume: str, *, vessel: str, taken: str, user: str, reason: str, zone: str) -> None:
        """Book it once, or raise :class:`~controller.estimator.assays.AssayError`."""


class AssayWay(Protocol):
    """Enters an assay, as :meth:`controller.runs.runner.Runner.enter_assay`."""

    def __call__(
        self,
        analyte: str,
        value: str,
        *,
        vessel: str,
        taken: str,
        user: str,
        reason: str,
        zone: str,
        volume: str,
        method: str,
    ) -> dict[str, Any]:
        """Return its row, or raise :class:`~controller.estimator.assays.AssayError`."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What became of a result: the word for the journal, why, and the row of the assay."""

    word: str
    why: str = ""
    assay: int | None = None
    asks: bool = False
    """Whether a person is asked to look."""


class Analysers:
    """The analysers of one rig."""

    def __init__(
        self,
        rig: Rig,
        sources: Mapping[str, ResultSource],
        *,
        enter: AssayWay,
        book: BookSample,
        journal: Journal,
        clock: Clock,
        alarm: Alarm,
        start: Start,
    ) -> None:
        self._rig = rig
        self._sources = sources
        self._enter = enter
        self._book = book
        self._journal = journal
        self._clock = clock
        self._alarm = alarm
        self._start = start
        self._under_way: set[str] = set()
        self._due_s = dict.fromkeys(sources, clock.now_s())
        self._keys: set[str] = set()
        self._unsettled: list[Mapping[str, Any]] = []
        self.causes: dict[tuple[str, str], str] = {}
        """The present causes of alarms: detail by (alarm kind, analyser)."""
        if sources:
            self._restore()

    def update(self, now_s: float) -> None:
        """Ask the analysers that are due. Called at each tick; does not wait."""
        while self._unsettled:
            self._settle(self._unsettled.pop(0))
        for name, source in self._sources.items():
            if now_s >= self._due_s[name] and name not in self._under_way:
                self._under_way.add(name)
                self._due_s[name] = now_s + max(MIN_EVERY_S, self._rig.devices[name].every_s)
                self._start(f"analyser {name}", self._poll(name, source))

    # --- inside -----------------------------------------------------------------------------------------

    def _restore(self) -> None:
        """Take up what an earlier process has received."""
        settled = {row.body["key"] for row in self._journal.entries(kinds=(SETTLED,))}
        for row in self._journal.entries(kinds=(RECEIVED,)):
            self._keys.add(row.body["key"])
            if row.body["key"] not in settled:
                self._unsettled.append(row.body)

    async def _poll(self, name: str, source: ResultSource) -> None:
        try:
            for _ in range(MAX_RESULTS):
                result = await source.fetch()
                if result is None:
                    break
                if result.key not in self._keys:
                    await self._journal.durable(self._take(name, result))  # the next request ends the analyser's care
                source.keep(result)
            self.causes.pop(("analyser_silent", name), None)
        except DeviceError as error:
            self.causes["analyser_silent", name] = str(error)
        except (JournalUnwritten, JournalLost) as error:  # the journal raises its own alarm; nothing is acknowledged
            logger.warning("results of %s wait: %s", name, error)
        finally:
            self._under_way.discard(name)

    def _take(self, name: str, result: AnalyserResult) -> int:
        """Journal a new result and enter it; return the row of the result."""
        body = {
            "analyser": name,
            "key": result.key,
            "sample": result.sample,
            "analyte": result.analyte,
            "test": result.test,
            "value": result.value,
            "unit": result.unit,
            "measured": None if result.measured is None else result.measured.isoformat(),
            "flags": list(result.flags),
            "notes": list(result.notes),
            "raw": result.raw,
        }
        seq = self._journal.append(RECEIVED, body)
        self._keys.add(result.key)
        self._settle(body)
        return seq

    def _settle(self, body: Mapping[str, Any]) -> None:
        """Enter a journalled result, and journal what became of it."""
        outcome = self._entered(body) if body["analyser"] in self._sources else _Outcome("not used", "no such analyser")
        row: dict[str, Any] = {"key": body["key"], "outcome": outcome.word}
        row |= {"why": outcome.why} if outcome.why else {}
        row |= {} if outcome.assay is None else {"assay": outcome.assay}
        self._journal.append(SETTLED, row)
        if outcome.asks:
            what = body["analyte"] or f"test {body['test']}"
            self._alarm("assay_doubtful", f"{what} by {body['analyser']}", _question(body, outcome.why))

    def _entered(self, body: Mapping[str, Any]) -> _Outcome:
        terms = self._sources[body["analyser"]].terms
        try:
            zone = None if not terms.zone else ZoneInfo(terms.zone)
        except (KeyError, ValueError, OSError):  # unknown, or no name at all
            return _Outcome("not used", f"no time zone is called “{terms.zone}”", asks=True)
        now = self._clock.utc().astimezone(zone).replace(tzinfo=None)
        measured = None if body["measured"] is None else datetime.fromisoformat(body["measured"])
        try:
            places = (*self._rig.vessels, "loop", "spent")
            sample = parse_sample_id(body["sample"], places, dict(terms.places), measured or now)
        except SampleIdError as error:
            return _Outcome("not used", str(error), asks=True)
        if sample is None:
            return _Outcome("of another rig", f"sample “{body['sample']}” names no vessel", asks=not terms.shared)
        taken = sample.taken or measured
        if taken is None:
            return _Outcome("not used", "neither the sample ID nor the analyser says when it was taken", asks=True)
        taken = min(taken, now) if taken <= now + AHEAD else taken  # clocks that are apart by a little
        try:
            return self._used(body, sample.place, taken.isoformat(timespec="seconds"))
        except AssayTwice as twice:
            return _Outcome("used", "it was entered before", twice.seq)
        except AssayRefused as refused:  # it contradicts the estimate: that has raised its alarm already
            return _Outcome("not used", str(refused))
        except AssayError as error:
            return _Outcome("not used", str(error), asks=True)

    def _used(self, body: Mapping[str, Any], vessel: str, taken: str) -> _Outcome:
        """Enter a result of this rig, or only book its sample."""
        name = body["analyser"]
        terms = self._sources[name].terms
        volume = f"{terms.sample_ul!r} uL" if terms.sample_ul else ""
        sample = {"vessel": vessel, "taken": taken, "zone": terms.zone, "user": f"analyser {name}"}
        reason = f"sample {body['sample']}"
        doubtful = bool(body["flags"]) or body["value"] is None
        if doubtful or body["analyte"] not in ANALYTES:
            if volume:
                self._book(volume, reason=reason, **sample)
            return _Outcome("not used", "; ".join(body["flags"]), asks=True) if doubtful else _Outcome("recorded")
        value, method = f"{body['value']!r} {body['unit']}", self._rig.devices[name].model
        row = self._enter(body["analyte"], value, volume=volume, method=method, reason=reason, **sample)
        return _Outcome("used", assay=row["id"])


def _question(body: Mapping[str, Any], why: str) -> str:
    value = "no value" if body["value"] is None else f"{body['value']:.4g} {body['unit']}"
    return (
        f"{body['analyte'] or 'test ' + str(body['test'])} in sample “{body['sample']}” by {body['analyser']}: {value}."
        f" It is kept and not used: {why}. Likely cause: a slip in the sample ID, or a result that the analyser doubts."
        " Next: look at the analyser; measure again, or enter the value with `choroid assay enter … --sure`"
    )
