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
from controller.memory.history_reader import HistoryUnreadable

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class EnvironmentSeries:
    """Good readings of one point: times of the recording (s), values, unit."""

    point: str
    unit: str
    times_s: Floats
    values: Floats


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
    """What the rig's records have of the time of a recording; `problem` says why there is nothing."""

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
            return Environment(
                list(_series(records, begin, end, at_s)),
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
            )
    except (JournalError, HistoryUnreadable) as error:
        return Environment(problem=str(error))


def _series(records: Records, begin: float, end: float, at_s: Callable[[float], float]) -> Iterator[EnvironmentSeries]:
    """Yield each point that was read in the time."""
    for point, unit in records.history.series.items():
        rows = list(records.history.raw(point, begin, end))
        if rows:
            times = np.array([at_s(at) for at, _ in rows])
            yield EnvironmentSeries(point, unit, times, np.array([value for _, value in rows]))
