"""The soft sensor: lactate, ammonia, glucose and osmolality of medium that no probe measures on this rig.

Idea. Keep for each compartment (loop, spent vessel) the *inert* composition: what it would be had nothing lived in the
rig, known from the stocks and every transfer. Tissue changes that in ways tied together by stoichiometry:

* each lactic acid titrates one bicarbonate, so `lactate made = inert alkalinity − measured alkalinity`, where the
  measured alkalinity follows from pH and pCO2 (Henderson–Hasselbalch, pK 6.1, 0.0307 mmol/L/mmHg; biology.md §1.3,
  checked there against human CSF and blood) and pCO2 from the gas flows over the loop;
* glucose used = lactate made / yield; ammonia = a tissue yield on lactate + the chemical decay of glutamine.

The titration is blended with a prediction (rate of lactate making, learnt on the way) by a two-state Kalman filter
per compartment, so a bad pH probe cannot move the estimate faster than tissue can.

Assumptions, each a source of the bounds: the loop is in equilibrium with its gas; bicarbonate leaves in no other way;
the medium was what the rig file says when the journal began; probe error is partly systematic, so that repeated readings
do not average it away. All functions are pure; the state is plain numbers and lives in the journal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, Self

from protocols.interval import Interval

VERSION = "soft-sensor-1"

PK_CARBONIC = 6.1
CO2_SOLUBILITY_MM_MMHG = 0.0307
DRY_PRESSURE_MMHG = 760.0 - 47.0
"""Barometric pressure less water vapour at 37 °C."""

BUFFER_MM_PER_PH, BUFFER_SD = 3.0, 1.5
"""Non-bicarbonate buffer (phosphate, protein): about 2–5 mM per pH (biology.md §1.3)."""
PH_OF_FRESH = 7.5
"""Where fresh medium's bicarbonate is nominal: 27.5 mM at 5 % CO2."""
PCO2_REL_SD = 0.04
"""Flow controllers about 2 %, barometer 1.3 %, distance from equilibrium 3 %."""
PH_SD = 0.02
SYSTEMATIC_SHARE = 0.5
"""Share of the titration's error that repeats from reading to reading."""

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
    """One body of medium. `made_*` is what tissue added (mM); `rate_cov` ties its error to that of the rate."""

    volume_ul: float
    inert: Composition
    made_mm: float = 0.0
    made_sd_mm: float = 0.0
    rate_cov: float = 0.0
    decayed_mm: float = 0.0
    """Ammonia from the decay of glutamine."""
    osmolality_sd: float = 2.0

    def mixed(self, other: Compartment, volume_ul: float) -> Compartment:
        """With `volume_ul` of `other` poured in. Errors are taken as wholly shared: the careful assumption."""
        total = self.volume_ul + volume_ul
        if total <= 0:
            return self
        share = volume_ul / total

        def blend(a: float, b: float) -> float:
            return a + (b - a) * share

        return Compartment(
            volume_ul=total,
            inert=self.inert.mixed(other.inert, share),
            made_mm=blend(self.made_mm, other.made_mm),
            made_sd_mm=blend(self.made_sd_mm, other.made_sd_mm),
            rate_cov=blend(self.rate_cov, other.rate_cov),
            decayed_mm=blend(self.decayed_mm, other.decayed_mm),
            osmolality_sd=blend(self.osmolality_sd, other.osmolality_sd),
        )


@dataclass(frozen=True, slots=True)
class SensorState:
    """Everything the soft sensor remembers. `rate_umol_d` is the tissue's lactate making (µmol/day)."""

    loop: Compartment
    spent: Compartment
    rate_umol_d: float
    rate_sd: float
    observations: int = 0

    def to_json(self) -> dict[str, Any]:
        """Plain numbers for the journal."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """What :meth:`to_json` wrote."""
        return cls(
            _compartment(data["loop"]),
            _compartment(data["spent"]),
            data["rate_umol_d"],
            data["rate_sd"],
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
    return SensorState(loop, spent, rate, RATE_REL_SD * rate)


def elapsed(
    state: SensorState, seconds: float, *, evaporated_ul: float = 0.0, evaporated_sd_ul: float = 0.0
) -> SensorState:
    """Time passes: tissue works in the loop, glutamine decays everywhere, water leaves the loop."""
    if seconds <= 0:
        return state
    days = seconds / DAY_S
    loop = _decayed(state.loop, days)
    left = max(loop.volume_ul - evaporated_ul, 1.0)
    thicker = loop.volume_ul / left
    per_litre = days / (left * 1e-6) * 1e-3  # µmol/day of rate → mM made
    sd2 = loop.made_sd_mm**2 + 2 * loop.rate_cov * per_litre + (state.rate_sd * per_litre) ** 2
    loop = replace(
        loop,
        volume_ul=left,
        inert=loop.inert.scaled(thicker),
        made_mm=loop.made_mm * thicker + state.rate_umol_d * per_litre,
        made_sd_mm=math.sqrt(max(sd2, 0.0)),
        rate_cov=loop.rate_cov + state.rate_sd**2 * per_litre,
        decayed_mm=loop.decayed_mm * thicker,
        osmolality_sd=loop.osmolality_sd + loop.inert.osmolality_mosm * evaporated_sd_ul / left,
    )
    wander = (RATE_DRIFT_REL_PER_D * state.rate_umol_d) ** 2 * days
    ceiling = RATE_REL_SD * state.rate_umol_d
    rate_sd = max(state.rate_sd, min(math.sqrt(state.rate_sd**2 + wander), ceiling))
    return replace(state, loop=loop, spent=_decayed(state.spent, days), rate_sd=rate_sd)


def _decayed(part: Compartment, days: float) -> Compartment:
    lost = part.inert.glutamine_mm * -math.expm1(-GLUTAMINE_DECAY_PER_D * days)
    inert = replace(part.inert, glutamine_mm=part.inert.glutamine_mm - lost)
    return replace(part, inert=inert, decayed_mm=part.decayed_mm + lost)


def moved(state: SensorState, source: Where | Composition | None, target: Where | None, ul: float) -> SensorState:
    """`ul` went from a compartment or a stock into a compartment, or away (`target=None`)."""
    if isinstance(source, Composition):
        poured = Compartment(volume_ul=ul, inert=source, osmolality_sd=2.0)
    elif source is None:
        return state
    else:
        poured = getattr(state, source)
        emptied = replace(poured, volume_ul=max(poured.volume_ul - ul, 0.0))
        state = replace(state, loop=emptied) if source == "loop" else replace(state, spent=emptied)
    if target == "loop":
        return replace(state, loop=state.loop.mixed(poured, ul))
    if target == "spent":
        return replace(state, spent=state.spent.mixed(poured, ul))
    return state


def pco2_mmhg(co2_ml_min: float, total_ml_min: float) -> float:
    """Partial pressure of CO2 over the loop (mmHg) of a gas that is saturated with water at 37 °C."""
    return DRY_PRESSURE_MMHG * co2_ml_min / total_ml_min


def bicarbonate_mm(ph: float, pco2: float) -> float:
    """[HCO3-] in mM at `ph` under `pco2` mmHg."""
    return float(CO2_SOLUBILITY_MM_MMHG * pco2 * 10.0 ** (ph - PK_CARBONIC))


def titrated(state: SensorState, ph: float, pco2: float, *, ph_sd: float = PH_SD) -> SensorState:
    """Correct by a pH of the loop (37 °C) under `pco2` (mmHg). Readings out of all reason are the caller's to drop."""
    loop, spent = state.loop, state.spent
    bicarbonate = bicarbonate_mm(ph, pco2)
    buffered = BUFFER_MM_PER_PH * (ph - PH_OF_FRESH)
    made = loop.inert.bicarbonate_mm - bicarbonate - buffered
    variance = (
        (bicarbonate * math.log(10) * ph_sd) ** 2
        + (bicarbonate * PCO2_REL_SD) ** 2
        + (BUFFER_SD * (ph - PH_OF_FRESH)) ** 2
    )
    surprise = made - loop.made_mm
    spread = loop.made_sd_mm**2 + variance
    gain = loop.made_sd_mm**2 / spread
    gain_rate = loop.rate_cov / spread
    gain_spent = loop.made_sd_mm * spent.made_sd_mm / spread
    floor = SYSTEMATIC_SHARE * math.sqrt(variance)
    rate = max(state.rate_umol_d + gain_rate * surprise, 0.0)
    return SensorState(
        loop=replace(
            loop,
            made_mm=max(loop.made_mm + gain * surprise, 0.0),
            made_sd_mm=max(math.sqrt(loop.made_sd_mm**2 * (1 - gain)), min(floor, loop.made_sd_mm)),
            rate_cov=loop.rate_cov * (1 - gain),
        ),
        spent=replace(
            spent,
            made_mm=max(spent.made_mm + gain_spent * surprise, 0.0),
            made_sd_mm=max(
                math.sqrt(max(spent.made_sd_mm**2 - gain_spent**2 * spread, 0.0)), min(floor, spent.made_sd_mm)
            ),
            rate_cov=spent.rate_cov - gain_spent * loop.rate_cov,
        ),
        rate_umol_d=rate,
        rate_sd=math.sqrt(max(state.rate_sd**2 - gain_rate**2 * spread, (0.05 * rate) ** 2)),
        observations=state.observations + 1,
    )


def estimate(state: SensorState, *, titrated: bool) -> MediaEstimate:
    """The state as concentrations with bounds."""
    return MediaEstimate(
        loop=_media(state.loop),
        spent=_media(state.spent),
        lactate_umol_d=Interval.around(state.rate_umol_d, state.rate_sd, floor=0.0),
        titrated=titrated,
    )


def _media(part: Compartment) -> MediaValues:
    inert, made, sd = part.inert, part.made_mm, part.made_sd_mm
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
