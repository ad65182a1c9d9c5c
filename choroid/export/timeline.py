"""The timeline of the tissue as a table: one row for each event and culture that it concerns."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from itertools import islice
from pathlib import Path
from typing import Any

from choroid.common.failure import UserError
from choroid.common.progress import show_share
from choroid.export.events import Events, TimelineEvent, person
from choroid.export.tables import Cell, Column, Table, utc_text
from choroid.export.writers import CHUNK_ROWS, WRITERS, sha256_of
from controller.core.whole_file import whole_file
from controller.figures.cultures import CULTURE_ROWS, CultureInChamber, Occupancy
from controller.figures.records import Records
from controller.figures.transfers import seconds
from controller.journal.terms import Entry
from controller.memory.history_reader import HistoryUnreadable
from controller.rig.description import Rig
from controller.rig.loading import load_rig
from drivers.registry import MODELS, load_third_party
from nerves.charge import StimulationSession, sessions

COLUMNS = (
    Column("utc", "time", "", "when it happened; of an assay or an image, when it was taken"),
    Column("recorded_utc", "time", "", "when the record was written"),
    Column("rig", "text", "", "name of the rig"),
    Column(
        "culture", "text", "", "the culture: the chamber and the row that put it there first; empty while there is none"
    ),
    Column("chamber", "text", "", "the chamber in which the culture was"),
    Column("batch", "text", "", "batch of differentiation"),
    Column("cell_line", "text", "", "cell line"),
    Column("organoids", "integer", "organoids", "number of organoids of the culture after the event"),
    Column("begun_utc", "time", "", "when the culture came into the rig; day 0 of a comparison"),
    Column("kind", "text", "", "kind of the event"),
    Column("what", "text", "", "its subject: line, vessel, analyte, quantity, alarm, protocol"),
    Column("value", "number", "see unit", "its value"),
    Column("unit", "text", "", "unit of value, sd, low and high"),
    Column("sd", "number", "see unit", "standard deviation of value"),
    Column("low", "number", "see unit", "low end of the interval of value"),
    Column("high", "number", "see unit", "high end of the interval of value"),
    Column("text", "text", "", "reason, method or detail"),
    Column("person", "text", "", "the person whom the record names"),
    Column("run", "text", "", "the run of a protocol to which it belongs"),
    Column("source", "text", "", "the record: journal, or stimulation"),
    Column("seq", "integer", "", "number of the record's row"),
    Column("row_kind", "text", "", "kind of the record's row"),
)
PLACED_IN_FILE = "described"
STIMULATION = "stimulation.db"


def timeline_table(rig: Rig, records: Records, data: Path, begin: float, end: float) -> Table:
    """Return the timeline of [begin, end) (UTC s). Nothing is read until its rows are."""
    return Table("timeline", COLUMNS, _rows(rig, records, data, begin, end))


def export_timeline(rig: Path | str, data: Path | str, out: Path | str, *, progress: bool = False) -> dict[str, Any]:
    """Write the timeline of the tissue of one data folder as one file.

    Args:
        rig: The rig file.
        data: The data folder of `choroid run` or `choroid simulate --data`; it is only read.
        out: The file to write, `.parquet` (needs the extra `data`) or `.csv`; it must not exist.
        progress: Whether to print the progress on standard error.

    Returns:
        Name, rows, events, cultures, hash and columns of the file.

    Raises:
        UserError: The name of the file or a record cannot be used.
        MissingPackage: pyarrow is not installed.
        RigError: The rig file is not sound.
        JournalError: The journal cannot be read.
    """
    path = Path(out)
    if (suffix := path.suffix.removeprefix(".")) not in WRITERS:
        raise UserError(f"{path}: no such format. Next: name a file that ends with .parquet or .csv")
    if path.exists():
        raise UserError(f"{path} exists, and an export replaces nothing. Next: name a file that does not exist yet")
    load_third_party()
    described = load_rig(Path(rig), models=MODELS)
    rows, events, cultures = 0, set[tuple[Cell, Cell]](), set[Cell]()
    at, culture, source, seq = (_column(name) for name in ("recorded_utc", "culture", "source", "seq"))
    with ExitStack() as stack:
        try:
            records = stack.enter_context(closing(Records(Path(data))))
        except HistoryUnreadable as error:
            raise UserError(str(error)) from None
        recorded = records.extent()
        table = timeline_table(described, records, Path(data), 0.0, float("inf"))
        path.parent.mkdir(parents=True, exist_ok=True)
        part = stack.enter_context(whole_file(path))
        with closing(WRITERS[suffix](part, table)) as writer:
            left = iter(table.rows)
            while chunk := list(islice(left, CHUNK_ROWS)):
                writer.write(chunk)
                rows += len(chunk)
                events.update((row[source], row[seq]) for row in chunk if row[source])
                cultures.update(row[culture] for row in chunk if row[culture])
                if progress and recorded is not None:
                    _show(float(chunk[-1][at] or 0.0), recorded)
        if progress:
            show_share(1.0, "the records")
    return {
        "name": str(path),
        "rig": described.name,
        "rows": rows,
        "events": len(events),
        "cultures": sorted(str(each) for each in cultures),
        "sha256": sha256_of(path),
        "columns": [column.to_json() for column in COLUMNS],
    }


def _column(name: str) -> int:
    return next(n for n, column in enumerate(COLUMNS) if column.name == name)


def _show(at: float, recorded: tuple[float, float]) -> None:
    """Print how much of the records is read."""
    begin, end = recorded
    show_share(min((at - begin) / max(end - begin, 1e-3), 0.999), "the records")


def as_text(answer: dict[str, Any]) -> str:
    """Return what was written, for people."""
    named = ", ".join(answer["cultures"]) or "none"
    return f"{answer['name']}: {answer['rows']:,} rows, {answer['events']:,} events; cultures: {named}"


def _rows(rig: Rig, records: Records, data: Path, begin: float, end: float) -> Iterator[tuple[Cell, ...]]:
    extent = records.journal.extent()
    occupancy = Occupancy(rig, records.journal.entries(kinds=CULTURE_ROWS), "" if extent is None else extent[0])
    events = Events(rig)
    waiting = iter(_sessions(data / STIMULATION))
    stimulated = next(waiting, None)
    first = True
    for row in records.journal.entries():
        at = seconds(row.utc)
        if first and begin <= at < end:
            first = False
            yield from _described(rig, occupancy, at)
        while stimulated is not None and stimulated.end <= at:
            if begin <= stimulated.end < end:
                yield from _stimulation(rig, occupancy, stimulated)
            stimulated = next(waiting, None)
        when = _taken(row, at)
        concerned = occupancy.concerned(events.places(row.body), when)
        if row.kind in CULTURE_ROWS:
            occupancy.apply(row)
            known = {each.id: each for each in concerned}
            known |= {each.id: each for each in occupancy.concerned(events.places(row.body))}
            concerned = list(known.values())
        if begin <= at < end:
            for event in events.of(row):
                yield from _of_row(rig, event, row, when, at, concerned)
    while stimulated is not None:
        if begin <= stimulated.end < end:
            yield from _stimulation(rig, occupancy, stimulated)
        stimulated = next(waiting, None)


def _described(rig: Rig, occupancy: Occupancy, at: float) -> Iterator[tuple[Cell, ...]]:
    """Yield what the rig file puts into the chambers at the begin of the records."""
    for each in occupancy.cultures.values():
        event = TimelineEvent(PLACED_IN_FILE, each.chamber, float(each.organoids), "organoids", text="by the rig file")
        yield _line(rig, event, each, at, at, "", None, "rig", None, "")


def _taken(row: Entry, at: float) -> float:
    """Return when the sample or image of a row was taken, or when another row was written, `at` (UTC s)."""
    taken = row.body.get("taken_utc") or row.body.get("taken")
    return seconds(taken) if isinstance(taken, str) else at


def _sessions(path: Path) -> list[StimulationSession]:
    if not path.is_file():
        return []
    try:
        return sessions(path)
    except sqlite3.Error as error:
        raise UserError(
            f"the stimulation ledger {path} cannot be read ({error}). Likely cause: the file is damaged, or another program"
            " has locked it. Next: try again; restore it from a backup"
        ) from None


def _of_row(
    rig: Rig, event: TimelineEvent, row: Entry, when: float, at: float, cultures: Iterable[CultureInChamber]
) -> Iterator[tuple[Cell, ...]]:
    for each in tuple(cultures) or (None,):
        yield _line(rig, event, each, when, at, person(row.body), row.run, "journal", row.seq, row.kind)


def _stimulation(rig: Rig, occupancy: Occupancy, session: StimulationSession) -> Iterator[tuple[Cell, ...]]:
    """Yield a session of stimulation: its charge, and the number of its pulses."""
    told = (
        f"{session.refused} requests refused, {session.unknown} pulses of unknown fate, since {utc_text(session.begin)}"
    )
    for event in (
        TimelineEvent("stimulation", "charge", session.charge_nc, "nC", text=told),
        TimelineEvent("stimulation", "pulses", float(session.pulses), "pulses", text=told),
    ):
        for each in tuple(occupancy.concerned(())) or (None,):
            yield _line(rig, event, each, session.end, session.end, "", None, "stimulation", session.id, "session")


def _line(
    rig: Rig,
    event: TimelineEvent,
    culture: CultureInChamber | None,
    at: float,
    recorded: float,
    who: str,
    run: str | None,
    source: str,
    seq: int | None,
    row_kind: str,
) -> tuple[Cell, ...]:
    of = ("", "", "", "", None, None) if culture is None else (
        culture.id, culture.chamber, culture.batch, culture.cell_line, culture.organoids, seconds(culture.begun_utc)
    )  # fmt: skip
    told = (event.kind, event.what, event.value, event.unit, event.sd, event.low, event.high, event.text)
    return (at, recorded, rig.name, *of, *told, who, run, source, seq, row_kind)
