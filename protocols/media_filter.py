"""State estimator of the medium: an unscented Kalman filter over loop, spent vessel and the tissue's rates.

States: in each vessel lactate, glucose, ammonia, glutamine, bicarbonate (mM) and osmolality (mOsm/kg); of the
tissue the production of lactate, uptake of glucose and release of ammonia (µmol/day); the decay of glutamine
(1/day), the water loss of the loop (µL/day), the osmoles that leave with a glucose, the error of the titration
(pH), the capacity of the buffers other than bicarbonate (mM per pH), the relative error of the oxygen balance, the
sensitivity and blank of on-line sensors, for each species the error of the laboratory's assays (in standard
deviations of an assay) and of the complete medium's label (in its standard deviations), the growth of the tissue's
rates (1/day), and for each species the relative error of the method of its assays.

Process: the balances of the rig. Lactic acid titrates bicarbonate one to one; ammonia comes from glutamine, by
tissue or by decay; uptake stops when a substance is used up; transfers mix, evaporation concentrates. The tissue's
rates grow with it and, like the titration's error and the other parameters, wander slowly, so that they are learnt and
never certain.
Details, sources and the measured coverage are in docs/estimation.md.

Observations: pH of the loop under a known pCO2 (:func:`titrated`), on-line sensors of metabolites (:func:`sensed`),
the tissue's oxygen uptake (:func:`respired`) and offline assays (:mod:`protocols.media_assays`). All functions are pure; a
state is plain numbers and is stored in the journal.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from protocols import unscented
from protocols.interval import Interval
from protocols.media_state import (
    AMMONIA,
    AMMONIA_PER_GLUCOSE,
    BIAS,
    BICARBONATE,
    BOTTLE,
    BUFFER,
    DAY_S,
    DECAY,
    FREES_AMMONIA,
    FUEL,
    GLUCOSE,
    GLUTAMINE,
    GOMPERTZ_PER_D,
    GROWTH,
    GROWTH_SD_PER_D,
    INDEX,
    LABORATORY,
    LACTATE,
    LACTATE_PER_GLUCOSE,
    LOOP,
    MAKES_LACTATE,
    MIN_UL,
    NOISE_MEMORY,
    NOT_NEGATIVE,
    OFFSET,
    OSMOLALITY,
    OXYGEN_PER_GLUCOSE,
    PARTICLES,
    SENSED,
    SENSOR,
    SPECIES,
    SPENT,
    STATES,
    TISSUE_RATES,
    USES_GLUCOSE,
    WATER,
    Array,
    MediaState,
    label_sd,
    number_of,
    of_composition,
)
from protocols.soft_sensor import (
    CO2_SOLUBILITY_MM_MMHG,
    PH_OF_FRESH,
    PK_CARBONIC,
    Composition,
    MediaEstimate,
    MediaValues,
    Where,
)

LONGEST_STEP_D = 0.25
"""Maximum time step for which uptake counts as constant (days)."""
KM_GLUCOSE_MM, KM_GLUTAMINE_MM = 1.6, 0.047
"""Concentrations at half of the maximum uptake.

GLUT3 for glucose, the CHO Monod model for glutamine (biology.md §1.1).
"""
SENSOR_SD_MM = {"lactate_mm": 0.05, "glucose_mm": 0.08, "ammonia_mm": 0.02}
"""Scatter of one reading (mM)."""
SENSOR_LOSS_PER_D = 0.02
"""Mean share of their sensitivity that enzyme electrodes lose in a day (1–3 %)."""
PH_SD = 0.0035
"""Scatter between readings: pH ± 0.003, gas ± 0.4 %."""
RATES_DRIFT, RATE_DRIFT = 0.05, 0.015
"""Relative change per day (growing with its square root) of all the tissue's rates together, and of each by itself.

In addition to growth, the rates of healthy simulated cultures wander by 0.025 together; those of an ill one change faster,
and the estimate must follow.
"""
GROWTH_DRIFT = GROWTH_SD_PER_D * math.sqrt(2.0 * GOMPERTZ_PER_D)
"""Change of the growth of the rates (1/day, per √day) that keeps its deviation as it was, while growth slows down."""
DRIFT_SQRT_D = {DECAY: 0.002, WATER: 4.0, PARTICLES: 0.02, BIAS: 0.002, BUFFER: 0.05, FUEL: 0.1, GROWTH: GROWTH_DRIFT}
DRIFT_SQRT_D |= dict.fromkeys(range(SENSOR, OFFSET), 0.013)
DRIFT_SQRT_D |= dict.fromkeys(range(OFFSET, LABORATORY), 0.02)
DRIFT_SQRT_D |= dict.fromkeys(range(BOTTLE, GROWTH), 0.1)
"""The same for the other parameters; that of a pH probe is 0.001–0.004 a day, mostly in one direction."""
UNKNOWN_SQRT_D = (0.04, 0.03, 0.002, 0.01, 0.05, 0.2)
"""Effects outside the balances, by species: other acids, amino acids, the dead volume of lines."""

POURED_REL_SD = 0.02
"""Accuracy of the shares of a mixture: volumes in lines, of vessels, of transfers that nothing weighs."""
READING_GATE = 3.0
"""A titration or a reading on line further off than this has no more weight than one at the gate."""
FURTHEST = 1e6
"""Distance of a reading (pH, mM, µmol/day) beyond which it is no further off: it has no weight, and its square is finite."""
MIN_SD = np.array(
    [1e-4] * 2 * len(SPECIES)
    + [1e-3, 1e-3, 1e-4, 1e-5, 1e-2, 1e-3, 1e-5, 1e-3, 1e-4]
    + [1e-5] * 2 * len(SENSED)
    + [1e-4] * 2 * len(SPECIES)
    + [1e-4]
    + [1e-5] * len(SPECIES)
)
"""Minimum distances of sigma points."""


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
    # Uptake is constant within a step; the rates grow at its end.
    after[:, TISSUE_RATES] *= np.exp(np.clip(cloud[:, GROWTH], -1.0, 1.0) * days)[:, None]
    after[:, GROWTH] *= math.exp(-GOMPERTZ_PER_D * days)
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


def moved(
    state: MediaState,
    source: Where | Composition | None,
    target: Where | None,
    ul: float,
    *,
    complete: bool = False,
    label: Array | None = None,
    aged: Array | None = None,
) -> MediaState:
    """Return the state after a transfer of `ul` from a vessel or a stock into a vessel, or away (`target=None`).

    `complete`: the stock is the medium that the loop was filled with, whose label errs in the same way. `label`: the
    deviation of a stock from its label; by default the usual one. `aged`: the deviation by its age, which no assay of the
    label tells anything of; by default none.
    """
    if source is None or ul <= 0:
        return state
    state = _withdrawn(state, source, ul)
    return state if target is None else _added(state, source, target, ul, complete, label, aged)


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


def _added(
    state: MediaState,
    source: Where | Composition,
    target: Where,
    ul: float,
    complete: bool,
    label: Array | None,
    aged: Array | None,
) -> MediaState:
    """Return the state after `ul` of a vessel or a stock was mixed into the vessel `target`."""
    before_ul = state.loop_ul if target == "loop" else state.spent_ul
    share = ul / (before_ul + ul)
    into = _species_of(target)
    known = state.mean[into].copy()
    matrix = np.eye(STATES)
    np.fill_diagonal(matrix[into, into], 1.0 - share)
    if isinstance(source, Composition):
        poured = of_composition(source)
        label = label_sd(poured) if label is None else label
        if complete:
            matrix[into, BOTTLE:GROWTH] = share * np.diag(label)
            label = label * 0.0
        if aged is not None:
            label = np.hypot(label, aged)
        here = np.sqrt(np.maximum(np.diag(state.covariance)[into], 0.0))
        # The same stock may have been poured here before: its error adds up linearly, not as a random walk.
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
    number, error = number_of(where, species), SENSOR + SENSED.index(INDEX[species])
    look = np.zeros(STATES)
    offset = error + len(SENSED)
    look[number], look[error], look[offset] = 1.0 + float(state.mean[error]), max(float(state.mean[number]), 0.0), 1.0
    return look, value - look[number] * look[error] - float(state.mean[offset])


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
    off = min(max(off, -FURTHEST), FURTHEST)
    spread = float(look @ state.covariance @ look)
    distance = abs(off) / math.sqrt(spread + sd * sd)
    if distance > READING_GATE:
        sd = math.sqrt((spread + sd * sd) * (distance / READING_GATE) ** 2 - spread)
    belief = unscented.measured((state.mean, state.covariance), look, float(look @ state.mean) + off, sd)
    return corrected(state, belief)


def corrected(state: MediaState, belief: unscented.Belief, distance: float | None = None) -> MediaState:
    """Return the state after an observation at `distance` deviations from the estimate; None is no evidence of noise."""
    mean, covariance = _within(belief)
    evidence = state.evidence
    if distance is not None:
        count, total = (NOISE_MEMORY * part for part in evidence)
        evidence = (count + 1.0, total + min(distance, READING_GATE) ** 2)
    return replace(state, mean=mean, covariance=covariance, observations=state.observations + 1, evidence=evidence)


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
