"""The parameters of a plant that differ between laboratories: its tissue, its water loss, its undeclared buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from sim.plant.chemistry import BUFFER_MM_PER_PH
from sim.plant.tissue_models import MODELS, REFERENCE, TissueKind

MAX_OF_TISSUE = {
    "lactate_min_mm": 1000.0, "lactate_harm": 1.0, "ammonia_min_mm": 1000.0, "ammonia_harm": 10.0, "ageing_per_h": 1.0,
    "demand": 100.0, "core_harm_per_h": 10.0, "glucose_uptake": 1.0, "ammonia_per_glucose": 10.0, "growth_per_day": 10.0,
    "min_oxygen_mm": 1.0, "anoxia_harm": 10.0, "regrowth": 1.0, "max_harmless_c": 60.0, "heat_harm": 10.0,
    "min_harmless_c": 60.0, "cold_harm": 10.0, "min_ph": 14.0, "max_ph": 14.0, "ph_harm": 100.0, "min_glucose_mm": 100.0,
    "hunger_harm": 10.0, "lactate_sensitive": 1.0, "synergy_harm": 1.0, "min_osmolality": 2000.0, "max_osmolality": 2000.0,
    "osmolality_harm": 1.0, "delay_h": 1000.0, "trophic_share": 1.0, "min_insulin": 1.0, "insulin_harm": 10.0,
}  # fmt: skip
MAX_OF_PLANT = {"water_loss": 100.0, "buffer_mm_per_ph": 200.0}
"""Above these a value is a slip, such as another unit; the plant would take it and answer nonsense."""


@dataclass(frozen=True, slots=True)
class PlantParameters:
    """Parameters of one plant. The defaults are those of the published figures."""

    tissue: TissueKind = REFERENCE
    water_loss: float = 1.0
    """Water that tubes and open surfaces lose, over what :mod:`sim.plant.evaporation` and `surfaces` give."""
    buffer_mm_per_ph: float = BUFFER_MM_PER_PH
    """Capacity of the buffers other than bicarbonate of media that declare none (mmol/L per pH)."""

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers, as :meth:`from_json` takes them."""
        return {
            "tissue": asdict(self.tissue),
            "water_loss": self.water_loss,
            "buffer_mm_per_ph": self.buffer_mm_per_ph,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the parameters of a mapping; what it leaves out keeps its default.

        Raises:
            ValueError: A name is unknown, or a value is no number from 0 to its maximum.
        """
        told = dict(data)
        tissue = told.pop("tissue", {})
        if not isinstance(tissue, Mapping):
            raise ValueError("tissue is no mapping of names to numbers")
        return cls(TissueKind(**_numbers(tissue, MAX_OF_TISSUE, "tissue.")), **_numbers(told, MAX_OF_PLANT, ""))


def _numbers(data: Mapping[str, Any], known: Mapping[str, float], prefix: str) -> dict[str, float]:
    for name, value in data.items():
        if name not in known:
            raise ValueError(f"{prefix}{name} is no parameter of a plant; there are {', '.join(sorted(known))}")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value <= known[name]:
            raise ValueError(f"{prefix}{name} is {value!r}; it must be a number from 0 to {known[name]:g}")
    return {name: float(value) for name, value in data.items()}


KINDS = {name: PlantParameters(tissue) for name, tissue in MODELS.items()}
"""A plant with each kind of tissue, and everything else as published."""
PUBLISHED = KINDS["reference"]
