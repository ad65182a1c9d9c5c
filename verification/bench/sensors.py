"""What the instruments and the estimator of the medium show of one simulated culture, hour by hour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from controller.estimator.rig_medium import composition_of
from controller.rig.description import Rig
from controller.rig.families import PH
from controller.vitals.tissue_inputs import UNCERTAINTY
from protocols import media_assays, media_filter, media_state
from protocols.interval import K_BOUND, Interval
from protocols.ldh_requests import AGAIN_H, CONCERN
from protocols.soft_sensor import BUFFER_MM_PER_PH, BUFFER_SD_MM_PER_PH, pco2_mmhg
from protocols.tissue.look import TissueLook
from sim.neurons.conditions import TissueConditions
from sim.neurons.rates import RateModel
from sim.plant.sensors import USUAL
from verification.bench.cultures import EXCHANGE_EVERY_H, EXCHANGED_SHARE, F8

WEEK_H = 24 * 7
ANSWER_H = 12
FIRST_ASSAY_H = 6
TITRATED_EVERY_H = 6
"""Time between two corrections of the estimate by pH and gas, as recipes make them."""
PH_SD, CO2_REL_SD = 0.004, 0.005
"""Scatter of pH and of CO2 from one correction to the next."""
PH_DRIFT_PER_D = USUAL[PH].drift
"""Deviation of the drift of pH probes (1/day): that of the simulated probe."""
PH_RANGE, CO2_PCT_RANGE = (6.5, 8.0), (0.5, 20.0)
"""Readings outside are not used (:mod:`controller.estimator`)."""
RATE_KNOWN_REL_SD = 0.25
SPECIES = ("lactate_mm", "glucose_mm", "ammonia_mm")
ASSAY_REL_SD, ASSAY_SD_MM = 0.05, 0.03


@dataclass(frozen=True, slots=True)
class Equipment:
    """What a rig measures in addition to temperature, pH, flow, and gas and oxygen of the loop."""

    name: str
    outlet_oxygen: bool
    weekly: bool
    """A brightfield image and an assay of lactate, glucose, ammonia and LDH each week."""
    electrodes: bool
    ldh_on_concern: bool = False
    """Assays of LDH as `recycle` asks for them (:mod:`protocols.ldh_requests`), each made :data:`ANSWER_H` later."""


class MediumSeen:
    """The estimator of the medium (:mod:`protocols.media_filter`) on one culture: pH and gas, exchanges, weekly assays.

    It knows the label of what is fed, and not what a harm has added to it or taken from it.
    """

    def __init__(self, rig: Rig, truth: Mapping[str, F8], random: np.random.Generator, ph_offset: float) -> None:
        self._truth, self._random = truth, random
        self._fresh = composition_of(rig.media[rig.vessels[rig.loop or ""].contains or ""])
        tissue = next(iter(rig.tissue.values()))
        self._loop_ul = rig.vessels[rig.loop or ""].volume_ul
        self._whole_ul = self._loop_ul + rig.vessels[next(iter(rig.tissue))].volume_ul
        self._ph_offset, self._ph_drift = ph_offset, random.normal(0.0, PH_DRIFT_PER_D / 24.0)
        self._co2 = 1.0 + random.normal(0.0, media_state.PCO2_REL_SD)
        self.state = media_state.begin(
            self._fresh,
            self._fresh,
            loop_ul=self._whole_ul,
            spent_ul=media_state.MIN_UL,
            tissue_mm3=tissue.count * np.pi / 6.0 * tissue.diameter_mm**3,
            water_ul_d=media_state.WATER_UL_D,
            buffer=(BUFFER_MM_PER_PH, BUFFER_SD_MM_PER_PH),
            growth_per_d=media_state.growth_of(np.pi / 6.0 * tissue.diameter_mm**3),
        )

    def hour(self, hour: int, *, assay: bool) -> bool:
        """Let one hour pass; return whether the state was corrected at its end."""
        if hour % EXCHANGE_EVERY_H == EXCHANGE_EVERY_H - 1:
            part_ul = EXCHANGED_SHARE * self._loop_ul
            self.state = media_filter.moved(self.state, "loop", None, part_ul)
            self.state = media_filter.moved(self.state, self._fresh, "loop", part_ul, complete=True)
        self.state = media_filter.elapsed(self.state, 3600.0, water_ul_d=0.0)
        titrated = hour % TITRATED_EVERY_H == 0 and self._titrate(hour)
        if assay:
            for name in SPECIES:
                self._assay(name, float(self._truth[name][hour]))
        return titrated or assay

    def lactate_umol_d(self) -> Interval | None:
        """Return the production of lactate, if it is certain enough to show a trend."""
        rate, sd = self.state.rate_umol_d, self.state.sd(media_state.MAKES_LACTATE)
        return Interval.around(rate, sd, floor=0.0) if sd <= RATE_KNOWN_REL_SD * rate else None

    def _titrate(self, hour: int) -> bool:
        normal = self._random.normal
        ph = float(self._truth["ph"][hour]) + self._ph_offset + self._ph_drift * hour + normal(0.0, PH_SD)
        co2_pct = float(self._truth["co2_pct"][hour]) * (self._co2 + normal(0.0, CO2_REL_SD))
        low, high = CO2_PCT_RANGE
        if not (PH_RANGE[0] < ph < PH_RANGE[1] and low < co2_pct < high):
            return False
        self.state = media_filter.titrated(self.state, ph, pco2_mmhg(co2_pct, 100.0))
        return True

    def _assay(self, name: str, true_mm: float) -> None:
        sd = max(ASSAY_REL_SD * true_mm, ASSAY_SD_MM)
        found = true_mm + self._random.normal(0.0, sd)
        self.state = media_assays.assayed(self.state, "loop", name, max(found, 0.0), sd)


class Sensors:
    """What the instruments of one culture show of its truth."""

    def __init__(self, rig: Rig, truth: Mapping[str, F8], rates: RateModel, equipment: Equipment, seed: int) -> None:
        """Begin with offsets drawn by `seed`. Call :meth:`update` for each hour in order."""
        self._truth, self._rates, self._equipment = truth, rates, equipment
        self._random = np.random.default_rng((seed, 7))
        normal = self._random.normal
        self._offset = {
            "temperature_c": normal(0, 0.15),
            "ph": normal(0, media_state.PH_CALIBRATION_SD),
            "in": normal(0, 1.0),
            "out": normal(0, 1.0),
        }
        self._drift = normal(0, 0.08 / WEEK_H)
        self._wander = 0.0
        self._ldh_h = FIRST_ASSAY_H
        """The hour of the last requested result, which may be still to come."""
        self._medium = MediumSeen(rig, truth, np.random.default_rng((seed, 11)), self._offset["ph"])

    def update(self, hour: int, *, lost: float = 0.0) -> TissueLook:
        """Return the readings of one hour; `lost` is the loss that the estimate expected in the hour before."""
        equipment = self._equipment
        true, normal = {name: float(values[hour]) for name, values in self._truth.items()}, self._random.normal
        temperature = true["temperature_c"] + self._offset["temperature_c"]
        seen = true["loop_oxygen_pct"] + self._offset["in"]
        outlet = true["oxygen_pct"] + self._offset["out"]
        drop = max((seen - outlet) * (1.0 + self._drift * hour) + normal(0.0, 0.4), 0.0)
        flow = true["flow_share"]
        due = equipment.weekly and hour % WEEK_H == FIRST_ASSAY_H
        corrected = self._medium.hour(hour, assay=due)
        medium = self._medium.state
        ldh = self._ldh_due(hour, lost) or due
        return TissueLook(
            temperature_c=Interval.around(temperature + normal(0, 0.03), 0.15),
            oxygen_pct=Interval.around(outlet if equipment.outlet_oxygen else seen, 1.5, floor=0.0),
            oxygen_at_tissue=equipment.outlet_oxygen,
            flow_share=Interval.around(flow, 0.03, floor=0.0),
            ph=Interval.around(true["ph"] + self._offset["ph"], UNCERTAINTY["ph"] / K_BOUND),
            glucose_mm=medium.interval("loop", "glucose_mm"),
            lactate_mm=medium.interval("loop", "lactate_mm"),
            ammonia_mm=medium.interval("loop", "ammonia_mm"),
            osmolality_mosm=medium.interval("loop", "osmolality_mosm"),
            oxygen_uptake=Interval.around(flow * drop, 0.5 * flow, floor=0.0) if equipment.outlet_oxygen else None,
            lactate_umol_d=self._medium.lactate_umol_d() if corrected else None,
            ldh=Interval.around(true["ldh"] * np.exp(normal(0, 0.08)), 0.08 * true["ldh"]) if ldh else None,
            volume=Interval.around(true["volume"] * np.exp(normal(0, 0.03)), 0.03 * true["volume"]) if due else None,
            firing_hz=self._firing(hour, true) if equipment.electrodes else None,
            renewed=EXCHANGED_SHARE if hour % EXCHANGE_EVERY_H == EXCHANGE_EVERY_H - 1 else 0.0,
        )

    def _ldh_due(self, hour: int, lost: float) -> bool:
        """Return whether the result of a requested assay of LDH arrives in this hour."""
        if self._equipment.ldh_on_concern and lost >= CONCERN and hour >= self._ldh_h + AGAIN_H:
            self._ldh_h = hour + ANSWER_H
        return hour == self._ldh_h

    def _firing(self, hour: int, true: Mapping[str, float]) -> Interval:
        conditions = TissueConditions(
            alive=true["viability"],
            temperature_c=true["temperature_c"],
            oxygen_mm=true["oxygen_pct"] / 100.0 * 0.19,
            ph=true["ph"],
            ammonia_mm=true["ammonia_mm"],
        )
        self._wander = 0.99 * self._wander + self._random.normal(0.0, 0.2 * np.sqrt(1 - 0.99**2))
        rate = float(self._rates.rates_hz(conditions, hour * 3600.0).mean()) * np.exp(self._wander)
        return Interval.around(rate * float(np.exp(self._random.normal(0.0, 0.05))), 0.05 * rate, floor=0.0)
