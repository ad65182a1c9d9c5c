"""The tables of an export: columns with types, units and meanings, and their rows, read one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from controller.figures.records import Records
from controller.figures.transfers import ROWS as TRANSFER_ROWS
from controller.figures.transfers import transfers
from controller.journal.terms import encode
from controller.rig.description import Rig

ColumnType = Literal["time", "number", "integer", "text"]
Cell = float | int | str | None


@dataclass(frozen=True, slots=True)
class Column:
    """One column. A `time` is UTC, in seconds since 1970 inside, ISO 8601 in CSV and a timestamp in Parquet."""

    name: str
    type: ColumnType
    unit: str
    meaning: str

    def to_json(self) -> dict[str, str]:
        """Return it for the manifest."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Table:
    """One table; `rows` can be read once."""

    name: str
    columns: tuple[Column, ...]
    rows: Iterable[tuple[Cell, ...]]


HISTORY = (
    Column("utc", "time", "", "when the reading was taken"),
    Column("point", "text", "", "name of the series"),
    Column("value", "number", "see unit", "the reading"),
    Column("unit", "text", "", "unit of value"),
    Column("quality", "text", "", "good, or suspect for a reading that nothing acted on"),
)
JOURNAL = (
    Column("seq", "integer", "", "number of the row"),
    Column("at_s", "number", "s", "monotonic time, comparable within one run of the controller"),
    Column("utc", "text", "", "when the row was written, ISO 8601"),
    Column("kind", "text", "", "kind of the row"),
    Column("run", "text", "", "the run that it belongs to; empty for none"),
    Column("body", "text", "", "the row as canonical JSON; each quantity names its unit"),
    Column(
        "sha256", "text", "", "hash of the row before and of this row (docs/python.md tells how to check the chain)"
    ),
)
TRANSFERS = (
    Column("line", "text", "", "the line along which medium moved"),
    Column("begin_utc", "time", "", "begin of the transfer; empty where no step began it"),
    Column("end_utc", "time", "", "end of the transfer"),
    Column("asked_ul", "number", "uL", "requested volume"),
    Column("moved_ul", "number", "uL", "volume that was booked"),
    Column("sd_ul", "number", "uL", "standard deviation of moved_ul"),
    Column("source", "text", "", "what moved_ul rests on: the pump, or the balance"),
    Column("ended", "text", "", "how the transfer ended"),
    Column("flow_ul_min", "number", "uL/min", "commanded flow"),
    Column("peak_kpa", "number", "kPa", "highest pressure meanwhile"),
)
VESSELS = (
    Column("utc", "time", "", "begin or end of the period"),
    Column("vessel", "text", "", "name of the vessel"),
    Column("volume_ul", "number", "uL", "volume by the ledger"),
    Column("sd_ul", "number", "uL", "its standard deviation"),
)


def tables(rig: Rig, records: Records, begin: float, end: float) -> list[Table]:
    """Return the tables of [begin, end) (UTC s). Nothing is read until their rows are."""
    return [
        Table("history", HISTORY, records.history.readings(begin, end)),
        Table("journal", JOURNAL, _journal(records, begin, end)),
        Table("ledger_transfers", TRANSFERS, _transfers(records, begin, end)),
        Table("ledger_vessels", VESSELS, _vessels(rig, records, begin, end)),
    ]


def utc_text(at: float) -> str:
    """Return UTC seconds as ISO 8601, rounded to the millisecond."""
    return (
        datetime.fromtimestamp(round(at * 1000) / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )


def _journal(records: Records, begin: float, end: float) -> Iterator[tuple[Cell, ...]]:
    first, last = utc_text(begin), utc_text(end)
    for entry in records.journal.entries():
        if first <= entry.utc < last:
            body: Any = entry.body
            yield entry.seq, entry.at_s, entry.utc, entry.kind, entry.run, encode(body), entry.hash


def _transfers(records: Records, begin: float, end: float) -> Iterator[tuple[Cell, ...]]:
    for each in transfers(records.journal.between(utc_text(begin), utc_text(end), TRANSFER_ROWS)):
        if begin <= each.end < end:
            yield (
                each.line,
                each.begin,
                each.end,
                each.asked_ul,
                each.ul,
                each.sd_ul,
                each.source,
                each.ended,
                each.flow_ul_min,
                each.peak_kpa,
            )


def _vessels(rig: Rig, records: Records, begin: float, end: float) -> Iterator[tuple[Cell, ...]]:
    for at in (begin, end):
        booked = records.booked(rig, at)
        for name, volume in () if booked is None else booked.volumes.items():
            yield at, name, volume.ul, volume.sd_ul
