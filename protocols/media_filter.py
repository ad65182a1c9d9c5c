"""State estimator of the medium: an unscented Kalman filter over loop, spent vessel and the tissue's rates.

States: in each vessel lactate, glucose, ammonia, glutamine, bicarbonate (mM) and osmolality (mOsm/kg); of the
tissue the production of lactate, uptake of glucose and release of ammonia (µmol/day); the decay of glutamine
(1/day), the water loss of the loop (µL/day), the osmoles that leave with a glucose, the error of the titration
(pH), the capacity of the buffers other than bicarbonate (mM per pH), the relative error of the oxygen balance and of
on-line sensors, and for each
species the error of the laboratory's assays (in standard deviations of an assay).

Process: the balances of the rig. Lactic acid titrates bicarbonate one to one; ammonia comes from glutamine, by
tissue or by decay; uptake stops when a substance is used up; transfers mix, evaporation concentrates. The tissue's
rates, the titration's error and the other parameters wander slowly, so that they are learnt and never certain.
Details, sources and the measured coverage are in docs/estimation.md.

Observations: pH of the loop under a known pCO2 (:func:`titrated`), on-line sensors of metabolites (:func:`sensed`),
the tissue's oxygen uptake (:func:`respired`) and offline assays (:func:`assayed`). All functions are pure; a state is
plain numbers and is stored in the journal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from protocols import unscented
from protocols.interval import Interval
from protocols.soft_sensor import (
    CO2_SOLUBILITY_MM_MMHG,
    PH_OF_FRESH,
    PK_CARBONIC,
    VERSION,
    Composition,
    MediaEstimate,
    MediaValues,
    Where,
)

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
LABORATORY = SENSOR + len(SENSED)
"""Index of the first shared error of the assays."""
STATES = LABORATORY + len(SPECIES)
NOT_NEGATIVE = (*range(LOOP, SPENT + len(SPECIES)), USES_GLUCOSE, FREES_AMMONIA, DECAY, BUFFER)

DAY_S = 86_400.0
LONGEST_STEP_D = 0.25
"""Maximum time step for which uptake counts as constant (days)."""
MIN_UL = 1000.0
"""Minimum volume in the calculation (µL): figures stay finite for a vessel that the ledger considers empty."""

GLUCOSE_MM_PER_S = 5.4e-3
"""Consumption of adult human cortex, mol/m³/s (biology.md §1.1); mol/m³ is mM."""
LACTATE_PER_GLUCOSE, LACTATE_PER_GLUCOSE_SD = 1.4, 0.25
"""mol/mol: 1.0–1.4 with oxygen, 2.0 without (biology.md §1.1); large organoids are in between."""
AMMONIA_PER_GLUCOSE, AMMONIA_PER_GLUCOSE_REL_SD = 0.06, 0.4
"""mol/mol. A choice: no organoid figure was found (biology.md §7)."""
TISSUE_REL_SD = 0.4
"""Relative standard deviation of the living share of the tissue and its activity."""
KM_GLUCOSE_MM, KM_GLUTAMINE_MM = 1.6, 0.047
"""Concentrations at half of the maximum uptake.

GLUT3 for glucose, the CHO Monod model for glutamine (biology.md §1.1).
"""
DECAY_PER_D, DECAY_PER_D_SD = 0.07, 0.02
"""Glutamine has a half-life of 6–20 d: the mean, and two standard deviations reach 0.035 and 0.116 (biology.md §1.1)."""
PARTICLES_PER_GLUCOSE, PARTICLES_PER_GLUCOSE_SD = 0.8, 0.4
"""Osmoles that leave with each glucose: one by stoichiometry, oxidised or turned into lactate that displaces
bicarbonate; less where tissue releases unmeasured substances.
"""
BIAS_SD_PH = 0.018
"""The titration's systematic error: pH ± 0.012; pCO2 ± 3 % (flow controllers, barometer, distance from equilibrium)
is ± 0.013."""
SENSOR_REL_SD, SENSOR_SD_MM = 0.10, {"lactate_mm": 0.15, "glucose_mm": 0.3, "ammonia_mm": 0.06}
"""Error of an on-line sensor: of its sensitivity before the first assay, and of one reading (mM)."""
SENSOR_LOSS_PER_D = 0.02
"""Mean share of their sensitivity that enzyme electrodes lose in a day (1–3 %)."""
OXYGEN_PER_GLUCOSE, FUEL_REL_SD = 6.0, 0.8
"""mol/mol of glucose that does not become lactate, and the relative error of this balance: other fuels, such as
glutamine and fatty acids."""
PH_SD = 0.005
"""Scatter between readings: pH ± 0.004, gas ± 0.5 %."""
SAME_SHARE = 0.5
"""Share of an assay's standard deviation that all assays of a species have in common: calibrator, strip, operator.
It does not average out.
"""

RATES_DRIFT, RATE_DRIFT = 0.07, 0.02
"""Relative change per day (growing with its square root) of all the tissue's rates together, and of each by itself."""
DRIFT_SQRT_D = {DECAY: 0.004, WATER: 4.0, PARTICLES: 0.02, BIAS: 0.003, BUFFER: 0.05, FUEL: 0.1}
DRIFT_SQRT_D |= dict.fromkeys(range(SENSOR, LABORATORY), 0.015)
"""The same for the other parameters; that of a pH probe is 0.001–0.004 a day, mostly in one direction."""
UNKNOWN_SQRT_D = (0.05, 0.03, 0.004, 0.01, 0.06, 0.2)
"""Effects outside the balances, by species: other acids, amino acids, the dead volume of lines."""

NOISE_PRIOR, NOISE_MEMORY, NOISE_RANGE = 15.0, 1.0 - 1.0 / 60.0, (0.3, 4.0)
"""Weight of the stated process noise in observations, the share of older evidence that each keeps, and the limits."""

FRESH_REL_SD = (0.0, 0.02, 0.0, 0.08, 0.025, 0.005)
FRESH_SD = (0.05, 0.05, 0.01, 0.01, 0.1, 0.5)
"""Deviation of a bottle from its label, by species: relative and minimum. Glutamine also decays in the bottle."""
SAME_BOTTLE = 0.98
"""Correlation of two vessels' errors after filling from one bottle."""
POURED_REL_SD = 0.02
"""Accuracy of the shares of a mixture: volumes in lines, of vessels, of transfers that nothing weighs."""
READING_GATE = 3.0
"""A titration or a reading on line further off than this has no more weight than one at the gate."""
ASSAY_GATE = 5.0
"""An assay further off contradicts the estimate: a mistake is more probable than such an error."""

MIN_SD = np.array(
    [1e-4] * 2 * len(SPECIES)
    + [1e-3, 1e-3, 1e-4, 1e-5, 1e-2, 1e-3, 1e-5, 1e-3, 1e-4]
    + [1e-5] * len(SENSED)
    + [1e-4] * len(SPECIES)
)
"""Minimum distances of sigma points."""
TISSUE_RATES = slice(MAKES_LACTATE, FREES_AMMONIA + 1)
INDEX = {name: number for number, name in enumerate(SPECIES)}


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
        state = _number(where, species)
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
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return what :meth:`to_json` wrote."""
        lower = np.zeros((STATES, STATES))
        lower[np.tril_indices(STATES)] = data["covariance"]
        covariance = lower + lower.T - np.diag(np.diag(lower))
        count, total = data["evidence"]
        mean = np.array(data["mean"])
        return cls(data["loop_ul"], data["spent_ul"], mean, covariance, data["observations"], (count, total))


def of_composition(composition: Composition) -> Array:
    """Return a medium's species, shape (6,)."""
    return np.array([getattr(composition, name) for name in SPECIES])


def label_sd(species: Array) -> Array:
    """Return the deviation of a bottle with these species from its label, shape (6,)."""
    sd: Array = np.maximum(np.array(FRESH_REL_SD) * species, np.array(FRESH_SD))
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
) -> MediaState:
    """Return the state of a rig with fresh medium and `tissue_mm3` of tissue; `water_ul_d` is the loop's loss and
    its sd, `buffer` the capacity of the other buffers and its sd (mM per pH).
    """
    parts = of_composition(loop), of_composition(spent)
    rates, rates_covariance = _tissue_prior(tissue_mm3)
    laboratory = [0.0] * len(SPECIES)
    sensors = [0.0] * len(SENSED)
    others = np.array([DECAY_PER_D, water_ul_d[0], PARTICLES_PER_GLUCOSE, 0.0, buffer[0], 0.0, *sensors, *laboratory])
    errors = [*[SENSOR_REL_SD] * len(SENSED), *[SAME_SHARE] * len(SPECIES)]
    others_sd = np.array(
        [DECAY_PER_D_SD, water_ul_d[1], PARTICLES_PER_GLUCOSE_SD, BIAS_SD_PH, buffer[1], FUEL_REL_SD, *errors]
    )
    covariance = np.zeros((STATES, STATES))
    loop_sd, spent_sd = label_sd(parts[0]), label_sd(parts[1])
    covariance[:SPENT, :SPENT] = np.diag(loop_sd**2)
    covariance[SPENT:MAKES_LACTATE, SPENT:MAKES_LACTATE] = np.diag(spent_sd**2)
    if loop == spent:
        shared = np.diag(SAME_BOTTLE * loop_sd * spent_sd)
        covariance[:SPENT, SPENT:MAKES_LACTATE] = covariance[SPENT:MAKES_LACTATE, :SPENT] = shared
    covariance[TISSUE_RATES, TISSUE_RATES] = rates_covariance
    covariance[DECAY:, DECAY:] = np.diag(others_sd**2)
    return MediaState(loop_ul, spent_ul, np.concatenate((*parts, rates, others)), covariance)


def _tissue_prior(tissue_mm3: float) -> tuple[Array, Array]:
    """Return the rates (µmol/day, shape (3,)) of tissue that nothing was measured of, and their covariance (3, 3)."""
    glucose = tissue_mm3 * 1e-6 * GLUCOSE_MM_PER_S * DAY_S * 1e3  # mm³ → L, mmol → µmol
    rates = glucose * np.array([LACTATE_PER_GLUCOSE, 1.0, AMMONIA_PER_GLUCOSE])
    own = glucose * np.array([LACTATE_PER_GLUCOSE_SD, 0.1, AMMONIA_PER_GLUCOSE_REL_SD * AMMONIA_PER_GLUCOSE])
    return rates, TISSUE_REL_SD**2 * np.outer(rates, rates) + np.diag(own**2)


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


def handed_over(here: MediaState, there: MediaState) -> MediaState:
    """Return `here` after the arrival of the culture of `there`: with its loop and its tissue.

    The spent vessel, the water loss, and the errors of the pH probe and the laboratory belong to this rig, and were
    not learnt together with the other's.
    """
    came = np.array([*range(LOOP, SPENT), MAKES_LACTATE, USES_GLUCOSE, FREES_AMMONIA, DECAY, PARTICLES, BUFFER, FUEL])
    mean, covariance = here.mean.copy(), here.covariance.copy()
    mean[came] = there.mean[came]
    covariance[came, :] = 0.0
    covariance[:, came] = 0.0
    covariance[np.ix_(came, came)] = there.covariance[np.ix_(came, came)]
    return MediaState(there.loop_ul, here.spent_ul, mean, covariance, there.observations, there.evidence)


def elapsed(state: MediaState, seconds: float, *, water_ul_d: float) -> MediaState:
    """Return the state after `seconds`: tissue works in the loop, glutamine decays, water leaves the loop,
    parameters wander.

    `water_ul_d` is the loss that the ledger books; the true loss is one of the states.
    """
    left = max(seconds, 0.0) / DAY_S
    while left > 0.0:
        days = min(left, LONGEST_STEP_D)
        left = left - days if left - days > 1e-9 else 0.0
        state = _step(state, days, water_ul_d)
    return state


def _step(state: MediaState, days: float, water_ul_d: float) -> MediaState:
    volume = max(state.loop_ul, MIN_UL)
    belief = unscented.predicted((state.mean, state.covariance), MIN_SD, lambda cloud: _lived(cloud, days, volume))
    mean, covariance = _within(belief)
    covariance = covariance + _wandering(mean, state.noise) * days
    loop_ul = max(state.loop_ul - water_ul_d * days, MIN_UL)
    return replace(state, loop_ul=loop_ul, mean=mean, covariance=covariance)


def _lived(cloud: Array, days: float, volume_ul: float) -> Array:
    """Return the balances over `days`, for each sigma point of `cloud` (m, STATES)."""
    after = cloud.copy()
    glucose = np.maximum(cloud[:, LOOP + GLUCOSE], 0.0)
    # µmol/day over µL → mM: a factor of a thousand.
    supply = glucose / (glucose + KM_GLUCOSE_MM) * (days * 1e3 / volume_ul)
    lactate, used = cloud[:, MAKES_LACTATE] * supply, cloud[:, USES_GLUCOSE] * supply
    glutamine = np.maximum(cloud[:, LOOP + GLUTAMINE], 0.0)
    freed = cloud[:, FREES_AMMONIA] * supply * glutamine / (glutamine + KM_GLUTAMINE_MM)
    after[:, LOOP + LACTATE] += lactate
    after[:, LOOP + BICARBONATE] -= lactate
    after[:, LOOP + GLUCOSE] -= used
    after[:, LOOP + OSMOLALITY] -= cloud[:, PARTICLES] * used
    after[:, LOOP + GLUTAMINE] -= freed
    after[:, LOOP + AMMONIA] += freed
    share = -np.expm1(-np.maximum(cloud[:, DECAY], 0.0) * days)
    for where in (LOOP, SPENT):
        gone = np.maximum(after[:, where + GLUTAMINE], 0.0) * share
        after[:, where + GLUTAMINE] -= gone
        after[:, where + AMMONIA] += gone
    kept = math.exp(-SENSOR_LOSS_PER_D * days)
    enzymes = slice(SENSOR, SENSOR + SENSED.index(AMMONIA))
    after[:, enzymes] = (1.0 + after[:, enzymes]) * kept - 1.0
    lost_ul = np.minimum(cloud[:, WATER] * days, 0.5 * volume_ul)
    after[:, LOOP:SPENT] *= (volume_ul / (volume_ul - lost_ul))[:, None]
    return after


def _wandering(mean: Array, scale: float) -> Array:
    """Return the process noise of a day, (STATES, STATES); `scale` multiplies that of the medium and of the tissue."""
    noise = np.zeros((STATES, STATES))
    where = np.arange(LOOP, MAKES_LACTATE)
    noise[where, where] = scale * np.array(UNKNOWN_SQRT_D * 2) ** 2
    size = max(float(mean[USES_GLUCOSE]), 1e-3) * np.array([LACTATE_PER_GLUCOSE, 1.0, AMMONIA_PER_GLUCOSE])
    tissue = slice(MAKES_LACTATE, FREES_AMMONIA + 1)
    noise[tissue, tissue] = scale * (RATES_DRIFT**2 * np.outer(size, size) + np.diag((RATE_DRIFT * size) ** 2))
    for number, drift in DRIFT_SQRT_D.items():
        noise[number, number] = drift**2
    return noise


def moved(state: MediaState, source: Where | Composition | None, target: Where | None, ul: float) -> MediaState:
    """Return the state after a transfer of `ul` from a vessel or a stock into a vessel, or away (`target=None`)."""
    if source is None or ul <= 0:
        return state
    state = _withdrawn(state, source, ul)
    return state if target is None else _added(state, source, target, ul)


def _withdrawn(state: MediaState, source: Where | Composition, ul: float) -> MediaState:
    """Return the state after `ul` left a vessel; unchanged for a stock."""
    if source == "loop":
        return replace(state, loop_ul=max(state.loop_ul - ul, 0.0))
    if source == "spent":
        return replace(state, spent_ul=max(state.spent_ul - ul, 0.0))
    return state


def _species_of(vessel: Where) -> slice:
    """Return the entries of the mean that hold the composition of a vessel."""
    return slice(LOOP, SPENT) if vessel == "loop" else slice(SPENT, MAKES_LACTATE)


def _added(state: MediaState, source: Where | Composition, target: Where, ul: float) -> MediaState:
    """Return the state after `ul` of a vessel or a stock was mixed into the vessel `target`."""
    before_ul = state.loop_ul if target == "loop" else state.spent_ul
    share = ul / (before_ul + ul)
    into = _species_of(target)
    known = state.mean[into].copy()
    matrix = np.eye(STATES)
    np.fill_diagonal(matrix[into, into], 1.0 - share)
    if isinstance(source, Composition):
        poured = of_composition(source)
        label = label_sd(poured)
        here = np.sqrt(np.maximum(np.diag(state.covariance)[into], 0.0))
        # The same bottle may have been poured here before: its error adds up linearly, not as a random walk.
        more = (1.0 - share) * here
        doubt = (more + share * label) ** 2 - more**2
    else:
        giver = _species_of(source)
        poured = state.mean[giver].copy()
        matrix[into, giver] += share * np.eye(len(SPECIES))
        doubt = np.zeros(len(SPECIES))
    mean, covariance = unscented.linear_map((state.mean, state.covariance), matrix)
    if isinstance(source, Composition):
        mean[into] += share * poured
    doubt = doubt + (POURED_REL_SD * share * (1.0 - share) * (poured - known)) ** 2
    covariance[into, into] += np.diag(doubt)
    state = replace(state, mean=mean, covariance=covariance)
    return replace(state, loop_ul=before_ul + ul) if target == "loop" else replace(state, spent_ul=before_ul + ul)


def with_volumes(state: MediaState, *, loop_ul: float, spent_ul: float) -> MediaState:
    """Return the state with better known volumes: the ledger weighs and is reconciled."""
    return replace(state, loop_ul=max(loop_ul, MIN_UL), spent_ul=max(spent_ul, 0.0))


def ph_of(bicarbonate: float, pco2: float, buffer: float) -> float:
    """Return the pH of medium with this label bicarbonate (mM) and buffer (mM per pH) under `pco2` (mmHg), by Newton's
    method.
    """
    label = max(bicarbonate, 0.05)
    co2_mm = CO2_SOLUBILITY_MM_MMHG * pco2
    ph = PK_CARBONIC + math.log10(label / co2_mm)
    for _ in range(12):
        held = co2_mm * 10.0 ** (ph - PK_CARBONIC)
        step = (held + buffer * (ph - PH_OF_FRESH) - label) / (held * math.log(10.0) + buffer)
        ph -= min(max(step, -0.5), 0.5)
    return ph


def titrated(state: MediaState, ph: float, pco2: float) -> MediaState:
    """Return the state corrected by a pH of the loop (37 °C) under `pco2` (mmHg). The caller drops absurd readings.

    The pH follows from bicarbonate and buffer; its slopes at the best values of both are those of the implicit
    equation of :func:`ph_of`. At constant pH the buffer is not seen; a pH that differs, or CO2 that changes, shows it.
    """
    bicarbonate, buffer = float(state.mean[LOOP + BICARBONATE]), float(state.mean[BUFFER])
    expected = ph_of(bicarbonate, pco2, buffer)
    capacity = CO2_SOLUBILITY_MM_MMHG * pco2 * 10.0 ** (expected - PK_CARBONIC) * math.log(10.0) + buffer
    look = np.zeros(STATES)
    look[LOOP + BICARBONATE], look[BUFFER], look[BIAS] = 1.0 / capacity, (PH_OF_FRESH - expected) / capacity, 1.0
    return _seen(state, look, ph - expected - float(state.mean[BIAS]), PH_SD)


def sensed(state: MediaState, where: Where, species: str, value: float) -> MediaState:
    """Return the state corrected by an on-line sensor's reading (mM) of a species in a vessel.

    Its sensitivity is one of the states: assays calibrate it, and between them it carries their accuracy on.
    """
    look, off = _sensor(state, where, species, value)
    return _seen(state, look, off, SENSOR_SD_MM[species])


def sensor_surprise(state: MediaState, where: Where, species: str, value: float) -> float:
    """Return the distance of an on-line sensor's reading (mM) from the estimate, in standard deviations of both."""
    look, off = _sensor(state, where, species, value)
    return abs(off) / math.hypot(math.sqrt(float(look @ state.covariance @ look)), SENSOR_SD_MM[species])


def _sensor(state: MediaState, where: Where, species: str, value: float) -> tuple[Array, float]:
    """Return the observation of an on-line sensor, (STATES,), and how far it is off its expected value (mM)."""
    number, error = _number(where, species), SENSOR + SENSED.index(INDEX[species])
    look = np.zeros(STATES)
    look[number], look[error] = 1.0 + float(state.mean[error]), max(float(state.mean[number]), 0.0)
    return look, value - look[number] * look[error]


def respired(state: MediaState, oxygen_umol_d: float, sd_umol_d: float) -> MediaState:
    """Return the state corrected by the tissue's oxygen uptake (µmol/day) and the error of its measurement.

    Glucose either becomes two lactates or takes six oxygens; the error of this balance is one of the states.
    """
    look = np.zeros(STATES)
    share = OXYGEN_PER_GLUCOSE * (1.0 + float(state.mean[FUEL]))
    look[USES_GLUCOSE], look[MAKES_LACTATE] = share, -0.5 * share
    expected = float(look @ state.mean)
    look[FUEL] = expected / (1.0 + float(state.mean[FUEL]))
    return _seen(state, look, oxygen_umol_d - expected, sd_umol_d)


def _seen(state: MediaState, look: Array, off: float, sd: float) -> MediaState:
    """Return the state corrected by a reading that is `off` its expected value, in a linear combination of states.

    A reading further off than :data:`READING_GATE` deviations has the weight of one there, and less with its distance.
    """
    spread = float(look @ state.covariance @ look)
    distance = abs(off) / math.sqrt(spread + sd * sd)
    if distance > READING_GATE:
        sd = math.sqrt((spread + sd * sd) * (distance / READING_GATE) ** 2 - spread)
    belief = unscented.measured((state.mean, state.covariance), look, float(look @ state.mean) + off, sd)
    return _corrected(state, belief)


def _corrected(state: MediaState, belief: unscented.Belief, distance: float | None = None) -> MediaState:
    """Return the state after an observation at `distance` deviations from the estimate; None is no evidence of noise."""
    mean, covariance = _within(belief)
    evidence = state.evidence
    if distance is not None:
        count, total = (NOISE_MEMORY * part for part in evidence)
        evidence = (count + 1.0, total + min(distance, READING_GATE) ** 2)
    return replace(state, mean=mean, covariance=covariance, observations=state.observations + 1, evidence=evidence)


def surprise(state: MediaState, where: Where, species: str, value: float, sd: float) -> float:
    """Return the distance of an assay from the estimate, in standard deviations of both together."""
    look, own_sd = _assay(where, species, sd)
    variance = float(look @ state.covariance @ look) + own_sd**2
    return abs(value - float(look @ state.mean)) / math.sqrt(variance)


def assayed(state: MediaState, where: Where, species: str, value: float, sd: float) -> MediaState:
    """Return the state corrected by an assay of one of :data:`SPECIES` with standard deviation `sd`.

    An assay beyond :data:`ASSAY_GATE` was confirmed by a person: then something has happened outside the balances,
    and the uncertainty of this one value grows until the assay is within the gate.
    """
    look, own_sd = _assay(where, species, sd)
    covariance = state.covariance
    off = surprise(state, where, species, value, sd)
    if off > ASSAY_GATE:
        number = _number(where, species)
        variance = float(look @ covariance @ look) + own_sd**2
        covariance = covariance.copy()
        covariance[number, number] += variance * ((off / ASSAY_GATE) ** 2 - 1.0)
    return _corrected(state, unscented.measured((state.mean, covariance), look, value, own_sd), off)


def _assay(where: Where, species: str, sd: float) -> tuple[Array, float]:
    """Return the observation of an assay, (STATES,), and its own standard deviation."""
    look = np.zeros(STATES)
    look[_number(where, species)] = 1.0
    look[LABORATORY + INDEX[species]] = sd
    return look, sd * math.sqrt(1.0 - SAME_SHARE**2)


def _number(where: Where, species: str) -> int:
    return (LOOP if where == "loop" else SPENT) + INDEX[species]


def _within(belief: unscented.Belief) -> unscented.Belief:
    """Return the belief with non-negative concentrations and rates."""
    mean, covariance = belief
    mean = mean.copy()
    some = list(NOT_NEGATIVE)
    mean[some] = np.maximum(mean[some], 0.0)
    return mean, covariance


def estimate(state: MediaState, *, titrated: bool, spent: bool = True) -> MediaEstimate:
    """Return the state as concentrations with bounds; `spent` tells whether the rig has a vessel of spent medium."""
    return MediaEstimate(
        loop=_values(state, "loop"),
        spent_values=_values(state, "spent") if spent else None,
        lactate_umol_d=Interval.around(state.rate_umol_d, state.sd(MAKES_LACTATE), floor=0.0),
        titrated=titrated,
    )


def _values(state: MediaState, where: Where) -> MediaValues:
    return MediaValues(
        **{name: state.interval(where, name) for name in SPECIES if name in MediaValues.__dataclass_fields__}
    )
