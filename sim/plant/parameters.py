"""The parameters of a plant that differ between laboratories: its tissue, its water loss, its undeclared buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from math import isfinite
from typing import Any, Self

from sim.plant.chemistry import BUFFER_MM_PER_PH
from sim.plant.tissue_models import MODELS, REFERENCE, TissueKind


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
            ValueError: A name is unknown, or a value is no finite number of 0 or more.
        """
        told = dict(data)
        tissue = told.pop("tissue", {})
        if not isinstance(tissue, Mapping):
            raise ValueError("tissue is no mapping of names to numbers")
        kind = TissueKind(**_numbers(tissue, {each.name for each in fields(TissueKind)}, "tissue."))
        return cls(kind, **_numbers(told, {"water_loss", "buffer_mm_per_ph"}, ""))


def _numbers(data: Mapping[str, Any], known: set[str], prefix: str) -> dict[str, float]:
    for name, value in data.items():
        if name not in known:
            raise ValueError(f"{prefix}{name} is no parameter of a plant; there are {', '.join(sorted(known))}")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value) or value < 0.0:
            raise ValueError(f"{prefix}{name} is {value!r}; it must be a finite number of 0 or more")
    return {name: float(value) for name, value in data.items()}


KINDS = {name: PlantParameters(tissue) for name, tissue in MODELS.items()}
"""A plant with each kind of tissue, and everything else as published."""
PUBLISHED = KINDS["reference"]
