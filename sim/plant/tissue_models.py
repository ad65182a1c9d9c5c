"""Kinds of tissue that take up, grow and are harmed differently.

There is no published curve of harm for brain organoids. A strategy that is good for one assumed curve only may be bad for a
real organoid. These models span what is plausible, so that recycling and the estimate of viability can be judged by the
worst of them.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    min_oxygen_mm: float = organoid.DEATH_OXYGEN_MM
    """Oxygen within the tissue below which cells die (mM)."""
    anoxia_harm: float = organoid.ANOXIA_HARM_PER_H
    """Share of the cells that die an hour without oxygen."""
    regrowth: float = organoid.REGROWTH_PER_H
    """Rate at which living cells make up for dead ones (1/h)."""
    max_harmless_c: float = 38.5
    """Temperature from which heat harms (°C)."""
    heat_harm: float = 0.05
    """Share of the living cells that die an hour for each square degree above it."""
    min_harmless_c: float = 34.0
    cold_harm: float = 0.004
    min_ph: float = 7.1
    max_ph: float = 7.65
    ph_harm: float = 0.25
    """Share of the living cells that die an hour for each pH outside."""
    min_glucose_mm: float = 1.0
    hunger_harm: float = 0.08
    """Share of the living cells that die an hour for each mM of glucose that is missing."""
    lactate_sensitive: float = 1.0
    """Share of the cells that lactate harms."""
    synergy_harm: float = 0.0
    """Share of the living cells that die an hour for each mM of lactate above 12 mM and each mM of ammonia."""
    min_osmolality: float = 250.0
    max_osmolality: float = 330.0
    osmolality_harm: float = 0.0005
    """Share of the living cells that die an hour for each mOsm/kg outside."""
    delay_h: float = 0.0
    """Mean time between harm by the surroundings and the death that it causes (h)."""
    trophic_share: float = 0.06
    """Share of the viability that tissue loses in time without labile factors, its own and those of the medium [P]."""
    min_insulin: float = 0.1
    """Share of fresh medium's insulin below which tissue grows less and dies."""
    insulin_harm: float = 0.01
    """Share of the living cells that die an hour without any insulin."""

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

RANGES: Mapping[str, tuple[float, float]] = {
    "demand": (0.25, 1.9), "glucose_uptake": (0.0011, 0.008), "growth_per_day": (0.01, 0.06),
    "min_oxygen_mm": (0.003, 0.01), "anoxia_harm": (0.03, 0.2), "regrowth": (0.003, 0.02),
    "max_harmless_c": (38.0, 39.5), "heat_harm": (0.02, 0.12), "min_harmless_c": (28.0, 35.0), "cold_harm": (0.001, 0.01),
    "min_ph": (6.8, 7.15), "max_ph": (7.6, 7.8), "ph_harm": (0.1, 0.6), "min_glucose_mm": (0.3, 2.0),
    "hunger_harm": (0.02, 0.2), "lactate_min_mm": (2.0, 20.0), "lactate_harm": (0.0002, 0.001),
    "ammonia_min_mm": (0.1, 1.5), "ammonia_harm": (0.003, 0.03), "ammonia_per_glucose": (0.02, 0.12),
    "max_osmolality": (310.0, 350.0), "osmolality_harm": (0.0002, 0.002),
}  # fmt: skip
"""Range of the literature, or of what is plausible where it has none, for tissues that judge [biology.md §1.5, §3.1].

Oxygen demand 0.006 to 0.046 mol/(m³·s), fragments of young forebrain to adult grey matter. Lactate: 12 and 18 % of rat
cortical neurons die at 5 and 10 mM, hESC live up to 28 mM. Ammonia alters firing from 0.1 mM; neurons die from 1 mM, stem
cells not below 5."""
INSULIN_RANGES: Mapping[str, tuple[float, float]] = {"min_insulin": (0.02, 0.4), "insulin_harm": (0.003, 0.03)}
"""The same for the want of insulin [P, biology.md §1.6]: media have a hundredfold of the physiological concentration (S103).
Without serum 20 to 27 % fewer primary neurons live (S104), and human neural stem cells without insulin die in masses
(S105)."""


def drawn(seed: int) -> TissueKind:
    """Return a tissue whose thresholds, rates and forms of harm are drawn from :data:`RANGES`, each by itself.

    In one of three lactate kills a quarter of the cells and spares the rest, in one of two lactate and ammonia act together,
    death follows harm by up to a day, and labile factors are worth 0 to 10 % of the viability.
    """
    random = np.random.default_rng((seed, 29))
    values = {name: float(np.exp(random.uniform(*np.log(each)))) for name, each in RANGES.items()}
    values["lactate_sensitive"] = 0.25 if random.random() < 1 / 3 else 1.0
    values["synergy_harm"] = float(random.uniform(0.0005, 0.002)) if random.random() < 0.5 else 0.0
    values["delay_h"] = float(random.choice((0.0, 6.0, 24.0)))
    values["trophic_share"] = float(random.uniform(0.0, 0.1))
    # Drawn last: tissues of earlier versions keep what they had.
    values |= {name: float(np.exp(random.uniform(*np.log(each)))) for name, each in INSULIN_RANGES.items()}
    return TissueKind(**values)


LIFE_WEEKS = (2.0, 12.0)
"""Life of neurospheres on electrode arrays (FinalSpark, S17), taken as the central 90 % of a log-normal distribution [P]."""
LIFE_LOG_SD = log(LIFE_WEEKS[1] / LIFE_WEEKS[0]) / (2.0 * 1.645)
MEDIAN_LIFE_WEEKS = (LIFE_WEEKS[0] * LIFE_WEEKS[1]) ** 0.5
FOLLOWS_PER_H = organoid.FOLLOWS_PER_H
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
