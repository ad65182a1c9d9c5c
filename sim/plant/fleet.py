"""Many rigs of one description in one set of arrays: shape (rigs, vessels, species) and its like, stepped together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log10, pi
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from controller.rig.description import Line, Rig, required
from controller.rig.probes import temperature_target_c
from controller.rig.surroundings import zone_of
from sim.plant import chemistry, evaporation, gas, hydraulics, membranes, organoid, sphere, turnover
from sim.plant.columns import BODY, CAUSES, COLUMNS, LINE, LINK, TRAIT, Content, Places, TallyCause
from sim.plant.step import step

F8 = NDArray[np.float64]
Number = TypeVar("Number", bound=np.number[Any])

OUTER_MM = ((0.51, 1.02, 1.6), (2.1, 3.0, 4.8))
"""Bores and outer diameters of common silicone tubing [biology.md §1.3]."""
INSIDE = {"loop", "chamber", "process"}
"""Kinds of vessels in the incubator."""
UNFILTERED_CM2 = 1.0
"""Area of the filter that a rig without one does not use (cm²)."""
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
        rigs = len(seeds)
        self.places = _places(rig, index)
        loop, chamber, spent, _ = self.places

        self.links = np.zeros(len(pumped), dtype=LINK)
        self.lines = np.zeros((rigs, len(pumped)), dtype=LINE)
        for number, (name, line) in enumerate(pumped.items()):
            self._connect(number, name, line, index)
        for number, seed in enumerate(seeds):
            random = np.random.default_rng(seed)
            self.lines["gain"][number] = 1.0 + random.normal(0.0, hydraulics.GAIN_SPREAD, len(pumped))

        self.traits = self._vessel_traits()
        self.vessels = self._filled(rigs)
        self.ph: F8 = np.full((rigs, len(index)), 7.4)
        self._start_gas = _start_gas(rig)
        self.body = self._bodies(chamber)
        for place in {loop, spent, chamber}:
            self._equilibrate(place)
        self.held = self._primed()
        self.profile: F8 = np.full((rigs, sphere.NODES), chemistry.oxygen_mm(self._start_gas[0]))
        self._settle_core()
        self.tally: F8 = np.zeros((rigs, len(CAUSES), COLUMNS))
        self.spilled: F8 = np.zeros((rigs, len(index)))
        # The compiled step takes records as plain numbers.
        self.link_rows = flat(self.links, np.int64)
        self.line_rows = flat(self.lines, np.float64)
        self.body_rows = flat(self.body, np.float64)
        self._trait_rows = flat(self.traits, np.float64)
        self._place_row = np.array(self.places, dtype=np.int64)
        self._scratch: F8 = np.zeros((4, COLUMNS))
        self.advance(0.0, 0)  # load the compiled code now, not within the first timed step

    def _connect(self, number: int, name: str, line: Line, index: Mapping[str, int]) -> None:
        """Fill in the link and the constants of a line; `index` gives the numbers of the vessels."""
        rig = self.rig
        kinds = {rig.vessels[line.from_].kind, rig.vessels[line.to].kind}
        dialyser = None if line.dialyser is None else rig.dialysers[line.dialyser]
        link = self.links[number]
        link["source"], link["target"] = index[line.from_], index[line.to]
        link["filtered"] = line.filter is not None
        link["breathes"] = kinds <= INSIDE
        link["returns"] = name == rig.organs.kidney.return_
        link["dialyses"] = -1 if dialyser is None else index[dialyser.vessel]
        every, outer_mm = self.lines[:, number], _outer_mm(line.bore_mm)
        every["revolution_ul"] = hydraulics.revolution_ul(line.bore_mm)
        every["kpa_per_ul_min"] = hydraulics.tube_kpa_per_ul_min(line.bore_mm, line.length_m)
        every["cell_ul"] = pi / 4 * line.bore_mm**2 * line.length_m * 1000.0 / hydraulics.CELLS
        every["wall_kla_per_s"] = gas.tube_kla_per_s(line.bore_mm, outer_mm)
        every["water_loss_ul_s"] = evaporation.tube_loss_ul_s(line.bore_mm, outer_mm, line.length_m)
        every["open"] = line.valve is None
        every["flow_scale"] = 1.0
        if dialyser is not None:
            every["koa_ul_s"] = dialyser.koa_ul_min / 60.0
            every["koa_at_ul_s"] = (dialyser.koa_at_ul_min or 0.0) / 60.0

    def _vessel_traits(self) -> NDArray[np.void]:
        """Return the constants of the vessels, shape (vessels,)."""
        traits = np.zeros(len(self.vessel_names), dtype=TRAIT)
        for number, vessel in enumerate(self.rig.vessels.values()):
            traits["capacity_ul"][number] = vessel.capacity_ul
            traits["live"][number] = vessel.kind in INSIDE
        loop, _, spent, _ = self.places
        traits["kla_per_s"][loop], traits["kla_per_s"][spent] = gas.KLA_LOOP_PER_S, gas.KLA_SPENT_PER_S
        return traits

    def _filled(self, rigs: int) -> F8:
        """Return the contents of the vessels by the rig file, shape (rigs, vessels, COLUMNS)."""
        vessels: F8 = np.zeros((rigs, len(self.vessel_names), COLUMNS))
        for number, vessel in enumerate(self.rig.vessels.values()):
            vessels[:, number] = self.composition(vessel.contains) * vessel.volume_ul
        return vessels

    def _bodies(self, chamber: int) -> NDArray[np.void]:
        """Return the state of the rigs outside vessels and lines, at the start."""
        rig = self.rig
        body = np.zeros(len(self.vessels), dtype=BODY)
        zone = zone_of(rig, rig.chamber)
        body["temperature_c"], body["ambient_c"] = temperature_target_c(rig), zone.temperature_c
        body["o2_fraction"], body["co2_fraction"] = self._start_gas
        body["viability"], body["count"] = START_VIABILITY, rig.organoid.count
        body["volume_mm3"] = pi / 6 * rig.organoid.diameter_mm**3
        immune = rig.organs.immune
        area_cm2 = UNFILTERED_CM2 if immune is None else rig.filters[immune.filter].area_cm2
        body["fouling"], body["clog"] = 1.0, 1.0
        body["filter_kpa_per_ul_min"] = membranes.filter_kpa_per_ul_min(area_cm2)
        body["fouling_per_ul"] = membranes.FOULING_PER_UL_CM2 / area_cm2
        body["chamber_full_ul"] = self.vessels[:, chamber, Content.LIQUID]
        return body

    def _primed(self) -> F8:
        """Return the contents of the lines: what the source holds, or the target where the source is still empty."""
        held: F8 = np.zeros((*self.lines.shape, hydraulics.CELLS, COLUMNS))
        for number, link in enumerate(self.links):
            for place in (link["source"], link["target"]):
                volume = self.vessels[0, place, Content.LIQUID]
                if volume > 0.0:
                    share = self.lines["cell_ul"][:, number] / volume
                    held[:, number] = (self.vessels[:, place] * share[:, None])[:, None, :]
                    break
        return held

    def advance(self, dt_s: float, steps: int = 1) -> None:
        """Advance every rig by `steps` steps of `dt_s` seconds."""
        step(
            self.link_rows, self._trait_rows, self._place_row, sphere.SHELLS, self.vessels, self.held, self.line_rows,
            self.body_rows, self.ph, self.profile, self.tally, self.spilled, self._scratch, dt_s, steps,
        )  # fmt: skip

    def contents(self) -> F8:
        """Return the content of all vessels and lines, shape (rigs, COLUMNS)."""
        total: F8 = self.vessels.sum(axis=1) + self.held.sum(axis=(1, 2))
        return total

    def composition(self, medium: str | None) -> F8:
        """Return the content of one microlitre of a medium, shape (COLUMNS,); zeros for None."""
        row: F8 = np.zeros(COLUMNS)
        if medium is None:
            return row
        has = self.rig.media[medium]
        row[Content.GLUCOSE], row[Content.LACTATE], row[Content.AMMONIA] = (
            has.glucose_mm,
            has.lactate_mm,
            has.ammonia_mm,
        )
        row[Content.GLUTAMINE], row[Content.OSMOLES], row[Content.LIQUID] = has.glutamine_mm, has.osmolality_mosm, 1.0
        row[Content.OXYGEN] = chemistry.AIR_SATURATION_MM
        co2_mm = chemistry.co2_mm(0.05)
        ph = chemistry.PK + log10(max(has.bicarbonate_mm, 1e-3) / co2_mm)
        row[Content.CARBON] = co2_mm + has.bicarbonate_mm
        row[Content.ALKALINITY] = has.bicarbonate_mm + chemistry.BUFFER_MM_PER_PH * (ph - chemistry.BUFFER_REFERENCE_PH)
        # A medium with glutamine is a complete one: it carries the supplements.
        if has.glutamine_mm > 0:
            row[Content.INSULIN], row[Content.ALBUMIN] = 1.0, turnover.SUPPLEMENT_ALBUMIN_MM
            row[Content.LDH] = FRESH_LDH_U_L
        return row

    def replace(self, rig: int, vessel: int, row: F8, cause: int = TallyCause.FAULT) -> None:
        """Put other contents (a row of amounts) into a vessel; the difference is booked under its cause."""
        self.tally[rig, cause] += row - self.vessels[rig, vessel]
        self.vessels[rig, vessel] = row

    def _equilibrate(self, place: int) -> None:
        for vessel in self.vessels[:, place]:
            volume = vessel[Content.LIQUID]
            if volume > 0:
                co2_mm = chemistry.co2_mm(self._start_gas[1])
                alkalinity = vessel[Content.ALKALINITY] / volume
                ph = chemistry.ph_of(alkalinity, co2_mm)
                vessel[Content.OXYGEN] = chemistry.oxygen_mm(self._start_gas[0]) * volume
                vessel[Content.CARBON] = (co2_mm + chemistry.bicarbonate_of(alkalinity, ph)) * volume

    def _settle_core(self) -> None:
        """Set the initial necrotic core: the one of this size in the slowest stream."""
        radius = organoid.radius_m(float(self.body["volume_mm3"][0]))
        velocity = self.rig.organs.heart.flow_ul_min * 1e-9 / 60 / organoid.CHAMBER_SECTION_M2 + organoid.STILL_M_S
        film = sphere.film_coefficient(2 * radius, velocity)
        profile = self.profile[0].copy()
        v_max = organoid.V_MAX * START_VIABILITY
        bulk = 0.9 * chemistry.oxygen_mm(self._start_gas[0])
        sphere.one(
            sphere.SHELLS, profile, radius, bulk, film, v_max, organoid.KM_OXYGEN_MM, organoid.DIFFUSIVITY
        )  # fmt: skip
        core = sphere.core_radius(sphere.SHELLS, profile, radius, organoid.DEATH_OXYGEN_MM)
        self.profile[:] = profile
        self.body["core_m"] = core
        self.body["dead_fraction"] = (core / radius) ** 3


def _start_gas(rig: Rig) -> tuple[float, float]:
    """Return the fractions of oxygen and CO2 over the medium at the start; without a lung they stay those of the zone."""
    if rig.organs.lung is not None:
        return START_O2, START_CO2
    zone = zone_of(rig, required(rig.loop, "a loop"))
    return zone.oxygen_pct / 100.0, zone.co2_pct / 100.0


def _places(rig: Rig, index: Mapping[str, int]) -> Places:
    """Return the vessels with a role; `index` gives their numbers."""
    chamber, loop = rig.chamber, index[required(rig.loop, "a loop")]
    beyond = [index[line.to] for line in rig.lines.values() if line.passive and line.from_ == chamber]
    return Places(loop, index[chamber], index[rig.organs.kidney.vessel], beyond[0] if beyond else loop)


def flat(records: NDArray[np.void], kind: type[Number]) -> NDArray[Number]:
    """Return an array of records as numbers: the same memory with one more axis, the fields."""
    return records.view(kind).reshape((*records.shape, -1))


def _outer_mm(bore_mm: float) -> float:
    bores, outers = OUTER_MM
    if not bores[0] <= bore_mm <= bores[-1]:
        return 3.0 * bore_mm
    return float(np.interp(bore_mm, bores, outers))
