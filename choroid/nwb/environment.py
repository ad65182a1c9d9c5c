"""The environment of a recording: the rig's readings and transfers of medium, at times of the recording."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from controller.figures.records import Records
from controller.figures.transfers import ROWS, transfers
from controller.journal.terms import JournalError
from controller.memory.history_reader import HistoryReader, HistoryUnreadable

Floats = NDArray[np.float64]
HISTORY_FILE = "history.db"
HISTORY_LAG_S = 10.0
"""The last reading of the slowest usual probe may lie this long (s) before the end of a recording that is covered."""
HELD_S = 600.0
"""The last reading before a recording counts as its state at the begin when it is not older than this (s)."""


@dataclass(frozen=True, slots=True)
class EnvironmentSeries:
    """Good readings of one point: times of the recording (s), values, unit."""

    point: str
    unit: str
    times_s: Floats
    values: Floats
    held_s: float = 0.0
    """How long before the recording (s) the first of them was read; it stands at 0 s."""


@dataclass(frozen=True, slots=True)
class MediumTransfer:
    """A booked transfer of medium. Times of the recording (s)."""

    line: str
    begin_s: float
    end_s: float
    ul: float
    sd_ul: float
    source: str


@dataclass(frozen=True, slots=True)
class Environment:
    """What the rig's records have of the time of a recording; `problem` says what is missing and why."""

    series: list[EnvironmentSeries] = field(default_factory=list)
    transfers: list[MediumTransfer] = field(default_factory=list)
    problem: str = ""


def environment(
    data: Path, begin: float, end: float, at_s: Callable[[float], float], text: Callable[[float], str]
) -> Environment:
    """Read a rig's records.

    Args:
        data: The data folder; it is only read.
        begin: Begin of the recording, UTC in seconds since 1970.
        end: Its end.
        at_s: Turns UTC into time of the recording.
        text: Turns UTC into the form of the journal.
    """
    try:
        with closing(Records(data)) as records:
            series = list(_series(records, begin, end, at_s))
            return Environment(
                series,
                [
                    MediumTransfer(
                        each.line,
                        at_s(each.begin if each.begin is not None else each.end),
                        at_s(each.end),
                        each.ul,
                        each.sd_ul,
                        each.source,
                    )
                    for each in transfers(records.journal.between(text(begin), text(end), ROWS))
                ],
                _missing(records, sum(len(each.values) > bool(each.held_s) for each in series), end, text),
            )
    except (JournalError, HistoryUnreadable) as error:
        return Environment(problem=str(error))


def _missing(records: Records, series: int, end: float, text: Callable[[float], str]) -> str:
    """Return what the history lacks of the time up to `end`; empty when it goes on to there."""
    extent = records.history.extent()
    last = extent[1] if extent else None
    if last is not None and last >= end - HISTORY_LAG_S and series:
        return ""
    reached = "is empty" if last is None else f"ends at {text(last)}"
    return (
        f"the history {reached}, the recording at {text(end)}: {series} series of the rig reach into it. Likely cause: the"
        " controller writes its readings once a minute, or was stopped, or could not write. Next: export again a minute after"
        " the recording"
    )


def recorded_until(data: Path) -> float | None:
    """Return when the newest reading in the history was taken (UTC s since 1970); None without one."""
    try:
        with closing(HistoryReader(data / HISTORY_FILE)) as history:
            extent = history.extent()
    except HistoryUnreadable:
        return None
    return None if extent is None else extent[1]


def _series(records: Records, begin: float, end: float, at_s: Callable[[float], float]) -> Iterator[EnvironmentSeries]:
    """Yield each point that was read in the time, or shortly before: a short recording may lie between two readings."""
    for point, unit in records.history.series.items():
        before = list(records.history.raw(point, begin - HELD_S, begin))[-1:]
        rows = before + list(records.history.raw(point, begin, end))
        if rows:
            times = np.array([at_s(max(at, begin)) for at, _ in rows])
            held_s = begin - before[0][0] if before else 0.0
            yield EnvironmentSeries(point, unit, times, np.array([value for _, value in rows]), held_s)
