"""Read a rig's records and compute one period's figures from them; nothing is written.

Works while a controller runs, and on what `choroid simulate --data` left. Ninety days are streamed, not loaded.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from controller.core.clock import Clock
from controller.figures.alarm_record import ROWS as ALARM_ROWS
from controller.figures.alarm_record import AlarmFigures, alarm_figures
from controller.figures.course import Course, course
from controller.figures.image_record import IMAGE_ROWS, ImageRecord, image_records
from controller.figures.organs import OUTPUT_EVERY_S, OrganFigures, bands_of, every_s, organs, shown_series
from controller.figures.sources import Booked, RecordedNote, Sources, Stimulation
from controller.figures.story import (
    FAULT_ROWS,
    MACHINE,
    RUN_ROWS,
    GradeRecord,
    PeriodEvents,
    PersonAction,
    RunRecord,
    ScoreRecords,
    faults,
    grades,
    person_actions,
    runs,
    scores,
)
from controller.figures.transfers import ROWS as TRANSFER_ROWS
from controller.figures.transfers import BookedTransfer, transfers
from controller.figures.tubing_record import ROWS as TUBING_ROWS
from controller.figures.tubing_record import worn
from controller.hazards.rest import rest_periods
from controller.journal.reader import JournalReader
from controller.journal.terms import Entry, JournalError
from controller.ledger.ledger import Ledger
from controller.memory.calibrations import Calibration, current
from controller.memory.history_reader import HistoryReader
from controller.rig.description import Rig
from controller.upkeep.probe_health import ROW as PROBE_ROW
from controller.vitals.score_rows import ROW as SCORE_ROW
from nerves.charge import charge_between

STIMULATION = "stimulation.db"
MAX_ACTIONS = 500
"""Maximum number of actions of people that are listed, the newest."""


HANDLED_ROWS = ("ledger.loaded", "ledger.reconciled", "ledger.level", "ledger.sampled")


@dataclass(frozen=True, slots=True)
class Handled:
    """A person's change of a vessel: filled with a lot, volume set, or level read (µL). `at` is UTC seconds."""

    at: float
    what: str
    vessel: str
    ul: float
    lot: str
    who: str
    why: str


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """What a probe said of its health at the end of a period, and how often it was not fit for use. `at` is UTC seconds."""

    point: str
    at: float
    figures: Mapping[str, float]
    faults: tuple[str, ...]
    unfit: int
    read: int

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self) | {"figures": dict(self.figures), "faults": list(self.faults)}


@dataclass(frozen=True, slots=True)
class Chain:
    """State of the journal's hash chain: its verified rows or what is wrong with it, and its head."""

    rows: int
    head: str
    problem: str

    @property
    def ok(self) -> bool:
        """Whether it is valid."""
        return not self.problem


@dataclass(frozen=True, slots=True)
class Period:
    """All records of one period. Times in UTC seconds, [begin, end)."""

    rig: Rig
    begin: float
    end: float
    organs: list[OrganFigures]
    courses: dict[str, Course]
    alarms: list[AlarmFigures]
    actions: list[PersonAction]
    actions_omitted: int
    runs: list[RunRecord]
    transfers: list[BookedTransfer]
    ledger_begin: Booked | None
    ledger_end: Booked | None
    handled: list[Handled]
    grades: list[GradeRecord]
    scores: ScoreRecords
    images: list[ImageRecord]
    faults: PeriodEvents
    calibrations: list[Calibration]
    probes: list[ProbeReport]
    chain: Chain


class Records:
    """The records in one data directory, to be closed by the caller.

    `journal` and `history` are the readers of the two files.

    Raises:
        JournalError: the journal cannot be read.
        HistoryUnreadable: the history cannot be read.
    """

    def __init__(self, data: Path) -> None:
        self._data = data
        self.journal = JournalReader(data / "journal.db")
        try:
            self.history = HistoryReader(data / "history.db")
        except BaseException:
            self.journal.close()
            raise

    def extent(self) -> tuple[float, float] | None:
        """Return the times of the first and the last record (UTC seconds); None without records."""
        ends = [self.history.extent()]
        if (rows := self.journal.extent()) is not None:
            ends.append((datetime.fromisoformat(rows[0]).timestamp(), datetime.fromisoformat(rows[1]).timestamp()))
        known = [each for each in ends if each is not None]
        return (min(first for first, _ in known), max(last for _, last in known)) if known else None

    def period(self, rig: Rig, begin: float, end: float) -> Period:
        """Read the period [begin, end) (UTC seconds)."""
        journal, history = self.journal, self.history
        first, last = _utc(begin), _utc(end)
        rest_s = rest_periods(rig)
        courses = self._courses(rig, rest_s, begin, end)
        lung = rig.organs.lung
        gas_width = history.width_for(begin, end, OUTPUT_EVERY_S if lung is None else every_s(lung.air, rest_s))
        moved = transfers(journal.between(first, last, TRANSFER_ROWS))
        moved_rows = tuple(each for each in moved if begin <= each.end < end)
        books = self.booked(rig, begin), self.booked(rig, end)
        sources = Sources(
            rig,
            begin,
            end,
            courses,
            moved_rows,
            *books,
            estimates=_notes(journal.between(first, last, ("estimate",))),
            assays=_notes(journal.entries(kinds=("assay",))),
            filter_notes=_notes(journal.between(first, last, ("note.filter",))),
            tubing=worn(rig, journal.entries(kinds=TUBING_ROWS), begin, end),
            stimulation=self._stimulation(first, last),
            raw=history.raw,
            stretches=lambda point: history.stretches(point, begin, end, gas_width),
            width=gas_width,
        )
        people = tuple(kind for kind in journal.kinds() if kind not in MACHINE)
        done = person_actions(journal.between(first, last, people)) if people else []
        handled = [_handled(row) for row in journal.between(first, last, HANDLED_ROWS)]
        return Period(
            rig=rig,
            begin=begin,
            end=end,
            organs=organs(sources),
            courses=courses,
            alarms=alarm_figures(journal.entries(kinds=ALARM_ROWS), begin, end),
            actions=done[-MAX_ACTIONS:],
            actions_omitted=max(len(done) - MAX_ACTIONS, 0),
            runs=runs(journal.entries(kinds=RUN_ROWS), begin, end),
            transfers=list(moved_rows),
            ledger_begin=books[0],
            ledger_end=books[1],
            handled=handled,
            grades=grades(journal.between(first, last, ("note.grade",))),
            scores=scores(journal.between(first, last, (SCORE_ROW,))),
            images=image_records(journal.between(first, last, IMAGE_ROWS), self._data),
            faults=faults(journal.between(first, last, FAULT_ROWS)),
            calibrations=sorted(current(self._data).values(), key=lambda each: each.expires_utc),
            probes=_probe_reports(journal.between(first, last, (PROBE_ROW,))),
            chain=self._chain(),
        )

    def booked(self, rig: Rig, at: float) -> Booked | None:
        """Return the ledger as of `at` (UTC s), computed by the ledger's own code; None without a ledger.

        Before the journal's first row it is the opening state.
        """
        opened = next(self.journal.entries(kinds=("ledger.opened",), limit=1), None)
        if opened is None:
            return None
        # Rows before `until` count, so a period from the very beginning includes the opening row.
        moment = max(datetime.fromisoformat(_utc(at)), datetime.fromisoformat(opened.utc) + timedelta(milliseconds=1))
        with closing(self.journal.until(_text(moment))) as journal:
            ledger = Ledger(rig, journal, _Moment(moment))
            volumes = ledger.volumes()
            held = {name: volume.ul for name, volume in volumes.items()}
            lots = tuple(ledger.whereabouts.batch_json(lot, held) for lot in ledger.whereabouts.batches)
            return Booked(volumes, replace(ledger.totals), lots)

    def close(self) -> None:
        """Close the files."""
        self.journal.close()
        self.history.close()

    # --- inside -----------------------------------------------------------------------------------------

    def _courses(self, rig: Rig, rest_s: Mapping[str, float], begin: float, end: float) -> dict[str, Course]:
        bands = bands_of(rig)
        found = {}
        shown = dict.fromkeys((*shown_series(rig), *self.history.series))
        for point in shown:
            if point.endswith(".delivered"):
                continue  # a running total has no mean
            period_s = every_s(point, rest_s)
            width = self.history.width_for(begin, end, period_s)
            made = course(
                point,
                self.history.series.get(point, ""),
                self.history.stretches(point, begin, end, width),
                begin=begin,
                end=end,
                width=width,
                every_s=period_s,
                band=bands.get(point),
            )
            if made is not None:
                found[point] = made
        return found

    def _stimulation(self, begin_utc: str, end_utc: str) -> Stimulation | None:
        path = self._data / STIMULATION
        if not path.is_file():
            return None
        try:
            return Stimulation(*charge_between(path, begin_utc, end_utc))
        except sqlite3.Error as error:
            raise JournalError(
                f"the stimulation ledger {path} cannot be read ({error}). Likely cause: the file is damaged."
                " Next: restore it from a backup"
            ) from None

    def _chain(self) -> Chain:
        try:
            return Chain(self.journal.verify(), self.journal.sha256(), "")
        except JournalError as error:
            return Chain(0, self.journal.sha256(), str(error))


class _Moment(Clock):
    """A clock that stands at one moment: the ledger computes evaporation up to it."""

    def __init__(self, moment: datetime) -> None:
        self._moment = moment

    def now_s(self) -> float:
        return 0.0

    def utc(self) -> datetime:
        return self._moment


def _handled(row: Entry) -> Handled:
    body = row.body
    match row.kind:
        case "ledger.loaded":
            what = "refilled with" if body.get("replaces") else "topped up with"
        case "ledger.level":
            what = "level read"
        case "ledger.sampled":
            what = "sample taken:"
        case _:
            what = "volume set to"
    at = datetime.fromisoformat(row.utc).timestamp()
    texts = (str(body.get(key, "")) for key in ("lot", "user", "reason"))
    return Handled(at, what, str(body["vessel"]), float(body["ul"]), *texts)


def _notes(rows: Iterable[Entry]) -> tuple[RecordedNote, ...]:
    return tuple(_each_note(rows))


def _each_note(rows: Iterable[Entry]) -> Iterator[RecordedNote]:
    for row in rows:
        yield RecordedNote(datetime.fromisoformat(row.utc).timestamp(), row.body)


def _utc(at: float) -> str:
    return _text(datetime.fromtimestamp(at, UTC))


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _probe_reports(rows: Iterable[Entry]) -> list[ProbeReport]:
    """Return the newest report of each probe."""
    found: dict[str, ProbeReport] = {}
    for row in rows:
        point = str(row.body["point"])
        before = found.get(point)
        faults = tuple(row.body["faults"])
        unfit, read = (0, 0) if before is None else (before.unfit, before.read)
        at = datetime.fromisoformat(row.utc).timestamp()
        found[point] = ProbeReport(point, at, row.body["figures"], faults, unfit + bool(faults), read + 1)
    return [found[point] for point in sorted(found)]
