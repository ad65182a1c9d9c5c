"""Kinds of tissue that take up, grow and are harmed differently.

There is no published curve of harm for brain organoids. A strategy that is good for one assumed curve only may be bad for a
real organoid. These models span what is plausible, so that recycling and the estimate of viability can be judged by the
worst of them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from sim.plant import organoid


@dataclass(frozen=True, slots=True)
class TissueKind:
    """What a tissue takes up and what harms it. The defaults are the reference (:mod:`sim.plant.organoid`)."""

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
    glucose_uptake: float = organoid.V_GLUCOSE
    """Glucose uptake of living tissue with plenty of glucose and oxygen, mol/(m³·s)."""
    ammonia_per_glucose: float = organoid.AMMONIA_PER_GLUCOSE
    """mol ammonia (from glutamine) a mol glucose taken up."""
    growth_per_day: float = organoid.GROWTH_PER_DAY
    """Rate of growth by Gompertz."""

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

LIFE_WEEKS = (2.0, 12.0)
"""Life of neurospheres on electrode arrays (FinalSpark, S17), taken as the central 90 % of a log-normal distribution [P]."""
LIFE_LOG_SD = log(LIFE_WEEKS[1] / LIFE_WEEKS[0]) / (2.0 * 1.645)
MEDIAN_LIFE_WEEKS = (LIFE_WEEKS[0] * LIFE_WEEKS[1]) ** 0.5
FOLLOWS_PER_H = 0.01
"""Rate at which viability follows what age permits (:func:`sim.plant.organoid.viability_rate_per_hour`)."""
WELL, ENDED = 0.985, 0.5
"""Viability of tissue that is well, and at the end of its life."""


def ageing_of_life(weeks: float) -> float:
    """Return the ageing (1/h) with which tissue that nothing else harms comes to half its viability after `weeks`.

    This is a calibration on published lives (V12), not a measured rate of ageing: what ended them is not known.
    """
    hours, low, high = 168.0 * weeks, 1e-7, 0.999 * FOLLOWS_PER_H
    for _ in range(80):
        ageing = 0.5 * (low + high)
        behind = (FOLLOWS_PER_H * exp(-ageing * hours) - ageing * exp(-FOLLOWS_PER_H * hours)) / (
            FOLLOWS_PER_H - ageing
        )
        low, high = (ageing, high) if WELL * behind > ENDED else (low, ageing)
    return 0.5 * (low + high)
