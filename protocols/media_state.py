"""State of the medium's estimator: what its entries are, what is expected before anything was measured, and its journal form.

The filter that moves and corrects it is :mod:`protocols.media_filter`. Details and sources are in docs/estimation.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from protocols.interval import Interval
from protocols.soft_sensor import VERSION, Composition, Where

Array = NDArray[np.float64]

SPECIES = ("lactate_mm", "glucose_mm", "ammonia_mm", "glutamine_mm", "bicarbonate_mm", "osmolality_mosm")
"""Species of each vessel, in this order; the names are those of :class:`Composition`."""
LACTATE, GLUCOSE, AMMONIA, GLUTAMINE, BICARBONATE, OSMOLALITY = range(len(SPECIES))
LOOP, SPENT = 0, len(SPECIES)
"""Index of a vessel's first species."""
MAKES_LACTATE, USES_GLUCOSE, FREES_AMMONIA, DECAY, WATER, PARTICLES, BIAS, BUFFER, FUEL = range(
    2 * len(SPECIES), 2 * len(SPECIES) + 9
)
SENSED = (LACTATE, GLUCOSE, AMMONIA)
"""Species for which there are on-line sensors."""
SENSOR = FUEL + 1
"""Index of the first relative error of the on-line sensors."""
OFFSET = SENSOR + len(SENSED)
"""Index of the first constant error of the on-line sensors (mM): their blank."""
LABORATORY = OFFSET + len(SENSED)
"""Index of the first shared error of the assays."""
BOTTLE = LABORATORY + len(SPECIES)
"""Index of the first error of the complete medium's label, in its standard deviations."""
GROWTH = BOTTLE + len(SPECIES)
"""Index of the relative growth of the tissue's rates (1/day)."""
GAIN = GROWTH + 1
"""Index of the first relative error of the assays' method."""
STATES = GAIN + len(SPECIES)
NOT_NEGATIVE = (*range(LOOP, SPENT + len(SPECIES)), USES_GLUCOSE, FREES_AMMONIA, DECAY, BUFFER)

DAY_S = 86_400.0
MIN_UL = 1000.0
"""Minimum volume in the calculation (µL): figures stay finite for a vessel that the ledger considers empty."""

GLUCOSE_MM_PER_S = 5.4e-3
"""Consumption of adult human cortex, mol/m³/s (biology.md §1.1); mol/m³ is mM."""
LIVING_SHARE = 0.6
"""Share of the tissue's volume that works at this rate: 5–60 % of a large organoid lies below the Km of its oxygen
uptake."""
LACTATE_PER_GLUCOSE, LACTATE_PER_GLUCOSE_SD = 1.35, 0.12
"""mol/mol: 1.0–1.4 with oxygen, 2.0 without (biology.md §1.1); large organoids are in between."""
AMMONIA_PER_GLUCOSE, AMMONIA_PER_GLUCOSE_REL_SD = 0.055, 0.3
"""mol/mol. A choice: no organoid figure was found (biology.md §7)."""
TISSUE_REL_SD = 0.38
"""Relative standard deviation of the living share of the tissue and its activity."""
GOMPERTZ_PER_D, GROWN_MM3, RATES_PER_VOLUME = 0.04, 33.0, 0.75
"""Growth of an organoid: dV/dt = k·V·ln(V∞/V) (biology.md §1.2), and the power of its volume that its rates follow
(biology.md §5, V3)."""
GROWTH_SD_PER_D = 0.02
"""Deviation of the growth of the tissue's rates between cultures (1/day): 0.017 in the tuning cultures of the benchmark."""
DECAY_PER_D_AT_7_2, DECAY_PER_PH, DECAY_REL_SD = 0.035, math.log(4.0) / 0.4, 0.08
"""Glutamine decays by 0.035 a day at pH 7.2 and fourfold at 7.6: half-lives of 6–20 d (biology.md §1.1). The pH of a loop
is regulated; its deviation from the set-point of 0.02 (probe and regulator) is 7 %, 0.3 K another 3 %."""
STABLE_RATE = 0.02
"""Decay of L-alanyl-L-glutamine, the stable glutamine, over that of glutamine [P]."""
USUAL_PH = 7.35
"""pH of a loop whose set-point is not known."""
PARTICLES_PER_GLUCOSE, PARTICLES_PER_GLUCOSE_SD = 0.95, 0.15
"""Osmoles that leave with each glucose: one by stoichiometry, oxidised or turned into lactate that displaces
bicarbonate; less where tissue releases unmeasured substances.
"""
PH_CALIBRATION_SD, PCO2_REL_SD = 0.01, 0.02
"""Standard deviations of a calibrated pH electrode's error, and of pCO2 (flow controllers, barometer, distance from
equilibrium) [P]. The simulated probe and gas have the same."""
BIAS_SD_PH = math.hypot(PH_CALIBRATION_SD, PCO2_REL_SD / math.log(10.0))
"""The titration's systematic error."""
WATER_UL_D = (93.0, 33.0)
"""Daily loss of water of the loop (µL) and its deviation: any value from 36 to 150 is as probable (biology.md §1.3, 2 m of
tubing)."""
SENSOR_REL_SD = 0.04
"""Error of the sensitivity of an on-line sensor before the first assay."""
SENSOR_OFFSET_MM = {"lactate_mm": 0.12, "glucose_mm": 0.15, "ammonia_mm": 0.06}
"""Its constant error (mM), which repeated readings do not average out."""
OXYGEN_PER_GLUCOSE, FUEL_REL_SD = 6.0, 0.8
"""mol/mol of glucose that does not become lactate, and the relative error of this balance: other fuels, such as
glutamine and fatty acids."""
SAME_SHARE = 0.5
"""Share of an assay's standard deviation that all assays of a species have in common: calibrator, strip, operator.
It does not average out.
"""


NOISE_PRIOR, NOISE_MEMORY, NOISE_RANGE = 15.0, 1.0 - 1.0 / 60.0, (0.3, 4.0)
"""Weight of the stated process noise in observations, the share of older evidence that each keeps, and the limits."""

FRESH_REL_SD = (0.0, 0.02, 0.0, 0.06, 0.015, 0.005)
FRESH_SD = (0.05, 0.05, 0.01, 0.01, 0.1, 0.5)
"""Deviation of a bottle from its label, by species: relative and minimum. Glutamine also decays in the bottle."""
GROSS_LABEL_REL_SD, GROSS_LABEL_SD = (0.3, 0.3, 0.3, 0.5, 0.15, 0.05), (2.0, 2.0, 0.2, 0.5, 2.0, 10.0)
"""Deviation of a bottle whose label is wrong, by species: relative and minimum. A choice, wide enough for 3 mM lactate
stated as none, 15 mM glucose stated as 21, and ammonia stated ten times too low."""
METHOD_REL_SD = (0.12, 0.08, 0.08, 0.08, 0.02, 0.003)
"""Relative error of a method of assays before anything confirms it, by species, in addition to :data:`SAME_SHARE`: wide
enough that the interval holds the truth in most cultures whose method is 20 % off."""
GROSS_METHOD_REL_SD = (0.2, 0.2, 0.2, 0.2, 0.1, 0.03)
"""The same of a method that is wrong: an expired strip, a wrong dilution, a calibrator of another lot."""
FIRST_ASSAYS = 3
"""Number of assays of a species that test the label and the method more strictly than the later ones do."""
SAME_BOTTLE = 0.99
"""Correlation of a vessel's errors after filling with those of the bottle."""
TISSUE_RATES = slice(MAKES_LACTATE, FREES_AMMONIA + 1)
INDEX = {name: number for number, name in enumerate(SPECIES)}


def number_of(where: Where, species: str) -> int:
    """Return the state that is a species in a vessel."""
    return (LOOP if where == "loop" else SPENT) + INDEX[species]


@dataclass(frozen=True, slots=True, eq=False)
class MediaState:
    """State of the estimator: volumes (µL), the states' best values (STATES,) and their covariance (STATES,
    STATES).
    """

    loop_ul: float
    spent_ul: float
    mean: Array
    covariance: Array
    observations: int = 0
    """Number of titrations, readings on line and assays so far."""
    evidence: tuple[float, float] = (0.0, 0.0)
    """Of recent assays, how many, and the sum of their squared distances from the estimate.

    Distances are in deviations. Readings on line do not count: the error of a probe hides what the medium does.
    """

    assayed: tuple[int, ...] = (0,) * len(SPECIES)
    """Number of assays of each species that were used."""

    @property
    def rate_umol_d(self) -> float:
        """Lactate production of the tissue (µmol/day), with sufficient supply."""
        return float(self.mean[MAKES_LACTATE])

    @property
    def noise(self) -> float:
        """Factor on the process noise that the observations themselves call for: their variance over the predicted one.

        The mean of an inverse gamma distribution that begins at 1 with the weight of :data:`NOISE_PRIOR` observations.
        """
        count, total = self.evidence
        return min(max((NOISE_PRIOR + total) / (NOISE_PRIOR + count), NOISE_RANGE[0]), NOISE_RANGE[1])

    def sd(self, state: int) -> float:
        """Return the standard deviation of one state."""
        return math.sqrt(max(float(self.covariance[state, state]), 0.0))

    def interval(self, where: Where, species: str) -> Interval:
        """Return the estimate of one of :data:`SPECIES` in a vessel."""
        state = number_of(where, species)
        return Interval.around(float(self.mean[state]), self.sd(state), floor=0.0)

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers for the journal; of the covariance the lower triangle, row by row."""
        return {
            "version": VERSION,
            "loop_ul": self.loop_ul,
            "spent_ul": self.spent_ul,
            "mean": self.mean.tolist(),
            "covariance": self.covariance[np.tril_indices(STATES)].tolist(),
            "observations": self.observations,
            "evidence": list(self.evidence),
            "assayed": list(self.assayed),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return what :meth:`to_json` wrote."""
        known = len(data["mean"])
        lower = np.zeros((STATES, STATES))
        lower[np.tril_indices(known)] = data["covariance"]
        covariance = lower + lower.T - np.diag(np.diag(lower))
        count, total = data["evidence"]
        mean = np.zeros(STATES)
        mean[:known] = data["mean"]
        if known <= GROWTH:  # written by version 4
            covariance[GROWTH, GROWTH] = GROWTH_SD_PER_D**2
        if known <= GAIN:  # written by version 5
            covariance[GAIN:, GAIN:] = np.diag(np.array(METHOD_REL_SD) ** 2)
        assayed = tuple(data.get("assayed", (FIRST_ASSAYS,) * len(SPECIES)))
        return cls(data["loop_ul"], data["spent_ul"], mean, covariance, data["observations"], (count, total), assayed)


def of_composition(composition: Composition) -> Array:
    """Return a medium's species, shape (6,)."""
    return np.array([getattr(composition, name) for name in SPECIES])


def label_sd(species: Array) -> Array:
    """Return the deviation of a bottle with these species from its label, shape (6,)."""
    sd: Array = np.maximum(np.array(FRESH_REL_SD) * species, np.array(FRESH_SD))
    return sd


def gross_label_sd(species: Array) -> Array:
    """Return the deviation of a bottle whose label states these species and is wrong, shape (6,)."""
    sd: Array = np.maximum(np.array(GROSS_LABEL_REL_SD) * species, np.array(GROSS_LABEL_SD))
    return sd


def begin(
    loop: Composition,
    spent: Composition,
    *,
    loop_ul: float,
    spent_ul: float,
    tissue_mm3: float,
    water_ul_d: tuple[float, float],
    buffer: tuple[float, float],
    ph: float = USUAL_PH,
    growth_per_d: float = 0.0,
    loop_label: Array | None = None,
    spent_label: Array | None = None,
    method_sd: Array | None = None,
) -> MediaState:
    """Return the state of a rig with fresh medium and `tissue_mm3` of tissue; `water_ul_d` is the loop's loss and
    its sd, `buffer` the capacity of the other buffers and its sd (mM per pH), `ph` the set-point of the loop, `growth_per_d`
    the expected growth of the tissue's rates (:func:`growth_of`), `loop_label` and `spent_label` the deviations of the media
    from their labels, by default the usual ones (:func:`label_sd`), `method_sd` the relative deviations of the assays'
    methods, by default :data:`METHOD_REL_SD`.
    """
    decay = DECAY_PER_D_AT_7_2 * math.exp(DECAY_PER_PH * (ph - 7.2))
    parts = of_composition(loop), of_composition(spent)
    rates, rates_covariance = _tissue_prior(tissue_mm3)
    offsets = [SENSOR_OFFSET_MM[SPECIES[number]] for number in SENSED]
    errors = [*[SENSOR_REL_SD] * len(SENSED), *offsets, *[SAME_SHARE] * len(SPECIES), *[1.0] * len(SPECIES)]
    unbiased = [0.0] * len(errors)
    right = [0.0] * len(SPECIES)
    others = np.array(
        [decay, water_ul_d[0], PARTICLES_PER_GLUCOSE, 0.0, buffer[0], 0.0, *unbiased, growth_per_d, *right]
    )
    errors += [GROWTH_SD_PER_D, *(METHOD_REL_SD if method_sd is None else method_sd)]
    others_sd = np.array(
        [DECAY_REL_SD * decay, water_ul_d[1], PARTICLES_PER_GLUCOSE_SD, BIAS_SD_PH, buffer[1], FUEL_REL_SD, *errors]
    )
    covariance = np.zeros((STATES, STATES))
    loop_sd = label_sd(parts[0]) if loop_label is None else loop_label
    spent_sd = label_sd(parts[1]) if spent_label is None else spent_label
    covariance[:SPENT, :SPENT] = np.diag(loop_sd**2)
    covariance[SPENT:MAKES_LACTATE, SPENT:MAKES_LACTATE] = np.diag(spent_sd**2)
    covariance[TISSUE_RATES, TISSUE_RATES] = rates_covariance
    covariance[DECAY:, DECAY:] = np.diag(others_sd**2)
    bottle = slice(BOTTLE, GROWTH)
    covariance[:SPENT, bottle] = covariance[bottle, :SPENT] = np.diag(SAME_BOTTLE * loop_sd)
    if loop == spent:
        shared = np.diag(SAME_BOTTLE**2 * loop_sd * spent_sd)
        covariance[:SPENT, SPENT:MAKES_LACTATE] = covariance[SPENT:MAKES_LACTATE, :SPENT] = shared
        covariance[SPENT:MAKES_LACTATE, bottle] = covariance[bottle, SPENT:MAKES_LACTATE] = np.diag(
            SAME_BOTTLE * spent_sd
        )
    return MediaState(loop_ul, spent_ul, np.concatenate((*parts, rates, others)), covariance)


def _tissue_prior(tissue_mm3: float) -> tuple[Array, Array]:
    """Return the rates (µmol/day, shape (3,)) of tissue that nothing was measured of, and their covariance (3, 3)."""
    glucose = LIVING_SHARE * tissue_mm3 * 1e-6 * GLUCOSE_MM_PER_S * DAY_S * 1e3  # mm³ → L, mmol → µmol
    rates = glucose * np.array([LACTATE_PER_GLUCOSE, 1.0, AMMONIA_PER_GLUCOSE])
    own = glucose * np.array([LACTATE_PER_GLUCOSE_SD, 0.1, AMMONIA_PER_GLUCOSE_REL_SD * AMMONIA_PER_GLUCOSE])
    return rates, TISSUE_REL_SD**2 * np.outer(rates, rates) + np.diag(own**2)


def growth_of(each_mm3: float) -> float:
    """Return the expected growth of the rates of organoids of this volume (relative, 1/day)."""
    return RATES_PER_VOLUME * GOMPERTZ_PER_D * max(math.log(GROWN_MM3 / each_mm3), 0.0) if each_mm3 > 0.0 else 0.0


def tissue_changed(state: MediaState, before_mm3: float, after_mm3: float) -> MediaState:
    """Return the state after tissue was put into the circulating medium or taken out of it.

    The rates of what stays scale with its volume; nothing is known yet of the rates of what came. Which organoids left is
    not known: their activity differs by :data:`TISSUE_REL_SD`.
    """
    kept = min(after_mm3 / before_mm3, 1.0) if before_mm3 > 0.0 else 0.0
    rates, rates_covariance = _tissue_prior(max(after_mm3 - before_mm3, 0.0))
    factors = np.ones(STATES)
    factors[TISSUE_RATES] = kept
    mean, covariance = state.mean * factors, state.covariance * np.outer(factors, factors)
    former = state.mean[TISSUE_RATES]
    covariance[TISSUE_RATES, TISSUE_RATES] += rates_covariance + kept * (1.0 - kept) * TISSUE_REL_SD**2 * np.outer(
        former, former
    )
    mean[TISSUE_RATES] += rates
    return replace(state, mean=mean, covariance=covariance)


def new_lot(state: MediaState) -> MediaState:
    """Return the state after a bottle of another lot of the complete medium came into use.

    What assays taught of the former lot's label says nothing about this one, and the first assays test it.
    """
    factors = np.ones(STATES)
    factors[BOTTLE:GROWTH] = 0.0
    covariance = state.covariance * np.outer(factors, factors)
    covariance[BOTTLE:GROWTH, BOTTLE:GROWTH] = np.eye(len(SPECIES))
    return replace(state, mean=state.mean * factors, covariance=covariance, assayed=(0,) * len(SPECIES))


def with_stable_glutamine(state: MediaState) -> MediaState:
    """Return the state for medium whose glutamine is the dipeptide, which hardly decays."""
    factors = np.ones(STATES)
    factors[DECAY] = STABLE_RATE
    return replace(state, mean=state.mean * factors, covariance=state.covariance * np.outer(factors, factors))


def with_decay_of(state: MediaState, other: MediaState) -> MediaState:
    """Return the state with the decay of glutamine that `other` expects: what was learnt of it was of other medium."""
    mean, covariance = state.mean.copy(), state.covariance.copy()
    mean[DECAY] = other.mean[DECAY]
    covariance[DECAY, :] = covariance[:, DECAY] = 0.0
    covariance[DECAY, DECAY] = other.covariance[DECAY, DECAY]
    return replace(state, mean=mean, covariance=covariance)


def handed_over(here: MediaState, there: MediaState) -> MediaState:
    """Return `here` after the arrival of the culture of `there`: with its loop and its tissue.

    The spent vessel, the water loss, and the errors of the pH probe and the laboratory belong to this rig, and were
    not learnt together with the other's.
    """
    came = np.array(
        [*range(LOOP, SPENT), MAKES_LACTATE, USES_GLUCOSE, FREES_AMMONIA, DECAY, PARTICLES, BUFFER, FUEL, GROWTH]
    )
    mean, covariance = here.mean.copy(), here.covariance.copy()
    mean[came] = there.mean[came]
    covariance[came, :] = 0.0
    covariance[:, came] = 0.0
    covariance[np.ix_(came, came)] = there.covariance[np.ix_(came, came)]
    return replace(
        here,
        loop_ul=there.loop_ul,
        mean=mean,
        covariance=covariance,
        observations=there.observations,
        evidence=there.evidence,
    )
