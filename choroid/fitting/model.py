"""The forward model of a fit: the light plant over recorded inputs, for many sets of parameters at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from choroid.fitting.errors import sensitivity
from choroid.fitting.priors import TISSUE, Parameter, declared_buffer
from choroid.fitting.records import FitRecords
from controller.rig.perfusion import circulating
from sim.plant import chemistry, hydraulics
from sim.plant.circulating import BODIES, LOOP, RATES, SEEN, SPENT, Place, live
from sim.plant.columns import COLUMNS, Content, width
from sim.plant.columns import TISSUE as TISSUE_RECORD
from sim.plant.fleet import Fleet, composition
from sim.plant.layout import perfused
from sim.plant.parameters import PlantParameters
from sim.plant.settling import SHELL_ROWS, take_stocks
from sim.plant.sphere import NODES, SHELLS
from sim.plant.tissue_models import TissueKind

F8 = NDArray[np.float64]
DEMANDS = np.geomspace(0.08, 12.0, 24)
"""Demands for which the living shells at the start is computed; between them it is interpolated."""


class LightTwin:
    """The light plant of one rig over one period."""

    def __init__(self, recorded: FitRecords, chosen: Sequence[Parameter]) -> None:
        self.recorded, self.chosen = recorded, list(chosen)
        self._names = [each.name for each in self.chosen]
        self._medians = np.array([each.median for each in self.chosen])
        self._spreads = np.array([each.spread for each in self.chosen])
        self._declared = declared_buffer(recorded)
        rig = recorded.rig
        fleet = Fleet(rig, [0])
        self._circles = circulating(rig)
        self._tissues = [number for number, name in enumerate(rig.tissue) if name in self._circles]
        flows = perfused(rig)
        own = np.array([max(flows.get(name, 0.0), 1e-6) for name in rig.tissue if name in self._circles])
        self._shares: F8 = own / own.sum()
        self._place = np.array(self._constants(fleet))
        self._cores = [Fleet(rig, [0], parameters=PlantParameters(TissueKind(demand=each))) for each in DEMANDS]

    @property
    def dimensions(self) -> int:
        """The number of parameters, with the loss of tissue."""
        return len(self.chosen)

    def values(self, z: F8) -> F8:
        """Return the parameters of standard normal numbers, shape (…, parameters); without the last there is no loss."""
        known = z.shape[-1]
        found: F8 = np.zeros((*z.shape[:-1], self.dimensions))
        found[..., :known] = self._medians[:known] * np.exp(self._spreads[:known] * z)
        return found

    def course(self, z: F8) -> tuple[F8, F8]:
        """Live through the period with each set of parameters.

        Args:
            z: shape (sets, parameters), with or without the loss of tissue, which is the last

        Returns:
            What is in the media at the end of each step, shape (sets, steps, BODIES, SEEN), and the rates of the tissue in
            each step (nmol/s), shape (sets, steps, RATES): oxygen, glucose, lactate made, glutamine.
        """
        return self._lived(z)[:2]

    def living_change(self, z: F8) -> F8:
        """Return by how much the living tissue changes a day (per cent) over the period, with each set of parameters."""
        _, _, begun, ended = self._lived(z)
        found: F8 = 100.0 * ((np.maximum(ended, 1e-9) / begun) ** (1.0 / self.recorded.days) - 1.0)
        return found

    def observed(self, z: F8) -> F8:
        """Return what each observation is expected to be, shape (sets, observations)."""
        out, _ = self.course(z)
        found: F8 = out[:, self._at[0], self._at[1], self._at[2]] * self._sensitivity
        return found

    @cached_property
    def _at(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        every = self.recorded.observations
        return (
            self.recorded.place.astype(np.int64),
            np.array([each.body for each in every], dtype=np.int64),
            np.array([int(each.column) for each in every], dtype=np.int64),
        )

    @cached_property
    def _sensitivity(self) -> F8:
        return sensitivity(self.recorded.observations)

    # --- inside -----------------------------------------------------------------------------------------

    def _lived(self, z: F8) -> tuple[F8, F8, F8, F8]:
        """Return what :meth:`course` does, and the living tissue at the begin and at the end (mm³)."""
        sets = len(z)
        values = dict(zip(self._names, self.values(z).T, strict=True))
        one = np.ones(sets)
        media = self._media(values, sets)
        bodies = self._bodies(values, media, sets)
        tissues, profiles = self._tissue_rows(values, sets)
        scales = np.stack(
            [values.get("water_loss", one), values.get("gas_transfer", one), values.get("flow", one)], axis=1
        )
        steps = len(self.recorded.steps)
        out = np.zeros((sets, steps, BODIES, SEEN))
        uptakes = np.zeros((sets, steps, RATES))
        begun = _living_mm3(tissues)
        live(
            self.recorded.steps, self.recorded.moves, self._place, self._shares, bodies, media, tissues, profiles, scales,
            out, uptakes, 0, sets,
        )  # fmt: skip
        return out, uptakes, begun, _living_mm3(tissues)

    def _constants(self, fleet: Fleet) -> Place:
        """Return what the rig's vessels and tubes exchange with their surroundings."""
        rig, names = self.recorded.rig, fleet.vessel_names
        inside = [names.index(name) for name in self._circles]
        kidney = rig.organs.kidney
        spent = -1 if kidney is None else names.index(kidney.vessel)
        traits, lines, links = fleet.traits, fleet.lines[0], fleet.links
        water = float(sum(traits["evaporation_ul_s"][each] for each in inside))
        spent_water = 0.0
        for number in range(fleet.sizes.pumped + fleet.sizes.branches):
            if links["breathes"][number]:
                giver = links["source"][number]
                giver = giver if giver < fleet.sizes.vessels else links["target"][number]
                water += float(lines["water_loss_ul_s"][number]) * (giver in inside)
                spent_water += float(lines["water_loss_ul_s"][number]) * (giver == spent)
        hearts = [fleet.line_names.index(heart.line) for heart in rig.organs.hearts.values()]
        silicone = [number for number in hearts if links["breathes"][number]]
        held = [float(lines["cell_ul"][number]) * hydraulics.CELLS for number in silicone]
        kla = [float(lines["wall_kla_per_s"][number]) for number in silicone]
        volumes = fleet.vessels[0, :, Content.LIQUID]
        return Place(
            gas_ul_s=float(sum(traits["kla_per_s"][each] * volumes[each] for each in inside)) or 1e-6,
            spent_gas_ul_s=0.0 if spent < 0 else float(traits["kla_per_s"][spent] * volumes[spent]),
            tube_kla_per_s=float(np.mean(kla)) if kla else 0.0,
            tube_ul=sum(held),
            flow_ul_s=sum(heart.flow_ul_min for heart in rig.organs.hearts.values()) / 60.0,
            water_ul_s=water,
            spent_water_ul_s=spent_water,
        )

    def _media(self, values: dict[str, F8], sets: int) -> F8:
        """Return the content of one microlitre of each medium, shape (sets, media, COLUMNS)."""
        one = np.ones(sets)
        media: F8 = np.zeros((sets, len(self.recorded.media), COLUMNS))
        buffers = values.get("buffer_mm_per_ph", one * (1.0 if self._declared else chemistry.BUFFER_MM_PER_PH))
        scale = {name: values.get(f"label_{name}", one) for name in ("glucose", "bicarbonate", "glutamine", "ammonia")}
        osmolality = values.get("label_osmolality", one)
        for number, name in enumerate(self.recorded.media):
            medium = self.recorded.rig.media[name]
            stated = medium.buffer_mm_per_ph(-1.0)
            for each in range(sets):
                really = medium.model_copy(
                    update={
                        f"{species}_mm": getattr(medium, f"{species}_mm") * by[each] for species, by in scale.items()
                    }
                    | {"osmolality_mosm": medium.osmolality_mosm * osmolality[each]}
                )
                factor = buffers[each] if self._declared else 1.0
                capacity = buffers[each] if stated < 0.0 and not self._declared else max(stated, 0.0) * factor
                if stated < 0.0 and self._declared:
                    capacity = chemistry.BUFFER_MM_PER_PH
                media[each, number] = composition(really, capacity)
        return media

    def _bodies(self, values: dict[str, F8], media: F8, sets: int) -> F8:
        """Return the content of loop and spent medium at the begin, shape (sets, BODIES, COLUMNS)."""
        recorded, rig = self.recorded, self.recorded.rig
        kidney = rig.organs.kidney
        places = (self._circles[0], None if kidney is None else kidney.vessel)
        bodies: F8 = np.zeros((sets, BODIES, COLUMNS))
        for body, (place, ul) in enumerate(zip(places, recorded.volumes_ul, strict=True)):
            contains = None if place is None else rig.vessels[place].contains
            if contains is not None and ul > 0.0:
                bodies[:, body] = media[:, recorded.media.index(contains)] * ul
        loop_ul = recorded.volumes_ul[LOOP]
        if recorded.start is not None:
            for name, column in (
                ("glucose_mm", Content.GLUCOSE), ("lactate_mm", Content.LACTATE), ("ammonia_mm", Content.AMMONIA),
                ("osmolality_mosm", Content.OSMOLES),
            ):  # fmt: skip
                bodies[:, LOOP, column] = values[f"start_{name}"] * loop_ul
            buffer = bodies[:, LOOP, Content.BUFFER]
            label = values["start_bicarbonate_mm"] * loop_ul
            bodies[:, LOOP, Content.ALKALINITY] = label + buffer * (7.5 - chemistry.BUFFER_REFERENCE_PH)
        # Carbon at the first measured pH: bicarbonate, and the CO2 that belongs to it.
        for body in (LOOP, SPENT):
            ph = recorded.first_ph
            bicarbonate = bodies[:, body, Content.ALKALINITY] - bodies[:, body, Content.BUFFER] * (
                ph - chemistry.BUFFER_REFERENCE_PH
            )
            bodies[:, body, Content.CARBON] = np.maximum(bicarbonate, 0.0) * (1.0 + 10.0 ** (chemistry.PK - ph))
        return bodies

    def _tissue_rows(self, values: dict[str, F8], sets: int) -> tuple[F8, F8]:
        """Return the tissues at the begin, shape (sets, tissues, fields), and their oxygen profiles."""
        fields = width(TISSUE_RECORD)
        rows: F8 = np.zeros((sets, len(self._tissues), fields))
        profiles: F8 = np.zeros((sets, len(self._tissues), SHELL_ROWS, NODES))
        demand = values.get("demand", np.ones(sets))
        for place, number in enumerate(self._tissues):
            base = self._cores[0].tissues[0, number]
            records = rows[:, place].view(TISSUE_RECORD)[:, 0]
            records[:] = base
            known = np.array([each.profile[0, number] for each in self._cores])
            at = np.interp(np.log(demand), np.log(DEMANDS), np.arange(len(DEMANDS)))
            low = np.minimum(at.astype(np.int64), len(DEMANDS) - 2)
            part = (at - low)[:, None, None]
            profiles[:, place] = (1.0 - part) * known[low] + part * known[low + 1]
            for name in TISSUE:
                default = getattr(TissueKind(), name)
                records[name] = values.get(name, np.full(sets, default))
        take_stocks(rows.view(TISSUE_RECORD)[:, :, 0], SHELLS, profiles)
        return rows, profiles


def _living_mm3(tissues: F8) -> F8:
    """Return the living tissue of each set, shape (sets,)."""
    records = tissues.view(TISSUE_RECORD)[:, :, 0]
    found: F8 = (records["count"] * records["volume_mm3"] * (1.0 - records["dead_fraction"])).sum(axis=1)
    return found
