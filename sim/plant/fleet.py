"""Many rigs of one description in one set of arrays: shape (rigs, vessels, species) and its like, stepped together."""

from __future__ import annotations

from collections.abc import Sequence
from math import log10, pi
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from controller.rig.description import ROOM_CO2_PCT, ROOM_OXYGEN_PCT, Line, Medium, Rig
from controller.rig.selectors import behind_ul, held_ul, ports_of
from controller.rig.surroundings import room_c, zone_of
from sim.plant import (
    ageing,
    branches,
    chemistry,
    evaporation,
    gas,
    hydraulics,
    membranes,
    organoid,
    sphere,
    surfaces,
    turnover,
)
from sim.plant.columns import (
    BODY,
    CAUSES,
    COLUMNS,
    LINE,
    SPACE,
    TISSUE,
    TRAIT,
    Content,
    Shell,
    Sizes,
    TallyCause,
    width,
)
from sim.plant.layout import INSIDE, layout_of, link_rows, node_rows, outlet_rows, perfused, with_space
from sim.plant.overflow import PENDING
from sim.plant.parameters import PUBLISHED, PlantParameters
from sim.plant.settling import SHELL_ROWS, Care, settled, take_stocks
from sim.plant.step import step, step_branched

F8 = NDArray[np.float64]
Number = TypeVar("Number", bound=np.number[Any])

OUTER_MM = ((0.51, 1.02, 1.6), (2.1, 3.0, 4.8))
"""Bores and outer diameters of common silicone tubing [biology.md §1.3]."""
START_VIABILITY = 0.97
CARE_OF_TISSUE = ("demand", "min_oxygen_mm", "anoxia_harm", "regrowth")
"""The fields of :class:`~sim.plant.settling.Care` that the record of a tissue has."""
FRESH_LDH_U_L = 10.0
KEPT_UNDER = (gas.AIR_O2 * 0.93, 0.07)
"""Oxygen and CO2 of the gas under which medium was kept before the lung begins (fractions)."""


class Fleet:
    """The state of `len(seeds)` rigs; what differs between them at first is the calibration error of their pumps.

    Arrays have a leading axis of rigs; columns are named in :mod:`sim.plant.columns`. Write into `lines`, `spaces` and
    `body` what pumps, heaters and faults do, then call :meth:`advance`.
    """

    def __init__(
        self, rig: Rig, seeds: Sequence[int | np.random.Generator], *, parameters: PlantParameters = PUBLISHED
    ) -> None:
        self.rig = rig
        self.parameters = parameters
        layout = self.layout = layout_of(rig)
        sizes = self.sizes = layout.sizes
        self.vessel_names = layout.vessel_names
        self.line_names = list(layout.lines)
        self.valves = [line.valve for line in layout.lines.values()]
        self.pumps: dict[str, list[int]] = {}
        """The lines of each pump: several where one motor turns several cassettes."""
        for number, line in enumerate(layout.lines.values()):
            if line.pump is not None:
                self.pumps.setdefault(line.pump, []).append(number)
        self.loop, self.spent = layout.loop, layout.spent
        self.chambers = dict(zip(rig.tissue, layout.hosts, strict=True))
        """Numbers of the vessels with tissue, in the order of the tissues."""
        rigs = len(seeds)

        self.links, self.nodes, self.outlets = link_rows(layout), node_rows(layout), outlet_rows(layout)
        self.lines = np.zeros((rigs, sizes.lines), dtype=LINE)
        for number, (name, line) in enumerate(layout.lines.items()):
            self._connect(number, line, held_ul(line) + behind_ul(rig, name))
        for selector in rig.selectors.values():
            self.turn(slice(None), selector.valve, selector.rest)
        for number, seed in enumerate(seeds):
            random = np.random.default_rng(seed)
            self.lines["gain"][number, : sizes.pumped] = 1.0 + random.normal(
                0.0, hydraulics.GAIN_SPREAD, sizes.pumped
            )  # fmt: skip

        self.vessels = self._filled(rigs)
        self.traits = self._traits()
        self.ph: F8 = np.full(self.vessels.shape[:2], 7.4)
        self.state: F8 = np.zeros((rigs, _state_width(sizes)))
        self.body, self.spaces, self.tissues = self._views()
        self._begin()
        for name, vessel in rig.vessels.items():
            if vessel.kind in INSIDE:
                self._equilibrate(layout.nodes[name], self._kept_under(name))
        self.held = self._primed()
        self.profile: F8 = np.zeros((rigs, sizes.tissues, SHELL_ROWS, sphere.NODES))
        self.settle()
        self.tally: F8 = np.zeros((rigs, len(CAUSES), COLUMNS))
        self.spilled: F8 = np.zeros((rigs, sizes.vessels))
        # The compiled step takes records as plain numbers.
        self.size_row = np.array(sizes, dtype=np.int64)
        packed = [flat(rows, np.int64).ravel() for rows in (self.links, self.nodes, self.outlets)]
        self.plumbing = np.concatenate([*packed, np.array(layout.hosts, dtype=np.int64)])
        self.line_rows = flat(self.lines, np.float64)
        self._trait_rows = flat(self.traits, np.float64)
        self._scratch: F8 = np.zeros((PENDING + len(self.nodes), COLUMNS))
        self.network: F8 = np.zeros((sizes.junctions, sizes.junctions + branches.SPARE))
        self.advance(0.0, 0)  # load the compiled code now, not within the first timed step

    def turn(self, rigs: int | slice, valve: str, position: float) -> None:
        """Open the port of a selector at this position of its valve, and close its other ports; a fraction closes all."""
        for name, selector in self.rig.selectors.items():
            if selector.valve == valve:
                for port, line in ports_of(self.rig, name).items():
                    self.lines["open"][rigs, self.line_names.index(line)] = float(port == position)

    def _connect(self, number: int, line: Line, filled_ul: float) -> None:
        """Fill in the constants of a line that holds `filled_ul` of medium."""
        rig = self.rig
        dialyser = None if line.dialyser is None else rig.dialysers[line.dialyser]
        every, outer_mm = self.lines[:, number], _outer_mm(line.bore_mm)
        every["revolution_ul"] = hydraulics.revolution_ul(line.bore_mm)
        every["kpa_per_ul_min"] = hydraulics.tube_kpa_per_ul_min(line.bore_mm, line.length_m)
        every["cell_ul"] = filled_ul / hydraulics.CELLS
        every["wall_kla_per_s"] = gas.tube_kla_per_s(line.bore_mm, outer_mm)
        loss_ul_s = evaporation.tube_loss_ul_s(line.bore_mm, outer_mm, line.length_m)
        every["water_loss_ul_s"] = self.parameters.water_loss * loss_ul_s
        every["open"] = line.valve is None and line.port is None
        every["flow_scale"], every["gain"] = 1.0, 1.0
        every["draws_above_ul"], every["one_way"] = line.draws_above_ul, line.check_valve
        every["fouling"] = 1.0
        every["kept_c"] = np.nan if self.links["breathes"][number] else room_c(rig)
        if line.filter is not None:
            area_cm2 = rig.filters[line.filter].area_cm2
            every["retained"] = membranes.retained(rig.filters[line.filter].pore_um)
            every["filter_kpa_per_ul_min"] = membranes.filter_kpa_per_ul_min(area_cm2)
            every["fouling_per_ul"] = membranes.FOULING_PER_UL_CM2 / area_cm2
        if dialyser is not None:
            every["koa_ul_s"] = dialyser.koa_ul_min / 60.0
            every["koa_at_ul_s"] = (dialyser.koa_at_ul_min or 0.0) / 60.0

    def _traits(self) -> NDArray[np.void]:
        """Return the constants of the nodes, shape (nodes,)."""
        rig, flows = self.rig, perfused(self.rig)
        traits, own = np.zeros(len(self.nodes), dtype=TRAIT), set(with_space(rig))
        for number, (name, vessel) in enumerate(rig.vessels.items()):
            row = traits[number]
            full_ul = float(self.vessels[0, number, Content.LIQUID])
            row["capacity_ul"] = vessel.capacity_ul
            row["overflow_ul"] = min(full_ul if vessel.overflow_ul is None else vessel.overflow_ul, vessel.capacity_ul)
            row["live"] = vessel.kind in INSIDE
            row["kla_per_s"] = self._kla_per_s(name, full_ul)
            surface_mm2 = 100.0 * (vessel.surface_cm2 or 0.0)
            if vessel.kind == "chamber" and vessel.surface_cm2 is None and name not in flows:
                surface_mm2 = surfaces.well_mm2(vessel.capacity_ul)
            row["surface_mm2"] = surface_mm2
            zone = zone_of(rig, name)
            row["kept_c"] = np.nan if name in own else zone.temperature_c
            row["kept_o2"], row["kept_co2"] = zone.oxygen_pct / 100.0, zone.co2_pct / 100.0
            row["cap_kla_per_s"] = ageing.CAP_KLA_PER_S if vessel.kind == "source" else 0.0
            humidity = surfaces.HUMID if zone.co2_pct > ROOM_CO2_PCT else surfaces.DRY
            loss_ul_s = surfaces.evaporation_ul_s(surface_mm2, zone.temperature_c, humidity)
            row["evaporation_ul_s"] = self.parameters.water_loss * loss_ul_s
        return traits

    def _kla_per_s(self, name: str, volume_ul: float) -> float:
        """Return the gas exchange of a vessel (1/s) without that of a still surface."""
        vessel, lung = self.rig.vessels[name], self.rig.organs.lung
        if lung is not None and lung.vessel == name:
            return gas.KLA_LUNG_PER_S
        if vessel.surface_cm2 is not None:
            return 0.0
        if vessel.kind == "process":
            return gas.KLA_SPENT_PER_S
        if vessel.kind == "loop":
            return gas.KLA_LUNG_PER_S if lung is None else gas.surface_kla_per_s(vessel.capacity_ul, volume_ul)
        return 0.0

    def _filled(self, rigs: int) -> F8:
        """Return the contents of the nodes by the rig file, shape (rigs, nodes, COLUMNS)."""
        vessels: F8 = np.zeros((rigs, len(self.nodes), COLUMNS))
        for number, vessel in enumerate(self.rig.vessels.values()):
            vessels[:, number] = self.composition(vessel.contains) * vessel.volume_ul
        return vessels

    def _views(self) -> tuple[NDArray[np.void], NDArray[np.void], NDArray[np.void]]:
        """Return the body (rigs,), the spaces (rigs, spaces) and the tissues (rigs, tissues) as records of `state`."""
        a = width(BODY)
        b = a + self.sizes.spaces * width(SPACE)
        c = b + self.sizes.tissues * width(TISSUE)
        return self.state[:, :a].view(BODY)[:, 0], self.state[:, a:b].view(SPACE), self.state[:, b:c].view(TISSUE)

    def _begin(self) -> None:
        """Put body, spaces and tissues in their state at the start."""
        rig, body = self.rig, self.body
        body["clog"] = 1.0
        for name in with_space(rig):
            number = self.layout.space_of(name)
            space, kept_c = self.spaces[:, number], zone_of(rig, name).temperature_c
            heated = rig.organs.skin if number == self.heated_space else None
            space["ambient_c"] = kept_c
            space["temperature_c"] = kept_c if heated is None else heated.setpoint_c
            space["o2_fraction"], space["co2_fraction"] = self._start_gas(number)
        if (gassed := self.gassed_space) is not None:
            self.spaces["o2_fraction"][:, gassed], self.spaces["co2_fraction"][:, gassed] = KEPT_UNDER
        volumes = [spec.count * spec.diameter_mm**3 for spec in rig.tissue.values()]
        for number, spec in enumerate(rig.tissue.values()):
            tissue = self.tissues[:, number]
            tissue["count"] = spec.count
            tissue["volume_mm3"] = pi / 6 * spec.diameter_mm**3
            tissue["share"] = volumes[number] / sum(volumes)
            self.parameters.tissue.write(tissue)

    @property
    def heated_space(self) -> int:
        """Return the space that the skin heats: that of its thermometer, else that of the first chamber."""
        skin = self.rig.organs.skin
        thermometer = None if skin is None else self.rig.devices.get(skin.temperature.partition(".")[0])
        place = None if thermometer is None else thermometer.at
        return self.layout.space_of(place if place in self.rig.vessels else next(iter(self.rig.tissue)))

    @property
    def gassed_space(self) -> int | None:
        """Return the space that the lung's gas fills; None without a lung."""
        lung = self.rig.organs.lung
        return None if lung is None else self.layout.gas_of(lung.vessel)

    def _start_gas(self, space: int) -> tuple[float, float]:
        """Return the fractions of oxygen and CO2 in a space at the start; without a lung they stay those of its zone."""
        if space == self.gassed_space:
            return KEPT_UNDER
        zone = self.rig.zones.get(self.layout.zones[space] or "")
        oxygen_pct, co2_pct = (ROOM_OXYGEN_PCT, ROOM_CO2_PCT) if zone is None else (zone.oxygen_pct, zone.co2_pct)
        return oxygen_pct / 100.0, co2_pct / 100.0

    def _kept_under(self, vessel: str) -> tuple[float, float]:
        """Return the fractions of oxygen and CO2 under which the medium of a vessel was kept before the start."""
        alone, space = self.layout.gassed_alone, self.layout.space_of(vessel)
        return KEPT_UNDER if alone is not None and space == 0 else self._start_gas(space)

    def _nearest(self, node: int) -> list[int]:
        """Return a vessel itself; of a junction the vessels that lines connect with it, those upstream first."""
        if node < self.sizes.vessels:
            return [node]
        seen, waiting, found = {node}, [node], []
        while waiting:
            junction = waiting.pop(0)
            up = self.links["source"][self.links["target"] == junction].tolist()
            down = self.links["target"][self.links["source"] == junction].tolist()
            for other in dict.fromkeys((*up, *down)):
                if other < self.sizes.vessels:
                    found.append(other)
                elif other not in seen:
                    waiting.append(other)
                seen.add(other)
        return found

    def _primed(self) -> F8:
        """Return the contents of the lines: what the source holds, or the target where the source is still empty."""
        held: F8 = np.zeros((*self.lines.shape, hydraulics.CELLS, COLUMNS))
        for number, link in enumerate(self.links[: self.sizes.pumped + self.sizes.branches]):
            for place in (*self._nearest(int(link["source"])), *self._nearest(int(link["target"]))):
                volume = self.vessels[0, place, Content.LIQUID]
                if volume > 0.0:
                    share = self.lines["cell_ul"][:, number] / volume
                    held[:, number] = (self.vessels[:, place] * share[:, None])[:, None, :]
                    break
        return held

    def advance(self, dt_s: float, steps: int = 1) -> None:
        """Advance every rig by `steps` steps of `dt_s` seconds."""
        advance = step_branched if self.sizes.branches else step
        advance(
            self.size_row, self.plumbing, self._trait_rows, self.vessels, self.held, self.line_rows,
            self.state, self.ph, self.profile, self.tally, self.spilled, self._scratch, self.network, dt_s, steps,
        )  # fmt: skip

    def contents(self) -> F8:
        """Return the content of all vessels and lines, shape (rigs, COLUMNS)."""
        total: F8 = self.vessels.sum(axis=1) + self.held.sum(axis=(1, 2))
        return total

    def composition(self, medium: str | None) -> F8:
        """Return the content of one microlitre of a medium, shape (COLUMNS,); zeros for None."""
        if medium is None:
            return np.zeros(COLUMNS)
        has = self.rig.media[medium]
        return composition(has, has.buffer_mm_per_ph(self.parameters.buffer_mm_per_ph))

    def replace(self, rig: int, vessel: int, row: F8, cause: int = TallyCause.FAULT) -> None:
        """Put other contents (a row of amounts) into a vessel; the difference is booked under its cause."""
        self.tally[rig, cause] += row - self.vessels[rig, vessel]
        self.vessels[rig, vessel] = row

    def _equilibrate(self, place: int, fractions: tuple[float, float]) -> None:
        """Bring a vessel into equilibrium with a gas (fractions of oxygen and CO2)."""
        for vessel in self.vessels[:, place]:
            volume = vessel[Content.LIQUID]
            if volume > 0:
                co2_mm = chemistry.co2_mm(fractions[1])
                alkalinity = vessel[Content.ALKALINITY] / volume
                buffer = vessel[Content.BUFFER] / volume
                ph = chemistry.ph_of(alkalinity, co2_mm, buffer=buffer)
                vessel[Content.OXYGEN] = chemistry.oxygen_mm(fractions[0]) * volume
                vessel[Content.CARBON] = (co2_mm + chemistry.bicarbonate_of(alkalinity, ph, buffer)) * volume

    def settle(self) -> None:
        """Set what lives of each tissue to what lives in the care by design, less the losses of the move to the rig."""
        flows = perfused(self.rig)
        known: dict[tuple[Care, float], F8] = {}
        for number, (name, host) in enumerate(self.chambers.items()):
            oxygen_mm = chemistry.oxygen_mm(self._kept_under(self.vessel_names[host])[0])
            flow_ul_s = flows.get(name, 0.0) / 60.0
            volume_ul, trait = float(self.vessels[0, host, Content.LIQUID]), self.traits[host]
            kla_per_s = float(trait["kla_per_s"])
            if trait["surface_mm2"] > 0.0:
                kla_per_s += surfaces.still_kla_per_s(float(trait["surface_mm2"]), volume_ul)
            for tissue, rows in zip(self.tissues[:, number], self.profile[:, number], strict=True):
                radius = organoid.radius_m(float(tissue["volume_mm3"]))
                care = Care(
                    oxygen_mm=oxygen_mm,
                    supply_ul_s=flow_ul_s + kla_per_s * volume_ul,
                    velocity_m_s=flow_ul_s * 1e-9 / organoid.CHAMBER_SECTION_M2 + organoid.STILL_M_S,
                    organoids=float(tissue["count"]),
                    **{each: float(tissue[each]) for each in CARE_OF_TISSUE},
                )
                if (care, radius) not in known:
                    known[care, radius] = settled(care, radius)
                rows[:] = known[care, radius]
                rows[Shell.LIVING] *= START_VIABILITY
        take_stocks(self.tissues, sphere.SHELLS, self.profile)


def composition(has: Medium, buffer_mm_per_ph: float) -> F8:
    """Return the content of one microlitre of a medium with this capacity of other buffers, shape (COLUMNS,)."""
    row: F8 = np.zeros(COLUMNS)
    row[Content.GLUCOSE], row[Content.LACTATE], row[Content.AMMONIA] = has.glucose_mm, has.lactate_mm, has.ammonia_mm
    row[Content.DIPEPTIDE if has.stable_glutamine else Content.GLUTAMINE] = has.glutamine_mm
    row[Content.OSMOLES], row[Content.LIQUID] = has.osmolality_mosm, 1.0
    row[Content.OXYGEN] = chemistry.AIR_SATURATION_MM
    co2_mm = chemistry.co2_mm(0.05)
    ph = chemistry.PK + log10(max(has.bicarbonate_mm, 1e-3) / co2_mm)
    row[Content.CARBON] = co2_mm + has.bicarbonate_mm
    row[Content.BUFFER] = buffer_mm_per_ph
    row[Content.ALKALINITY] = has.bicarbonate_mm + row[Content.BUFFER] * (ph - chemistry.BUFFER_REFERENCE_PH)
    # A medium with glutamine is a complete one: it carries the supplements.
    if has.glutamine_mm > 0:
        row[Content.INSULIN], row[Content.ALBUMIN] = 1.0, turnover.SUPPLEMENT_ALBUMIN_MM
        row[Content.TROPHIC] = turnover.FRESH_TROPHIC
        row[Content.LDH] = FRESH_LDH_U_L
    return row


def _state_width(sizes: Sizes) -> int:
    """Return the width of a row of `state`: the fields of the body, of the spaces and of the tissues, and the waits."""
    return width(BODY) + sizes.spaces * width(SPACE) + sizes.tissues * width(TISSUE) + sizes.stride


def flat(records: NDArray[np.void], kind: type[Number]) -> NDArray[Number]:
    """Return an array of records as numbers: the same memory with one more axis, the fields."""
    return records.view(kind).reshape((*records.shape, width(records.dtype)))


def _outer_mm(bore_mm: float) -> float:
    bores, outers = OUTER_MM
    if not bores[0] <= bore_mm <= bores[-1]:
        return 3.0 * bore_mm
    return float(np.interp(bore_mm, bores, outers))
