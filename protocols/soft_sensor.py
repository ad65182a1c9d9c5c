"""The soft sensor: lactate, ammonia, glucose and osmolality of medium that no probe measures on this rig.

Idea. Keep for each compartment (loop, spent vessel) the *inert* composition: what it would be had nothing lived in the
rig, known from the stocks and every transfer. Tissue changes that in ways tied together by stoichiometry:

* each lactic acid titrates one bicarbonate, so `lactate made = inert alkalinity − measured alkalinity`, where the
  measured alkalinity follows from pH and pCO2 (Henderson–Hasselbalch, pK 6.1, 0.0307 mmol/L/mmHg; biology.md §1.3,
  checked there against human CSF and blood) and pCO2 from the gas flows over the loop;
* glucose used = lactate made / yield; ammonia = a tissue yield on lactate + the chemical decay of glutamine.

The titration is blended with a prediction by a Kalman filter over four unknowns: lactate made in the loop and in the
spent vessel, the rate of making it, and the titration's own bias (calibration of probe and gas, barometer), which wanders
slowly. Transfers and time are linear in them. So repeated readings do not average a probe's error away, a reading of fresh
medium calibrates it, and a probe gone bad cannot move the estimate faster than tissue could.

Assumptions, each a source of the bounds: the loop is in equilibrium with its gas; bicarbonate leaves in no other way;
the medium was what the rig file says when the journal began. All functions are pure; the state is plain numbers and lives
in the journal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from protocols.interval import Interval

VERSION = "soft-sensor-1"

Matrix = tuple[tuple[float, ...], ...]

PK_CARBONIC = 6.1
CO2_SOLUBILITY_MM_MMHG = 0.0307
DRY_PRESSURE_MMHG = 760.0 - 47.0
"""Barometric pressure less water vapour at 37 °C."""

BUFFER_MM_PER_PH = 3.0
"""Non-bicarbonate buffer (phosphate, protein): about 2–5 mM per pH (biology.md §1.3)."""
PH_OF_FRESH = 7.5
"""Where fresh medium's bicarbonate is nominal: 27.5 mM at 5 % CO2."""
BIAS_SD_MM, BIAS_DRIFT_MM_SQRT_D = 1.2, 0.25
"""The titration's systematic error in mM: pH ± 0.015 (0.8), pCO2 ± 3 % (0.7: flow controllers, barometer, distance from
equilibrium), buffer (0.3); and how far it wanders in a day (a probe's 0.004 pH).
"""
NOISE_SD_MM = 0.35
"""From reading to reading: pH ± 0.005, gas ± 0.5 %."""

YIELD_LACTATE, YIELD_LACTATE_SD = 1.4, 0.2
"""Lactate per glucose, mol/mol: 1.0–1.4 with oxygen, 2.0 without (biology.md §1.1); large organoids are in between."""
YIELD_AMMONIA, YIELD_AMMONIA_SD = 0.05, 0.015
"""Ammonia per lactate made, mol/mol. A choice: no organoid figure was found (biology.md §7)."""
GLUTAMINE_DECAY_PER_D, GLUTAMINE_DECAY_REL_SD = 0.0755, 0.27
"""Half-life 6–20 d: the middle and, at two standard deviations, about the ends of 0.035–0.116 per day (§1.1)."""

TISSUE_LACTATE_MM_PER_S = 5.4e-3 * YIELD_LACTATE
"""Adult human cortex uses 5.4e-3 mol/m³/s of glucose (§1.1); mol/m³ is mM."""
RATE_REL_SD = 0.5
RATE_DRIFT_REL_PER_D = 0.15
"""How far the rate may wander in a day, as a share of itself."""
DAY_S = 86_400.0
LEAST_LOOP_UL = 1000.0
"""A loop that the ledger believes to be empty is reckoned with so much: the figures stay finite."""

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

    def mixed(self, other: Self, share: float) -> Self:
        """A mixture that holds `share` (0..1) of `other`."""
        return type(self)(*(a + (b - a) * share for a, b in zip(_values(self), _values(other), strict=True)))

    def scaled(self, factor: float) -> Self:
        """All concentrations times `factor` (water lost or added)."""
        return type(self)(*(value * factor for value in _values(self)))


def _values(composition: Composition) -> tuple[float, ...]:
    return tuple(getattr(composition, field.name) for field in fields(composition))


@dataclass(frozen=True, slots=True)
class Compartment:
    """One body of medium: its volume, what it would be had nothing lived in it, and the glutamine that decayed."""

    volume_ul: float
    inert: Composition
    decayed_mm: float = 0.0
    """Ammonia from the decay of glutamine."""
    osmolality_sd: float = 2.0

    def mixed(self, other: Compartment, volume_ul: float) -> Compartment:
        """With `volume_ul` of `other` poured in."""
        total = self.volume_ul + volume_ul
        if total <= 0:
            return self
        share = volume_ul / total
        return Compartment(
            volume_ul=total,
            inert=self.inert.mixed(other.inert, share),
            decayed_mm=self.decayed_mm + (other.decayed_mm - self.decayed_mm) * share,
            osmolality_sd=self.osmolality_sd + (other.osmolality_sd - self.osmolality_sd) * share,
        )


LOOP, SPENT, RATE, BIAS = range(4)
"""The unknowns: lactate made in loop and spent vessel (mM), tissue's rate (µmol/day), bias of the titration (mM)."""


@dataclass(frozen=True, slots=True)
class SensorState:
    """Everything the soft sensor remembers: two compartments, the unknowns' best values and their covariance."""

    loop: Compartment
    spent: Compartment
    unknowns: tuple[float, ...]
    covariance: Matrix
    observations: int = 0

    @property
    def rate_umol_d(self) -> float:
        """The tissue's lactate making (µmol/day)."""
        return self.unknowns[RATE]

    @property
    def rate_sd(self) -> float:
        """Its standard deviation."""
        return self.sd(RATE)

    def sd(self, unknown: int) -> float:
        """Standard deviation of one unknown."""
        return math.sqrt(max(self.covariance[unknown][unknown], 0.0))

    def to_json(self) -> dict[str, Any]:
        """Plain numbers for the journal."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """What :meth:`to_json` wrote."""
        return cls(
            _compartment(data["loop"]),
            _compartment(data["spent"]),
            tuple(data["unknowns"]),
            tuple(tuple(row) for row in data["covariance"]),
            data["observations"],
        )


def _compartment(data: Mapping[str, Any]) -> Compartment:
    return Compartment(**{**data, "inert": Composition(**data["inert"])})


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
        """What :meth:`to_json` wrote."""
        return cls(**{name: Interval.from_json(part) for name, part in data.items()})

    def to_json(self) -> dict[str, Any]:
        """Plain numbers for the journal."""
        return {field.name: getattr(self, field.name).to_json() for field in fields(self)}


@dataclass(frozen=True, slots=True)
class MediaEstimate:
    """What the soft sensor believes; `titrated` tells whether pH and pCO2 went into it just now."""

    loop: MediaValues
    spent: MediaValues
    lactate_umol_d: Interval
    titrated: bool
    version: str = VERSION

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """What :meth:`to_json` wrote."""
        return cls(
            MediaValues.from_json(data["loop"]),
            MediaValues.from_json(data["spent"]),
            Interval.from_json(data["lactate_umol_d"]),
            data["titrated"],
            data["version"],
        )

    def to_json(self) -> dict[str, Any]:
        """Plain numbers for the journal."""
        return {
            "loop": self.loop.to_json(),
            "spent": self.spent.to_json(),
            "lactate_umol_d": self.lactate_umol_d.to_json(),
            "titrated": self.titrated,
            "version": self.version,
        }


def begin(loop: Compartment, spent: Compartment, *, tissue_mm3: float) -> SensorState:
    """A rig whose vessels hold fresh medium and `tissue_mm3` of tissue, at the rate of adult cortex ± 50 %."""
    rate = tissue_mm3 * 1e-6 * TISSUE_LACTATE_MM_PER_S * DAY_S * 1e3  # mm³ → L, mmol → µmol
    variances = (0.0, 0.0, (RATE_REL_SD * rate) ** 2, BIAS_SD_MM**2)
    covariance = tuple(tuple(v if row == column else 0.0 for column in range(4)) for row, v in enumerate(variances))
    return SensorState(loop, spent, (0.0, 0.0, rate, 0.0), covariance)


def _linear(state: SensorState, change: Mapping[tuple[int, int], float]) -> SensorState:
    """Let the unknowns go through a linear map: the identity with the entries of `change` in place."""
    matrix = np.eye(4)
    for place, value in change.items():
        matrix[place] = value
    unknowns = matrix @ np.array(state.unknowns)
    covariance = matrix @ np.array(state.covariance) @ matrix.T
    return replace(state, unknowns=tuple(unknowns.tolist()), covariance=_symmetric(covariance))


def _symmetric(covariance: NDArray[np.float64]) -> Matrix:
    return tuple(tuple(row) for row in ((covariance + covariance.T) / 2).tolist())


def elapsed(
    state: SensorState, seconds: float, *, evaporated_ul: float = 0.0, evaporated_sd_ul: float = 0.0
) -> SensorState:
    """Time passes: tissue works in the loop, glutamine decays everywhere, water leaves the loop, the probe drifts."""
    if seconds <= 0:
        return state
    days = seconds / DAY_S
    loop = _decayed(state.loop, days)
    left = max(loop.volume_ul - evaporated_ul, LEAST_LOOP_UL)
    thicker = loop.volume_ul / left
    made_per_rate = days / left * 1e3  # µmol/day over µL → mM
    state = _linear(state, {(LOOP, LOOP): thicker, (LOOP, RATE): made_per_rate})
    covariance = [list(row) for row in state.covariance]
    covariance[RATE][RATE] += (RATE_DRIFT_REL_PER_D * state.rate_umol_d) ** 2 * days
    covariance[BIAS][BIAS] += BIAS_DRIFT_MM_SQRT_D**2 * days
    loop = replace(
        loop,
        volume_ul=left,
        inert=loop.inert.scaled(thicker),
        decayed_mm=loop.decayed_mm * thicker,
        osmolality_sd=loop.osmolality_sd + loop.inert.osmolality_mosm * evaporated_sd_ul / left,
    )
    return replace(
        state, loop=loop, spent=_decayed(state.spent, days), covariance=tuple(tuple(row) for row in covariance)
    )


def _decayed(part: Compartment, days: float) -> Compartment:
    lost = part.inert.glutamine_mm * -math.expm1(-GLUTAMINE_DECAY_PER_D * days)
    inert = replace(part.inert, glutamine_mm=part.inert.glutamine_mm - lost)
    return replace(part, inert=inert, decayed_mm=part.decayed_mm + lost)


def moved(state: SensorState, source: Where | Composition | None, target: Where | None, ul: float) -> SensorState:
    """`ul` went from a compartment or a stock into a compartment, or away (`target=None`)."""
    if source is None or ul <= 0:
        return state
    if isinstance(source, Composition):
        poured = Compartment(volume_ul=ul, inert=source)
    else:
        poured = _part(state, source)
        state = _with_part(state, source, replace(poured, volume_ul=max(poured.volume_ul - ul, 0.0)))
    if target is None:
        return state
    taker = _part(state, target)
    into = LOOP if target == "loop" else SPENT
    share = ul / (taker.volume_ul + ul)
    change = {(into, into): 1.0 - share}
    if not isinstance(source, Composition):
        giver = LOOP if source == "loop" else SPENT
        change[(into, giver)] = change.get((into, giver), 0.0) + share
    return _with_part(_linear(state, change), target, taker.mixed(poured, ul))


def _part(state: SensorState, where: Where) -> Compartment:
    return state.loop if where == "loop" else state.spent


def _with_part(state: SensorState, where: Where, part: Compartment) -> SensorState:
    return replace(state, loop=part) if where == "loop" else replace(state, spent=part)


def pco2_mmhg(co2_ml_min: float, total_ml_min: float) -> float:
    """Partial pressure of CO2 over the loop (mmHg) of a gas that is saturated with water at 37 °C."""
    return DRY_PRESSURE_MMHG * co2_ml_min / total_ml_min


def bicarbonate_mm(ph: float, pco2: float) -> float:
    """[HCO3-] in mM at `ph` under `pco2` mmHg."""
    return float(CO2_SOLUBILITY_MM_MMHG * pco2 * 10.0 ** (ph - PK_CARBONIC))


def titrated(state: SensorState, ph: float, pco2: float) -> SensorState:
    """Correct by a pH of the loop (37 °C) under `pco2` (mmHg). Readings out of all reason are the caller's to drop."""
    buffered = BUFFER_MM_PER_PH * (ph - PH_OF_FRESH)
    seen = state.loop.inert.bicarbonate_mm - bicarbonate_mm(ph, pco2) - buffered
    unknowns, covariance = np.array(state.unknowns), np.array(state.covariance)
    look = np.zeros(4)
    look[LOOP] = look[BIAS] = 1.0
    gain = covariance @ look / (look @ covariance @ look + NOISE_SD_MM**2)
    unknowns = unknowns + gain * (seen - look @ unknowns)
    rest = np.eye(4) - np.outer(gain, look)
    # Joseph's form: the covariance stays one, whatever rounding does.
    covariance = rest @ covariance @ rest.T + np.outer(gain, gain) * NOISE_SD_MM**2
    unknowns[[LOOP, SPENT, RATE]] = np.maximum(unknowns[[LOOP, SPENT, RATE]], 0.0)
    return replace(
        state,
        unknowns=tuple(unknowns.tolist()),
        covariance=_symmetric(covariance),
        observations=state.observations + 1,
    )


def estimate(state: SensorState, *, titrated: bool) -> MediaEstimate:
    """The state as concentrations with bounds."""
    return MediaEstimate(
        loop=_media(state.loop, state.unknowns[LOOP], state.sd(LOOP)),
        spent=_media(state.spent, state.unknowns[SPENT], state.sd(SPENT)),
        lactate_umol_d=Interval.around(state.rate_umol_d, state.rate_sd, floor=0.0),
        titrated=titrated,
    )


def _media(part: Compartment, made: float, sd: float) -> MediaValues:
    """`made` ± `sd` is the lactate that tissue added (mM)."""
    inert = part.inert
    used = made / YIELD_LACTATE
    used_sd = math.hypot(sd / YIELD_LACTATE, used * YIELD_LACTATE_SD / YIELD_LACTATE)
    ammonia = inert.ammonia_mm + YIELD_AMMONIA * made + part.decayed_mm
    ammonia_sd = math.sqrt(
        (YIELD_AMMONIA * sd) ** 2 + (YIELD_AMMONIA_SD * made) ** 2 + (GLUTAMINE_DECAY_REL_SD * part.decayed_mm) ** 2
    )
    # Lactate comes, bicarbonate (as CO2) and glucose go: particles lost with each lactate made.
    osmolality = inert.osmolality_mosm - used
    return MediaValues(
        lactate_mm=Interval.around(inert.lactate_mm + made, sd, floor=0.0),
        ammonia_mm=Interval.around(ammonia, ammonia_sd, floor=0.0),
        glucose_mm=Interval.around(inert.glucose_mm - used, used_sd, floor=0.0),
        bicarbonate_mm=Interval.around(inert.bicarbonate_mm - made, sd, floor=0.0),
        osmolality_mosm=Interval.around(osmolality, math.hypot(part.osmolality_sd, used_sd), floor=0.0),
    )
