"""Offline assays: analytes that a laboratory measures in the medium, their accuracy, and the limits of a possible
result. Pure.

Limits are what no culture medium contains, not what is good for tissue. Deviations are those of typical instruments
(enzymatic strips and analysers, freezing-point osmometers) with sampling and handling; a proposal, and `--sd`
overrules it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from protocols.soft_sensor import Where


@dataclass(frozen=True, slots=True)
class Analyte:
    """One assayed quantity. `low`, `high` and `sd` are in `unit`; `rel_sd` is a share of the value."""

    name: str
    species: str
    """Its name in :class:`protocols.soft_sensor.Composition`; empty for what is no part of the estimated medium (LDH)."""
    unit: str
    low: float
    high: float
    sd: float
    rel_sd: float
    g_per_mol: float | None = None
    """For values by mass, such as mg/dL."""

    def deviation(self, value: float) -> float:
        """Return the typical standard deviation of one assay of this value."""
        return max(self.sd, self.rel_sd * value)


ANALYTES: dict[str, Analyte] = {
    each.name: each
    for each in (
        Analyte("lactate", "lactate_mm", "mmol/L", 0.0, 60.0, 0.15, 0.04, 89.07),
        Analyte("glucose", "glucose_mm", "mmol/L", 0.0, 120.0, 0.2, 0.04, 180.16),
        Analyte("ammonia", "ammonia_mm", "mmol/L", 0.0, 20.0, 0.015, 0.06, 17.03),
        Analyte("glutamine", "glutamine_mm", "mmol/L", 0.0, 20.0, 0.05, 0.06, 146.14),
        Analyte("bicarbonate", "bicarbonate_mm", "mmol/L", 0.0, 160.0, 0.7, 0.03, 61.02),
        Analyte("osmolality", "osmolality_mosm", "mOsm/kg", 100.0, 800.0, 2.5, 0.0),
        Analyte("ldh", "", "U/L", 0.0, 100_000.0, 0.5, 0.08),
    )
}
MEDIUM_ANALYTES = {name: each for name, each in ANALYTES.items() if each.species}
"""Those of the estimated medium."""
LDH = "ldh"
"""Lactate dehydrogenase, which dying cells release: evidence of the tissue, not a part of the estimated medium."""


@dataclass(frozen=True, slots=True)
class Assay:
    """One result as journalled. `value` and `sd` are in the analyte's unit."""

    analyte: str
    where: Where
    vessel: str
    taken: datetime
    """Timezone-aware."""
    value: float
    sd: float
    used: bool
    """Whether it is used in the estimate, not only recorded."""

    @property
    def species(self) -> str:
        """Its element of :data:`protocols.media_state.SPECIES`; empty for what the estimate of the medium does not hold."""
        return ANALYTES[self.analyte].species

    def same(self, other: Assay) -> bool:
        """Return whether both are the same result, entered twice."""
        return (self.analyte, self.where, self.taken, self.value) == (
            other.analyte,
            other.where,
            other.taken,
            other.value,
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain data for the journal."""
        return {
            "analyte": self.analyte,
            "where": self.where,
            "vessel": self.vessel,
            "taken_utc": self.taken.isoformat(timespec="seconds"),
            "value": self.value,
            "sd": self.sd,
            "unit": ANALYTES[self.analyte].unit,
            "used": self.used,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return what :meth:`to_json` wrote."""
        return cls(
            data["analyte"],
            data["where"],
            data["vessel"],
            datetime.fromisoformat(data["taken_utc"]),
            data["value"],
            data["sd"],
            data["used"],
        )
