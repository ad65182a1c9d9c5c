"""Results of verbs, as protocols get them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from protocols.interval import Interval


@dataclass(frozen=True, slots=True)
class Amount:
    """Volume that a transfer moved (µL): best value and bounds."""

    ul: float
    low: float
    high: float
    peak_kpa: float | None = None
    """Highest pressure before the sterile filter during the transfer (kPa gauge); None if the transfer does not
    pass it.
    """
    failed: str = ""
    """Why a dose of one chamber was given up, where that does not hold the run; empty if it was given."""


NOTHING = Amount(0.0, 0.0, 0.0)
"""Result of an omitted transfer."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """A settled reading: mean of several readings with bounds (sensor error included), or the reason why there is none."""

    point: str
    unit: str
    interval: Interval | None
    detail: str = ""

    @property
    def value(self) -> float | None:
        """The mean, or None without a trusted reading."""
        return None if self.interval is None else self.interval.value

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Measurement:
        """Return a recorded reading."""
        interval = None if data["interval"] is None else Interval.from_json(data["interval"])
        return cls(data["point"], data["unit"], interval, data["detail"])


@dataclass(frozen=True, slots=True)
class VesselVolume:
    """Volume and history of one vessel in the ledger, as of the end of the last step."""

    ul: float
    sd_ul: float
    passes: float
    """Mean number of returns of its medium."""
    age_s: float
    """Mean time since the bottle of its medium was thawed, made or else put in (s)."""
    insulin: float = 1.0
    """Remaining share (0..1) of the insulin of fresh medium after dilution by stocks, leakage in dialysis and decay."""


@dataclass(frozen=True, slots=True)
class ChamberFacts:
    """Bounds of a chamber (µL), and what dosing it shares with other chambers."""

    capacity_ul: float
    floor_ul: float
    limit_ul: float
    """The volume that it may hold."""
    target_ul: float
    """Its volume in the rig file."""
    plumbing: frozenset[str]


@dataclass(frozen=True, slots=True)
class Calibrated:
    """Result of a probe calibration: reading before and after, and number of calibration points that are set."""

    before: float
    after: float
    places: int


@dataclass(frozen=True, slots=True)
class Barrier:
    """State of the sterile filter, by the passes on record (kPa gauge before it)."""

    sterile: bool | None
    """Whether it is whole; None while no pass on record can tell."""
    peak_kpa: float | None
    """Highest pressure of the last pass."""
    min_kpa: float
    """Lowest pressure that a whole filter needs."""
    max_kpa: float
    """Highest pressure that it stands."""
    detail: str
    """Why it is not known to be whole; empty if it is."""
