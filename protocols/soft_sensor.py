"""Types of estimated medium, and the chemistry that connects pH and gas with it.

Only types and closed formulas; the estimator is :mod:`protocols.media_filter`. Acid and base: pK 6.1 and 0.0307
mmol/L/mmHg (biology.md §1.3, checked there against human CSF and blood).

`bicarbonate_mm` is always the nominal value of a bottle's label: at pH 7.5, where fresh medium of 27.5 mM is under
5 % CO2. At another pH the non-bicarbonate buffer has taken or released some of it: 0.5 to
9 mM per unit, by medium.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, Self

from protocols.interval import Interval
from protocols.tissue_loss import TissueLoss

VERSION = "soft-sensor-6"

PK_CARBONIC = 6.1
CO2_SOLUBILITY_MM_MMHG = 0.0307
DRY_PRESSURE_MMHG = 760.0 - 47.0
"""Barometric pressure less water vapour at 37 °C."""
BUFFER_MM_PER_PH, BUFFER_SD_MM_PER_PH = 4.9, 3.3
"""Capacity of the buffers other than bicarbonate where a medium does not declare them: mean and standard deviation of the
five media in docs/estimation.md, from 0.7 (phosphate only) to 9.3 (15 mM HEPES)."""
DECLARED_BUFFER_REL_SD = 0.25
"""Relative standard deviation of the capacity that follows from declared buffers."""
PH_OF_FRESH = 7.5
"""pH at which fresh medium's bicarbonate is nominal: 27.5 mM at 5 % CO2."""

Where = Literal["loop", "spent"]


@dataclass(frozen=True, slots=True)
class Composition:
    """Concentrations (mM), osmolality (mOsm/kg)."""

    glucose_mm: float
    lactate_mm: float
    ammonia_mm: float
    bicarbonate_mm: float
    glutamine_mm: float
    osmolality_mosm: float


@dataclass(frozen=True, slots=True)
class MediaValues:
    """Composition of one compartment with bounds: mM, osmolality mOsm/kg."""

    lactate_mm: Interval
    ammonia_mm: Interval
    glucose_mm: Interval
    bicarbonate_mm: Interval
    osmolality_mosm: Interval

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return what :meth:`to_json` wrote."""
        return cls(**{name: Interval.from_json(part) for name, part in data.items()})

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers for the journal."""
        return {field.name: getattr(self, field.name).to_json() for field in fields(self)}


@dataclass(frozen=True, slots=True)
class MediaEstimate:
    """Estimate of the soft sensor; `titrated`: pH and pCO2 have just been used for it."""

    loop: MediaValues
    spent_values: MediaValues | None
    """None on a rig without a vessel of spent medium."""
    lactate_umol_d: Interval
    titrated: bool
    version: str = VERSION
    tissue: TissueLoss | None = None
    """What the estimate of the tissue said at that moment; None where no run asked for it."""

    @property
    def spent(self) -> MediaValues:
        """Composition of the spent medium.

        Raises:
            ValueError: The rig has no vessel of spent medium.
        """
        if self.spent_values is None:
            raise ValueError("the spent medium is not estimated: the rig has no kidney. Next: add one to the rig file")
        return self.spent_values

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return what :meth:`to_json` wrote."""
        return cls(
            MediaValues.from_json(data["loop"]),
            None if data["spent"] is None else MediaValues.from_json(data["spent"]),
            Interval.from_json(data["lactate_umol_d"]),
            data["titrated"],
            data["version"],
            None if data.get("tissue") is None else TissueLoss.from_json(data["tissue"]),
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers for the journal."""
        return {
            "loop": self.loop.to_json(),
            "spent": None if self.spent_values is None else self.spent_values.to_json(),
            "lactate_umol_d": self.lactate_umol_d.to_json(),
            "titrated": self.titrated,
            "version": self.version,
            **({} if self.tissue is None else {"tissue": self.tissue.to_json()}),
        }


def pco2_mmhg(co2_ml_min: float, total_ml_min: float) -> float:
    """Return the partial pressure of CO2 over the loop (mmHg) for a gas saturated with water at 37 °C."""
    return DRY_PRESSURE_MMHG * co2_ml_min / total_ml_min


def bicarbonate_mm(ph: float, pco2: float) -> float:
    """Return [HCO3-] in mM at `ph` under `pco2` mmHg."""
    return float(CO2_SOLUBILITY_MM_MMHG * pco2 * 10.0 ** (ph - PK_CARBONIC))
