"""One hour of what is known of a tissue: what it lived in, and what it showed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from protocols.interval import Interval

EXPOSURES = (
    "temperature_c",
    "oxygen_pct",
    "flow_share",
    "ph",
    "glucose_mm",
    "lactate_mm",
    "ammonia_mm",
    "osmolality_mosm",
)
EVIDENCE = ("oxygen_uptake", "lactate_umol_d", "firing_hz", "ldh", "volume")
"""None has an absolute scale: each is compared with its own earlier values."""
CAN_BE = {
    "temperature_c": (-20.0, 100.0),
    "oxygen_pct": (-50.0, 1000.0),
    "flow_share": (0.0, 1000.0),
    "ph": (0.0, 14.0),
    **dict.fromkeys(("glucose_mm", "lactate_mm", "ammonia_mm"), (0.0, 1000.0)),
    "osmolality_mosm": (0.0, 10_000.0),
    **dict.fromkeys(EVIDENCE, (-1e9, 1e9)),
}
"""Values beyond these no culture has: a look takes them for not measured."""
TISSUE = "tissue"
"""In `rescaled`: other tissue was put in, and the estimate begins again."""


@dataclass(frozen=True, slots=True)
class TissueLook:
    """Holds the known inputs of one hour, as means over it; None is missing.

    What the tissue lived in: temperature (°C), oxygen of the medium (% of air saturation, where `oxygen_at_tissue` tells
    whether that is at the tissue or upstream of it), flow over the usual flow, pH, glucose, lactate, ammonia (mM),
    osmolality (mOsm/kg).

    What it showed: oxygen uptake (any constant unit), lactate made (µmol/day), firing rate (Hz), LDH and volume (any
    constant unit). Each is compared with the tissue's own earlier values.
    """

    temperature_c: Interval | None = None
    oxygen_pct: Interval | None = None
    oxygen_at_tissue: bool = False
    flow_share: Interval | None = None
    ph: Interval | None = None
    glucose_mm: Interval | None = None
    lactate_mm: Interval | None = None
    ammonia_mm: Interval | None = None
    osmolality_mosm: Interval | None = None
    sterility_failed: bool = False
    oxygen_uptake: Interval | None = None
    lactate_umol_d: Interval | None = None
    firing_hz: Interval | None = None
    ldh: Interval | None = None
    volume: Interval | None = None
    rescaled: tuple[str, ...] = ()
    """Signals whose scale is new from this hour on: another instrument, another calibration, other tissue."""
    renewed: float = 0.0
    """Share of the circulating medium that was replaced in this hour by medium from a bottle (0..1)."""

    def __post_init__(self) -> None:
        for name, (low, high) in CAN_BE.items():
            seen = getattr(self, name)
            if seen is not None and not (low <= seen.value <= high and seen.sd <= high - low):
                object.__setattr__(self, name, None)

    def to_json(self) -> dict[str, Any]:
        """Return plain data without what is missing: a journalled estimate can be computed again."""
        data: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, Interval):
                data[each.name] = value.to_json()
            elif value:
                data[each.name] = list(value) if isinstance(value, tuple) else value
        return data

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Return what :meth:`to_json` wrote."""
        values: dict[str, Any] = {
            name: Interval.from_json(value) if isinstance(value, Mapping) else value
            for name, value in (data | {"rescaled": tuple(data.get("rescaled", ()))}).items()
        }
        return cls(**values)


@dataclass(frozen=True, slots=True)
class LastKnown:
    """Holds the last known conditions of the tissue, for hours in which nothing measures them."""

    readings: Mapping[str, tuple[Interval, float]] = field(default_factory=dict)
    """By exposure the last reading and its age (h)."""
    oxygen_at_tissue: bool = False

    def after(self, look: TissueLook, hours: float) -> LastKnown:
        """Return what is last known after a look of this many hours."""
        found = {name: (seen, age_h + hours) for name, (seen, age_h) in self.readings.items()}
        for name in EXPOSURES:
            seen = getattr(look, name)
            if seen is not None:
                found[name] = (seen, 0.0)
        at_tissue = self.oxygen_at_tissue if look.oxygen_pct is None else look.oxygen_at_tissue
        return LastKnown(found, at_tissue)


NOTHING_KNOWN = LastKnown()
