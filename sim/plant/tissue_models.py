"""Kinds of tissue that medium and time harm differently.

There is no published curve of harm for brain organoids. A strategy that is good for one assumed curve only may be bad for a
real organoid. These models span what is plausible, so that recycling and the estimate of viability can be judged by the
worst of them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class TissueKind:
    """What harms a tissue. The defaults are the reference (:mod:`sim.plant.organoid`)."""

    lactate_min_mm: float = 15.0
    """Lactate from which viability falls (mM)."""
    lactate_harm: float = 0.001
    """Share of viability lost an hour for each mM above it."""
    ammonia_min_mm: float = 0.9
    ammonia_harm: float = 0.01
    ageing_per_h: float = 0.0
    """Share of viability lost an hour for good by age alone."""
    demand: float = 1.0
    """Oxygen demand over that of the reference."""
    core_harm_per_h: float = 0.0
    """Share of viability lost an hour for good, times the necrotic share of the tissue."""

    def write(self, tissues: NDArray[np.void]) -> None:
        """Write this model into the records of some tissues (:data:`sim.plant.columns.TISSUE`)."""
        for name, value in asdict(self).items():
            tissues[name] = value


MODELS = {
    "reference": TissueKind(),
    "ageing": TissueKind(ageing_per_h=0.0004),
    "chronic": TissueKind(lactate_min_mm=5.0, lactate_harm=0.0004, ammonia_min_mm=0.3, ammonia_harm=0.012),
    "necrotic_core": TissueKind(demand=1.5, core_harm_per_h=0.0008),
}
"""`ageing`: 1 % a day [P]; activity of organoids on arrays declines over weeks (FinalSpark). `chronic`: lactate harms from
5 mM and ammonia from 0.3 mM on, a third of the reference's, as slow harm over days that short tests do not show [P].
`necrotic_core`: 1.5 times the demand, the adult cortex' 0.030 mol/(m³·s) and more (biology.md §1.1), with a core that harms
what lies around it [P]. Infection is no model of tissue: it is a fault of the medium (`contaminated`)."""
REFERENCE = MODELS["reference"]
