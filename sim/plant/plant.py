"""The plant: every vessel, line and organoid of one rig, advanced lazily and exactly where it matters.

Amounts are kept in nmol (mmol/L × µL) and moved by fluxes, so that every species closes to rounding. Volumes are exact
between flow changes; chemistry takes steps of at most `GRID_S`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log, pi, sin

import numpy as np

from controller.rig.description import Rig
from sim.plant import chemistry, organoid
from sim.plant.faults import Faults

GRID_S = 2.0
SPECIES = ("glucose", "lactate", "ammonia", "alkalinity", "glutamine", "oxygen", "co2", "osmoles", "trophic", "insulin",
           "particles")  # fmt: skip
GLC, LAC, AMM, ALK, GLN, OXY, CO2, OSM, TRO, INS, PAR = range(len(SPECIES))

GLUTAMINE_DECAY_PER_S = 0.06 / 86_400
"""First order; 0.035–0.116 a day [D from V S11]."""
KLA_LOOP_PER_S = 0.02
KLA_SPENT_PER_S = 0.01
"""Gas exchange of the loop's oxygenator and of the stirred spent vessel, both under the lung's gas [P]."""
TROPHIC_DECAY_PER_S = log(2) / (1.5 * 86_400)
EVAPORATION_UL_PER_S = 80.0 / 86_400
"""Silicone tubing in a humid housing: tens of µL a metre and day [D, biology §1.3]."""
HEAT_CAPACITY_J_PER_K = 420.0
HEAT_LOSS_W_PER_K = 0.55
"""Chamber, loop and holder: about 100 mL of water's worth, a quarter of an hour's time constant [P]."""
FILTER_KPA_PER_UL_MIN = 0.0025
DEAD_END_KPA = 200.0
DENSITY_G_PER_UL = 0.001
PARTICLES_PER_S = 1e-4


SPREADS = {
    "atlas-ezo-ph": ("ph", 0.01, 0.002),
    "atlas-ezo-do": ("oxygen", 0.8, 0.15),
    "atlas-ezo-rtd": ("temperature", 0.05, 0.004),
    "keller-x-line": ("pressure", 0.05, 0.03),
    "alicat-mfc": ("flow", 0.0, 0.02),
    "mettler-sics": ("mass", 0.0, 0.003),
}
"""What each probe reads, the spread of its calibration error and its noise, in its unit [P, from the data sheets' order]."""


@dataclass(slots=True)
class Flow:
    """One pumped line: what its pump believes to move, and how that errs."""

    name: str
    source: int
    target: int
    gain: float
    valve: str | None
    filtered: bool
    nominal_ul_min: float = 0.0
    dry: bool = False
    moved_ul: float = 0.0


@dataclass(frozen=True, slots=True)
class PlantTruth:
    """What is really so: for tests, and for the honest half of a simulation's figures."""

    at_s: float
    volumes_ul: dict[str, float]
    concentrations: dict[str, dict[str, float]]
    ph: dict[str, float]
    temperature_c: float
    viability: float
    diameter_mm: float
    firing_scale: float
    filter_resistance: float
    losses_ul: dict[str, float]
    moved_ul: dict[str, float]
    """What each line has moved since the beginning, either way."""


class Plant:
    """Fulfils `PlantPort` for one rig; `now` is the loop's time."""

    def __init__(self, rig: Rig, *, seed: int, now: Callable[[], float]) -> None:
        self.rig = rig
        self.faults = Faults()
        self.events: list[tuple[float, str]] = []
        self.losses_ul = {"evaporation": 0.0, "overflow": 0.0}
        self._now = now
        self._at_s = now()
        self._names = list(rig.vessels)
        index = {name: number for number, name in enumerate(self._names)}
        rng = np.random.default_rng(seed)
        self._volume = [vessel.volume_ul for vessel in rig.vessels.values()]
        self._amount = [
            [each * vessel.volume_ul for each in self._composition(vessel.contains)] for vessel in rig.vessels.values()
        ]
        self._capacity = [vessel.capacity_ul for vessel in rig.vessels.values()]
        self._loop = index[rig.organs.lung.vessel]
        self._spent = index[rig.organs.kidney.vessel]
        self._chamber = index[rig.organoid.chamber]
        self._chamber_full_ul = self._volume[self._chamber]
        self._flows: dict[str, Flow] = {}
        for name, line in rig.lines.items():
            if line.pump is not None:
                gain = 1.0 + float(rng.normal(0.0, 0.03))
                self._flows[line.pump] = Flow(
                    name, index[line.from_], index[line.to], gain, line.valve, line.filter is not None
                )
        self._switches: dict[str, bool] = {}
        self._gases: dict[str, float] = {}
        self._oxygen_fraction, self._co2_fraction = 0.209 * 0.93, 0.07
        self._temperature_c = rig.organs.skin.setpoint_c
        self._viability = 0.97
        self._volume_mm3 = pi / 6 * rig.organoid.diameter_mm**3
        self._core_m = 0.0
        self._fouling = 1.0
        self._spreads = _spreads(rig)
        self._offset: dict[str, float] = {}
        self._noise = {point: np.random.default_rng([seed, number]) for number, point in enumerate(self._spreads)}
        self._spare: dict[str, list[float]] = {}
        for point, spread in self._spreads.items():
            self._offset[point] = float(self._noise[point].normal(0.0, spread[0]))
        for vessel in (self._loop, self._spent, self._chamber):
            self._equilibrate(vessel)

    # --- what devices do --------------------------------------------------------------------------------

    def set_pump(self, point: str, flow_ul_min: float) -> None:
        """See :class:`sim.devices.port.PlantPort`."""
        self._advance(exact=True)
        self._flows[point].nominal_ul_min = flow_ul_min

    def set_switch(self, point: str, on: bool) -> None:
        """See :class:`sim.devices.port.PlantPort`."""
        if self._switches.get(point) != on:
            self._advance(exact=True)
            self._switches[point] = on

    def set_gas(self, point: str, flow_ml_min: float) -> None:
        """See :class:`sim.devices.port.PlantPort`."""
        self._advance(exact=True)
        self._gases[point] = flow_ml_min
        lung = self.rig.organs.lung
        air, co2, o2 = (self._gases.get(name, 0.0) for name in (lung.air, lung.co2, lung.o2))
        total = air + co2 + o2
        if total > 0:
            self._oxygen_fraction = (0.209 * air + o2) / total
            self._co2_fraction = (0.0004 * air + co2) / total

    def sense(self, point: str) -> float:
        """See :class:`sim.devices.port.PlantPort`."""
        self._advance(exact=False)
        if point in self.faults.sensor_stuck:
            return self.faults.sensor_stuck[point]
        spread = self._spreads[point][1]
        spare = self._spare.get(point)
        if not spare:
            spare = self._spare[point] = self._noise[point].normal(0.0, 1.0, 512).tolist()
        error = self._offset[point] + spread * spare.pop() * self.faults.sensor_noise.get(point, 1.0)
        return self._true_value(point) + error + self.faults.sensor_offset.get(point, 0.0)

    # --- what is really so ------------------------------------------------------------------------------

    @property
    def health(self) -> float:
        """The tissue's viability, 0 to 1."""
        return self._viability

    @property
    def firing_scale(self) -> float:
        """How lively the tissue fires, 0 to 1: health, warmth and oxygen."""
        self._advance(exact=False)
        return self._firing_scale()

    def advance(self) -> None:
        """Bring the plant to the present."""
        self._advance(exact=True)

    def truth(self) -> PlantTruth:
        """Everything, exactly, as of now."""
        self._advance(exact=True)
        concentrations, ph = {}, {}
        for number, name in enumerate(self._names):
            volume = max(self._volume[number], 1e-9)
            found = {species: self._amount[number][i] / volume for i, species in enumerate(SPECIES)}
            acidity = chemistry.ph_of(found["alkalinity"], found["co2"])
            ph[name] = acidity
            found["bicarbonate"] = chemistry.bicarbonate_of(found["alkalinity"], acidity)
            concentrations[name] = found
        return PlantTruth(
            at_s=self._at_s,
            volumes_ul=dict(zip(self._names, self._volume, strict=True)),
            concentrations=concentrations,
            ph=ph,
            temperature_c=self._temperature_c,
            viability=self._viability,
            diameter_mm=(6 * self._volume_mm3 / pi) ** (1 / 3),
            firing_scale=self._firing_scale(),
            filter_resistance=self._fouling * self.faults.clog,
            losses_ul=dict(self.losses_ul),
            moved_ul={flow.name: flow.moved_ul for flow in self._flows.values()},
        )

    # --- inside -----------------------------------------------------------------------------------------

    def _composition(self, medium: str | None) -> list[float]:
        values = [0.0] * len(SPECIES)
        if medium is not None:
            has = self.rig.media[medium]
            values[GLC], values[LAC], values[AMM] = has.glucose_mm, has.lactate_mm, has.ammonia_mm
            values[GLN], values[OSM] = has.glutamine_mm, has.osmolality_mosm
            values[CO2] = chemistry.co2_mm(0.05)
            values[OXY] = chemistry.AIR_SATURATION_MM
            ph = chemistry.PK + log(max(has.bicarbonate_mm, 1e-3) / values[CO2]) / log(10)
            values[ALK] = has.bicarbonate_mm + chemistry.BUFFER_MM_PER_PH * (ph - chemistry.BUFFER_REFERENCE_PH)
            values[INS] = 1.0 if has.glutamine_mm > 0 else 0.0
        return values

    def _equilibrate(self, vessel: int) -> None:
        self._amount[vessel][OXY] = chemistry.oxygen_mm(self._oxygen_fraction) * self._volume[vessel]
        self._amount[vessel][CO2] = chemistry.co2_mm(self._co2_fraction) * self._volume[vessel]

    def _true_value(self, point: str) -> float:
        name, _, quantity = point.partition(".")
        if quantity == "flow":
            return self._gases.get(point, 0.0)
        if quantity == "temperature":
            return self._temperature_c
        if quantity == "mass":
            return self._volume[self._spent] * DENSITY_G_PER_UL
        if quantity == "pressure":
            return self._pressure_kpa(self.rig.devices[name].at or "")
        place = self.rig.devices[name].at or self.rig.organs.lung.vessel
        vessel = self._names.index(place)
        volume = max(self._volume[vessel], 1.0)
        amount = self._amount[vessel]
        if quantity == "ph":
            return chemistry.ph_of(amount[ALK] / volume, amount[CO2] / volume)
        return 100.0 * amount[OXY] / volume / chemistry.AIR_SATURATION_MM

    def _pressure_kpa(self, line_name: str) -> float:
        for flow in self._flows.values():
            if flow.name == line_name:
                line = self.rig.lines[line_name]
                actual = abs(flow.nominal_ul_min) * flow.gain
                if actual and flow.valve is not None and not self._switches.get(flow.valve, False):
                    return DEAD_END_KPA
                # Hagen–Poiseuille, water at 37 °C (0.72 mPa·s).
                per_second = actual * 1e-9 / 60
                drop = 128 * 0.72e-3 * line.length_m * per_second / (pi * (line.bore_mm * 1e-3) ** 4) / 1000
                if flow.filtered:
                    drop += FILTER_KPA_PER_UL_MIN * actual * self._fouling * self.faults.clog
                scale = self.faults.flow_scale.get(flow.name, 1.0)
                if scale < 1.0 and actual:
                    drop += (1 - scale) * 150.0
                ripple = 1.0 + 0.05 * sin(self._now() * 3.1)
                return drop * ripple
        return 0.0

    def _firing_scale(self) -> float:
        warmth = max(0.0, 1.0 - abs(self._temperature_c - 37.0) / 8.0)
        volume = max(self._volume[self._chamber], 1.0)
        oxygen = self._amount[self._chamber][OXY] / volume
        return self._viability**2 * warmth * min(1.0, oxygen / 0.06)

    def _advance(self, *, exact: bool) -> None:
        now = self._now()
        while now - self._at_s >= GRID_S:
            self._step(GRID_S)
        if exact and now > self._at_s:
            self._step(now - self._at_s)

    def _step(self, dt: float) -> None:
        self._at_s += dt
        for flow in self._flows.values():
            if flow.nominal_ul_min:
                self._pump(flow, dt)
        over = self._volume[self._chamber] - self._chamber_full_ul
        if over > 0:
            self._move(self._chamber, self._loop, over)
        evaporated = min(EVAPORATION_UL_PER_S * dt, self._volume[self._loop])
        self._volume[self._loop] -= evaporated
        self.losses_ul["evaporation"] += evaporated
        for vessel, kla in ((self._loop, KLA_LOOP_PER_S), (self._spent, KLA_SPENT_PER_S)):
            volume, amount = self._volume[vessel], self._amount[vessel]
            part = 1.0 - exp(-kla * dt)
            amount[OXY] += part * (chemistry.oxygen_mm(self._oxygen_fraction) * volume - amount[OXY])
            amount[CO2] += part * (chemistry.co2_mm(self._co2_fraction) * volume - amount[CO2])
        decay = 1.0 - exp(-GLUTAMINE_DECAY_PER_S * dt)
        fade = 1.0 - exp(-TROPHIC_DECAY_PER_S * dt)
        for vessel in (self._loop, self._chamber, self._spent):
            amount = self._amount[vessel]
            lost = amount[GLN] * decay
            amount[GLN] -= lost
            amount[AMM] += lost
            amount[TRO] -= amount[TRO] * fade
        skin = self.rig.organs.skin
        power = skin.power_w if self._switches.get(skin.heater, False) else 0.0
        goal = skin.ambient_c + power / HEAT_LOSS_W_PER_K
        self._temperature_c += (goal - self._temperature_c) * (1 - exp(-dt * HEAT_LOSS_W_PER_K / HEAT_CAPACITY_J_PER_K))
        self._live(dt)

    def _pump(self, flow: Flow, dt: float) -> None:
        lumen = max(0.0, 1.0 - self.faults.wear.get(flow.name, 0.0))
        volume = flow.nominal_ul_min * flow.gain * self.faults.flow_scale.get(flow.name, 1.0) * lumen * dt / 60
        source, target = (flow.source, flow.target) if volume > 0 else (flow.target, flow.source)
        wanted = abs(volume)
        if flow.valve is not None and not self._switches.get(flow.valve, False):
            return
        moved = min(wanted, self._volume[source])
        if moved < wanted * 0.999 and not flow.dry:
            flow.dry = True
            self.events.append((self._at_s, f"{flow.name} pumped air: {self._names[source]} was empty"))
        elif moved >= wanted:
            flow.dry = False
        self._move(source, target, moved)
        flow.moved_ul += moved
        if flow.filtered:
            self._fouling += 1.5e-6 * moved
        spill = self._volume[target] - self._capacity[target]
        if spill > 0 and target != self._chamber:
            self.losses_ul["overflow"] += spill
            self.events.append((self._at_s, f"{self._names[target]} overflowed by {spill:.1f} µL"))
            share = spill / self._volume[target]
            self._amount[target] = [each * (1 - share) for each in self._amount[target]]
            self._volume[target] -= spill

    def _move(self, source: int, target: int, volume: float) -> None:
        if volume <= 0:
            return
        share = min(1.0, volume / self._volume[source])
        giver, taker = self._amount[source], self._amount[target]
        for species in range(len(SPECIES)):
            part = giver[species] * share
            giver[species] -= part
            taker[species] += part
        self._volume[source] -= volume
        self._volume[target] += volume

    def _live(self, dt: float) -> None:
        volume = max(self._volume[self._chamber], 1.0)
        amount = self._amount[self._chamber]
        c = [each / volume for each in amount]
        radius_m = (3 * self._volume_mm3 / (4 * pi)) ** (1 / 3) * 1e-3
        each, self._core_m = organoid.uptake_per_sphere(radius_m, max(c[OXY], 0.0), self._core_m)
        pace = organoid.Q10 ** ((self._temperature_c - 37.0) / 10) * self._viability
        oxygen = each * self.rig.organoid.count * pace * 1e9 * dt
        oxygen = min(oxygen, 0.9 * amount[OXY])
        # Lactate is what is not burnt: with a yield Y, a mol of glucose takes 6·(1 − Y/2) mol of oxygen.
        yield_ = organoid.LACTATE_YIELD
        saturation = c[GLC] / (c[GLC] + organoid.KM_GLUCOSE_MM) if c[GLC] > 0 else 0.0
        glucose = min(oxygen / (6 * (1 - yield_ / 2)) * saturation, 0.9 * amount[GLC])
        lactate = yield_ * glucose
        ammonia = min(organoid.AMMONIA_PER_GLUCOSE * glucose, amount[GLN])
        amount[OXY] -= oxygen
        amount[CO2] += oxygen
        amount[GLC] -= glucose
        amount[LAC] += lactate
        amount[ALK] -= lactate
        amount[GLN] -= ammonia
        amount[AMM] += ammonia
        amount[TRO] += 2.0 * TROPHIC_DECAY_PER_S * 42_000 * self._viability * dt
        ph = chemistry.ph_of(c[ALK], c[CO2])
        harm = organoid.harm_per_hour(c[OXY], self._temperature_c, ph, c[GLC], c[LAC], c[AMM], c[OSM])
        support = c[TRO] / (c[TRO] + 0.15)
        best = 0.94 + 0.06 * support
        hours = dt / 3600
        self._viability += (
            0.01 * (best - self._viability) * (1 if harm < 0.001 else 0) - harm * self._viability
        ) * hours
        self._viability = min(max(self._viability, 0.0), 1.0)
        self._volume_mm3 = organoid.grown(self._volume_mm3, self._viability, dt)


def _spreads(rig: Rig) -> dict[str, tuple[float, float]]:
    """Every sensor point of the rig with the spread of its calibration error and its noise."""
    found = {}
    for name, device in rig.devices.items():
        if device.model in SPREADS:
            quantity, offset, noise = SPREADS[device.model]
            found[f"{name}.{quantity}"] = (offset, noise)
    return found
