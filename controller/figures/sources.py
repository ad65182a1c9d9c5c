"""The records of one period, read once, from which the figures are computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.core.state import Volume
from controller.figures.course import Course
from controller.figures.figure import Figure, missing
from controller.figures.transfers import BookedTransfer
from controller.figures.tubing_record import Worn
from controller.ledger.terms import Totals
from controller.memory.history_reader import Stretch
from controller.rig.description import Rig

DAY_S = 86_400.0
Raw = Callable[[str, float, float], Iterator[tuple[float, float]]]
"""Returns readings as (UTC seconds, value) for (point, begin, end)."""


@dataclass(frozen=True, slots=True)
class Booked:
    """The ledger as of one moment."""

    volumes: Mapping[str, Volume]
    totals: Totals
    batches: tuple[Mapping[str, Any], ...] = ()
    """Each lot: its label, `now_ul` by vessel, `passed_ul` by line (:meth:`Whereabouts.batch_json`)."""


@dataclass(frozen=True, slots=True)
class Stimulation:
    """Stimulation in the period by its ledger: delivered pulses, charge (nC), pulses of unknown fate, refused requests."""

    pulses: int
    charge_nc: float
    unknown: int
    refused: int


@dataclass(frozen=True, slots=True)
class RecordedNote:
    """A note or an estimate of a protocol, with its time (UTC seconds)."""

    at: float
    body: Mapping[str, Any]


def no_readings(point: str, begin: float, end: float) -> Iterator[tuple[float, float]]:
    """Return no readings: there is no history."""
    return iter(())


def no_stretches(point: str) -> Iterator[Stretch]:
    """Return no stretches: there is no history."""
    return iter(())


@dataclass(frozen=True, slots=True)
class Sources:
    """The records of one period. `begin` and `end` are UTC seconds; courses by point; None marks a missing record."""

    rig: Rig
    begin: float
    end: float
    courses: Mapping[str, Course]
    transfers: tuple[BookedTransfer, ...] = ()
    ledger_begin: Booked | None = None
    ledger_end: Booked | None = None
    estimates: tuple[RecordedNote, ...] = ()
    filter_notes: tuple[RecordedNote, ...] = ()
    assays: tuple[RecordedNote, ...] = ()
    """All assays, whenever entered; each has its time of sampling."""
    stimulation: Stimulation | None = None
    tubing: Mapping[str, Worn] = field(default_factory=dict)
    raw: Raw = field(default=no_readings)
    stretches: Callable[[str], Iterator[Stretch]] = field(default=no_stretches)
    """The stretches of a point in the whole period, `width` seconds wide."""
    width: float = 120.0

    @property
    def days(self) -> float:
        """Length of the period (d)."""
        return (self.end - self.begin) / DAY_S

    def moved(self, line: str) -> list[BookedTransfer]:
        """Return the transfers along one line."""
        return [each for each in self.transfers if each.line == line]

    def no_series(self, key: str, label: str, unit: str, point: str) -> Figure:
        """Return a figure without data, because its series is missing."""
        return missing(key, label, unit, f"history holds no readings of {point} in this period")
