"""Hand-made records: a rig, a period of one day, and what history and journal would say of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from controller.core.state import Volume
from controller.figures.course import Band, Course, course
from controller.figures.figure import Figure
from controller.figures.organs import bands_of
from controller.figures.sources import Booked, Sources
from controller.figures.transfers import BookedTransfer
from controller.journal.terms import Entry
from controller.ledger.terms import Totals
from controller.memory.history_reader import Stretch
from controller.rig.loading import load_rig

RIGS = Path(__file__).resolve().parents[2] / "examples" / "rigs"
RIG = load_rig(RIGS / "bench.yaml")
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
BEGIN = EPOCH.timestamp()
DAY_S = 86_400.0
WIDTH = 120.0

Point = tuple[float, float]


def stretches(points: Iterable[Point], width: float = WIDTH) -> Iterator[Stretch]:
    """What history would make of (UTC seconds, value), in order."""
    held: dict[float, list[float]] = {}
    for at, value in points:
        held.setdefault(at // width * width, []).append(value)
    for begin, values in held.items():
        yield Stretch(begin, len(values), sum(values), min(values), max(values))


def course_of(point: str, points: Iterable[Point], every_s: float, band: Band | None = None) -> Course:
    made = course(
        point,
        "",
        stretches(points),
        begin=BEGIN,
        end=BEGIN + DAY_S,
        width=WIDTH,
        every_s=every_s,
        band=band,
    )
    assert made is not None
    return made


def steady(value: float, every_s: float = 60.0) -> list[Point]:
    """A whole day of one value."""
    return [(BEGIN + at * every_s, value) for at in range(int(DAY_S / every_s))]


def sources(
    readings: Mapping[str, list[Point]] | None = None,
    transfers: Iterable[BookedTransfer] = (),
    *,
    volumes: Mapping[str, Volume] | None = None,
    totals: Totals | None = None,
    **rest: Any,
) -> Sources:
    """A day of the bench rig; readings are one a minute."""
    known = dict(readings or {})
    bands = bands_of(RIG)
    made = Sources(
        RIG,
        BEGIN,
        BEGIN + DAY_S,
        {point: course_of(point, points, 60.0, bands.get(point)) for point, points in known.items()},
        tuple(transfers),
        ledger_begin=None if volumes is None else Booked(volumes, Totals()),
        ledger_end=None if volumes is None else Booked(volumes, totals or Totals()),
        raw=lambda point, begin, end: (each for each in known.get(point, []) if begin <= each[0] < end),
        stretches=lambda point: stretches(known.get(point, [])),
        width=WIDTH,
    )
    return replace(made, **rest)


def dose(
    line: str, ul: float, *, asked: float | None = None, sd: float = 10.0, at_h: float = 1.0, **rest: Any
) -> BookedTransfer:
    """A transfer that the balance saw whole, begun at hour `at_h`."""
    begin = BEGIN + at_h * 3600.0
    asked = ul if asked is None else asked
    made = BookedTransfer(line, begin, begin + 300.0, asked, ul, sd, "balance", "done", flow_ul_min=4000.0)
    return replace(made, **rest)


def by_key(figures: Iterable[Figure]) -> dict[str, Figure]:
    return {figure.key: figure for figure in figures}


def value(figure: Figure) -> float:
    """Return its value; fail with the reason if there is none."""
    assert figure.value is not None, figure.why
    return figure.value


class Rows:
    """Journal rows as they would be read, one second apart unless `at_s` says otherwise."""

    def __init__(self) -> None:
        self.rows: list[Entry] = []

    def add(self, kind: str, body: Mapping[str, Any] | None = None, *, at_s: float, run: str | None = None) -> None:
        utc = (EPOCH + timedelta(seconds=at_s)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self.rows.append(Entry(len(self.rows) + 1, at_s, utc, kind, run, body or {}, ""))
