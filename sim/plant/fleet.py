"""Many rigs of one description in one set of arrays: shape (rigs, vessels, species) and its like, stepped together."""

from __future__ import annotations

from collections.abc import Sequence
from math import log10, pi

import numpy as np
from numpy.typing import NDArray

from controller.rig.description import Rig
from sim.plant import chemistry, evaporation, gas, hydraulics, membranes, organoid, sphere, turnover
from sim.plant.columns import (
    ALB,
    ALK,
    AMBIENT,
    AMM,
    BODY_COLUMNS,
    BREATHES,
    CAPACITY,
    CAR,
    CAUSES,
    CELL_UL,
    CHAMBER_FULL_UL,
    CLOG,
    CO2_FRACTION,
    COLUMNS,
    CORE_M,
    COUNT,
    DEAD,
    DIALYSES,
    FAULT,
    FILTER_KPA,
    FILTERED,
    FOULING,
    FOULING_PER_UL,
    GAIN,
    GLC,
    GLN,
    INS,
    KLA,
    KOA_AT_UL_S,
    KOA_UL_S,
    LAC,
    LDH,
    LINE_COLUMNS,
    LINK_COLUMNS,
    LIQ,
    LIVE,
    O2_FRACTION,
    OPEN,
    OSM,
    OXY,
    RESISTANCE,
    RETURNS,
    REVOLUTION_UL,
    SCALE,
    SOURCE,
    TARGET,
    TEMPERATURE,
    TUBE_KLA,
    VESSEL_COLUMNS,
    VIABILITY,
    VOLUME_MM3,
    WATER_UL_S,
)  # fmt: skip
from sim.plant.step import step

F8 = NDArray[np.float64]

OUTER_MM = ((0.51, 1.02, 1.6), (2.1, 3.0, 4.8))
"""Bores and outer diameters of common silicone tubing [biology.md §1.3]."""
START_VIABILITY = 0.97
FRESH_LDH_U_L = 10.0
START_O2, START_CO2 = gas.AIR_O2 * 0.93, 0.07
"""The gas under which medium was kept before the lung begins."""


class Fleet:
    """The state of `len(seeds)` rigs; what differs between them at first is the calibration error of their pumps.

    Arrays have a leading axis of rigs; columns are named in :mod:`sim.plant.columns`. Write into `lines` and `body` what
    pumps, heaters and faults do, then call :meth:`advance`.
    """

    def __init__(self, rig: Rig, seeds: Sequence[int | np.random.Generator]) -> None:
        self.rig = rig
        self.vessel_names = list(rig.vessels)
        index = {name: number for number, name in enumerate(self.vessel_names)}
        pumped = {name: line for name, line in rig.lines.items() if line.pump is not None}
        self.line_names = list(pumped)
        self.pumps = {line.pump: number for number, line in enumerate(pumped.values()) if line.pump is not None}
        self.valves = [line.valve for line in pumped.values()]
        organs, rigs = rig.organs, len(seeds)
        chamber = index[rig.organoid.chamber]
        beyond = [index[line.to] for line in rig.lines.values() if line.passive and index[line.from_] == chamber]
        loop, spent = index[organs.lung.vessel], index[organs.kidney.vessel]
        self.places = np.array([loop, chamber, spent, beyond[0] if beyond else loop], dtype=np.int64)

        self.links = np.zeros((len(pumped), LINK_COLUMNS), dtype=np.int64)
        self.lines: F8 = np.zeros((rigs, len(pumped), LINE_COLUMNS))
        inside = {"loop", "chamber", "process"}
        for number, (name, line) in enumerate(pumped.items()):
            kinds = {rig.vessels[line.from_].kind, rig.vessels[line.to].kind}
            outer_mm = _outer_mm(line.bore_mm)
            self.links[number, SOURCE], self.links[number, TARGET] = index[line.from_], index[line.to]
            self.links[number, FILTERED] = line.filter is not None
            self.links[number, BREATHES] = kinds <= inside
            self.links[number, RETURNS] = name == organs.kidney.return_
            dialyser = None if line.dialyser is None else rig.dialysers[line.dialyser]
            self.links[number, DIALYSES] = -1 if dialyser is None else index[dialyser.vessel]
            every = self.lines[:, number]
            every[:, REVOLUTION_UL] = hydraulics.revolution_ul(line.bore_mm)
            every[:, RESISTANCE] = hydraulics.tube_kpa_per_ul_min(line.bore_mm, line.length_m)
            every[:, CELL_UL] = pi / 4 * line.bore_mm**2 * line.length_m * 1000.0 / hydraulics.CELLS
            every[:, TUBE_KLA] = gas.tube_kla_per_s(line.bore_mm, outer_mm)
            every[:, WATER_UL_S] = evaporation.tube_loss_ul_s(line.bore_mm, outer_mm, line.length_m)
            every[:, OPEN] = line.valve is None
            every[:, SCALE] = 1.0
            if dialyser is not None:
                every[:, KOA_UL_S] = dialyser.koa_ul_min / 60.0
                every[:, KOA_AT_UL_S] = (dialyser.koa_at_ul_min or 0.0) / 60.0
        for number, seed in enumerate(seeds):
            random = np.random.default_rng(seed)
            self.lines[number, :, GAIN] = 1.0 + random.normal(0.0, hydraulics.GAIN_SPREAD, len(pumped))

        self.traits: F8 = np.zeros((len(index), VESSEL_COLUMNS))
        self.vessels: F8 = np.zeros((rigs, len(index), COLUMNS))
        for number, vessel in enumerate(rig.vessels.values()):
            self.traits[number, CAPACITY] = vessel.capacity_ul
            self.traits[number, LIVE] = vessel.kind in inside
            self.vessels[:, number] = self.composition(vessel.contains) * vessel.volume_ul
        self.traits[loop, KLA], self.traits[spent, KLA] = gas.KLA_LOOP_PER_S, gas.KLA_SPENT_PER_S
        self.ph: F8 = np.full((rigs, len(index)), 7.4)

        self.body: F8 = np.zeros((rigs, BODY_COLUMNS))
        body = self.body
        body[:, TEMPERATURE], body[:, AMBIENT] = organs.skin.setpoint_c, organs.skin.ambient_c
        body[:, O2_FRACTION], body[:, CO2_FRACTION] = START_O2, START_CO2
        body[:, VIABILITY], body[:, COUNT] = START_VIABILITY, rig.organoid.count
        body[:, VOLUME_MM3] = pi / 6 * rig.organoid.diameter_mm**3
        area_cm2 = rig.filters[organs.immune.filter].area_cm2
        body[:, FOULING], body[:, CLOG] = 1.0, 1.0
        body[:, FILTER_KPA] = membranes.filter_kpa_per_ul_min(area_cm2)
        body[:, FOULING_PER_UL] = membranes.FOULING_PER_UL_CM2 / area_cm2
        body[:, CHAMBER_FULL_UL] = self.vessels[:, chamber, LIQ]
        for place in {loop, spent, chamber}:
            self._equilibrate(place)

        # Tubing is primed with what its source holds, or its target where the source is still empty.
        self.held: F8 = np.zeros((rigs, len(pumped), hydraulics.CELLS, COLUMNS))
        for number in range(len(pumped)):
            for place in (self.links[number, SOURCE], self.links[number, TARGET]):
                volume = self.vessels[0, place, LIQ]
                if volume > 0.0:
                    share = self.lines[:, number, CELL_UL] / volume
                    self.held[:, number] = (self.vessels[:, place] * share[:, None])[:, None, :]
                    break

        self.profile: F8 = np.full((rigs, sphere.NODES), chemistry.oxygen_mm(START_O2))
        self._settle_core()
        self.tally: F8 = np.zeros((rigs, len(CAUSES), COLUMNS))
        self.spilled: F8 = np.zeros((rigs, len(index)))
        self._scratch: F8 = np.zeros((4, COLUMNS))
        self.advance(0.0, 0)  # loads what is compiled now, and not in the first step of somebody's clock

    def advance(self, dt_s: float, steps: int = 1) -> None:
        """Advance every rig by `steps` steps of `dt_s` seconds."""
        step(
            self.links, self.traits, self.places, sphere.SHELLS, self.vessels, self.held, self.lines, self.body, self.ph,
            self.profile, self.tally, self.spilled, self._scratch, dt_s, steps,
        )  # fmt: skip

    def contents(self) -> F8:
        """Everything that is in vessels and lines, shape (rigs, COLUMNS)."""
        total: F8 = self.vessels.sum(axis=1) + self.held.sum(axis=(1, 2))
        return total

    def composition(self, medium: str | None) -> F8:
        """What one microlitre of a medium carries, shape (COLUMNS,); nothing for None."""
        row: F8 = np.zeros(COLUMNS)
        if medium is None:
            return row
        has = self.rig.media[medium]
        row[GLC], row[LAC], row[AMM] = has.glucose_mm, has.lactate_mm, has.ammonia_mm
        row[GLN], row[OSM], row[LIQ] = has.glutamine_mm, has.osmolality_mosm, 1.0
        row[OXY] = chemistry.AIR_SATURATION_MM
        co2_mm = chemistry.co2_mm(0.05)
        ph = chemistry.PK + log10(max(has.bicarbonate_mm, 1e-3) / co2_mm)
        row[CAR] = co2_mm + has.bicarbonate_mm
        row[ALK] = has.bicarbonate_mm + chemistry.BUFFER_MM_PER_PH * (ph - chemistry.BUFFER_REFERENCE_PH)
        # A medium with glutamine is a complete one: it carries the supplements.
        if has.glutamine_mm > 0:
            row[INS], row[ALB] = 1.0, turnover.SUPPLEMENT_ALBUMIN_MM
            row[LDH] = FRESH_LDH_U_L
        return row

    def replace(self, rig: int, vessel: int, row: F8, cause: int = FAULT) -> None:
        """Put other contents (a row of amounts) into a vessel; the difference is booked under its cause."""
        self.tally[rig, cause] += row - self.vessels[rig, vessel]
        self.vessels[rig, vessel] = row

    def _equilibrate(self, place: int) -> None:
        for vessel in self.vessels[:, place]:
            volume = vessel[LIQ]
            if volume > 0:
                co2_mm = chemistry.co2_mm(START_CO2)
                alkalinity = vessel[ALK] / volume
                ph = chemistry.ph_of(alkalinity, co2_mm)
                vessel[OXY] = chemistry.oxygen_mm(START_O2) * volume
                vessel[CAR] = (co2_mm + chemistry.bicarbonate_of(alkalinity, ph)) * volume

    def _settle_core(self) -> None:
        """Tissue that old has the core that its size and the gentlest stream give it."""
        radius = organoid.radius_m(float(self.body[0, VOLUME_MM3]))
        velocity = self.rig.organs.heart.flow_ul_min * 1e-9 / 60 / organoid.CHAMBER_SECTION_M2 + organoid.STILL_M_S
        film = sphere.film_coefficient(2 * radius, velocity)
        profile = self.profile[0].copy()
        v_max = organoid.V_MAX * START_VIABILITY
        bulk = 0.9 * chemistry.oxygen_mm(START_O2)
        sphere.one(
            sphere.SHELLS, profile, radius, bulk, film, v_max, organoid.KM_OXYGEN_MM, organoid.DIFFUSIVITY
        )  # fmt: skip
        core = sphere.core_radius(sphere.SHELLS, profile, radius, organoid.DEATH_OXYGEN_MM)
        self.profile[:] = profile
        self.body[:, CORE_M] = core
        self.body[:, DEAD] = (core / radius) ** 3


def _outer_mm(bore_mm: float) -> float:
    bores, outers = OUTER_MM
    if not bores[0] <= bore_mm <= bores[-1]:
        return 3.0 * bore_mm
    return float(np.interp(bore_mm, bores, outers))
