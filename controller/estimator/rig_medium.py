"""The medium of one rig as the filter sees it: the vessels of each body of medium, what fills them, what a transfer does."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace

import numpy as np

from controller.journal.rows import JournalRows
from controller.ledger.flow_paths import FlowPaths
from controller.ledger.ledger import LOADED
from controller.ledger.samples import AssaySample
from controller.ledger.terms import EVAPORATION_UL_D
from controller.rig.description import Medium, Rig
from controller.rig.perfusion import circulating
from controller.tissue.record import TissueRecord
from protocols import media_assays, media_filter, media_state
from protocols.dialysis import exchanged, koa_at
from protocols.media_state import MediaState
from protocols.medium_ageing import DOUBT
from protocols.soft_sensor import (
    BUFFER_MM_PER_PH,
    BUFFER_SD_MM_PER_PH,
    DECLARED_BUFFER_REL_SD,
    Composition,
    Where,
)

_NOTHING = Composition(0.0, 0.0, 0.0, 0.0, 0.0, 290.0)


def composition_of(medium: Medium) -> Composition:
    """Return the composition on the label of a medium."""
    return Composition(**{field.name: getattr(medium, field.name) for field in fields(Composition)})


def label_sd_of(medium: Medium) -> media_state.Array:
    """Return how far a medium may be off its label, by species: as the rig file says, else as usual."""
    usual = media_state.label_sd(media_state.of_composition(composition_of(medium)))
    stated = [getattr(medium.label_sd, name, None) for name in media_state.SPECIES]
    return np.array([own if own is not None else sd for own, sd in zip(stated, usual, strict=True)])


def _aged(bottle: Composition, glutamine: float, *, stable: bool) -> tuple[Composition, media_state.Array]:
    """Return a bottle with a share of its glutamine left, and how far it may be off that because of its age."""
    lost_mm = bottle.glutamine_mm * (1.0 - glutamine)
    made_mm = 0.0 if stable else lost_mm
    doubt = np.zeros(len(media_state.SPECIES))
    doubt[media_state.GLUTAMINE], doubt[media_state.AMMONIA] = DOUBT * lost_mm, DOUBT * made_mm
    older = replace(bottle, glutamine_mm=bottle.glutamine_mm - lost_mm, ammonia_mm=bottle.ammonia_mm + made_mm)
    return older, doubt


class RigMedium:
    """Applies what happens to a rig's medium to a state. The loop and the chambers that hearts feed from it are one body."""

    def __init__(self, rig: Rig, journal: JournalRows, tissue: TissueRecord | None) -> None:
        self._rig = rig
        self._journal = journal
        self._tissue = tissue
        self._kidney = rig.organs.kidney
        self.spent = None if self._kidney is None else self._kidney.vessel
        """The vessel of spent medium."""
        self.circulating = circulating(rig)
        """The vessels of the loop's medium."""
        self._paths = FlowPaths(rig)

    @property
    def places(self) -> dict[str, Where]:
        """The vessels that are estimated, with the body of medium that each belongs to."""
        places: dict[str, Where] = dict.fromkeys(self.circulating, "loop")
        return places if self.spent is None else {**places, self.spent: "spent"}

    def where(self, vessel: str) -> Where | None:
        """Return which of the two bodies of medium a vessel belongs to; None for bottles and waste."""
        if vessel in self.circulating:
            return "loop"
        return "spent" if vessel == self.spent else None

    def begin(self) -> MediaState:
        """Return the state before anything happened."""
        rig = self._rig
        opened = self._journal.last("ledger.opened")
        volumes = {name: vessel.volume_ul for name, vessel in rig.vessels.items()}
        volumes |= {} if opened is None else opened.body
        state = media_state.begin(
            self._content(self.circulating[0]) or _NOTHING,
            _NOTHING if self.spent is None else self._content(self.spent) or _NOTHING,
            loop_ul=sum(volumes[name] for name in self.circulating),
            spent_ul=0.0 if self.spent is None else volumes[self.spent],
            tissue_mm3=sum(map(self._tissue_mm3, self.circulating)),
            water_ul_d=media_state.WATER_UL_D,
            buffer=self._buffer(),
            ph=media_state.USUAL_PH if rig.organs.lung is None else rig.organs.lung.ph_setpoint,
            growth_per_d=self._growth_per_d(),
            loop_label=self._label_sd(self.circulating[0]),
            method_sd=self._method_sd(media_state.METHOD_REL_SD),
            spent_label=None if self.spent is None else self._label_sd(self.spent),
        )
        return media_state.with_stable_glutamine(state) if self.stable_glutamine else state

    @property
    def stable_glutamine(self) -> bool:
        """Whether the glutamine of the loop's medium is the dipeptide."""
        medium = self._rig.media.get(self._rig.vessels[self.circulating[0]].contains or "")
        return medium is not None and medium.stable_glutamine

    def as_declared(self, state: MediaState, *, stable: bool) -> MediaState:
        """Return a stored state with the decay of glutamine that the rig file says now; `stable`: what it said then."""
        return state if stable == self.stable_glutamine else media_state.with_decay_of(state, self.begin())

    def _buffer(self) -> tuple[float, float]:
        """Return the capacity of the other buffers of the loop's medium, and its sd (mM per pH)."""
        name = self._rig.vessels[self.circulating[0]].contains
        medium = None if name is None else self._rig.media[name]
        declared = math.nan if medium is None else medium.buffer_mm_per_ph(math.nan)
        if math.isnan(declared):
            return BUFFER_MM_PER_PH, BUFFER_SD_MM_PER_PH
        return declared, DECLARED_BUFFER_REL_SD * declared

    def _tissue_mm3(self, vessel: str) -> float:
        tissue = self._rig.tissue.get(vessel)
        return 0.0 if tissue is None else tissue.count * math.pi / 6 * tissue.diameter_mm**3

    def _growth_per_d(self) -> float:
        """Return the expected growth of the rates of all tissue that was there at the start, by its size."""
        volumes = {name: self._tissue_mm3(name) for name in self.circulating}
        whole_mm3 = sum(volumes.values())
        if whole_mm3 <= 0.0:
            return 0.0
        return sum(
            mm3 / whole_mm3 * media_state.growth_of(mm3 / self._rig.tissue[name].count)
            for name, mm3 in volumes.items()
            if mm3 > 0.0
        )

    def _label_sd(self, vessel: str) -> media_state.Array | None:
        name = self._rig.vessels[vessel].contains
        return None if name is None else label_sd_of(self._rig.media[name])

    @property
    def label_sd(self) -> media_state.Array:
        """For each species, the usual deviation of the loop's medium from its label."""
        label = self._label_sd(self.circulating[0])
        return media_state.label_sd(media_state.of_composition(_NOTHING)) if label is None else label

    @property
    def doubt(self) -> media_assays.GrossErrors:
        """How far the label of the loop's medium and the methods of the assays are off if they are wrong."""
        stated = self._content(self.circulating[0]) or _NOTHING
        gross = media_state.gross_label_sd(media_state.of_composition(stated))
        label = np.maximum(gross / self.label_sd, 1.0)
        return media_assays.GrossErrors(label, self._method_sd(media_state.GROSS_METHOD_REL_SD))

    def _method_sd(self, usual: tuple[float, ...]) -> media_state.Array:
        """Return the relative deviations of the assays' methods: as the rig file says, else as usual."""
        stated = [getattr(self._rig.method_sd, name, None) for name in media_state.SPECIES]
        return np.array([sd if pct is None else pct / 100.0 for pct, sd in zip(stated, usual, strict=True)])

    def _content(self, vessel: str) -> Composition | None:
        name = self._rig.vessels[vessel].contains
        return None if name is None else composition_of(self._rig.media[name])

    @staticmethod
    def lived(state: MediaState, seconds: float) -> MediaState:
        """Return the state after `seconds` in which nothing was done to the medium."""
        return media_filter.elapsed(state, seconds, water_ul_d=EVAPORATION_UL_D)

    def with_tissue(self, state: MediaState, seq: int) -> MediaState:
        """Return the state after the change of tissue of journal row `seq`."""
        if self._tissue is None:
            return state
        before, after = (
            sum(volumes.get(vessel, 0.0) for vessel in self.circulating) for volumes in self._tissue.volumes_mm3(seq)
        )
        return state if before == after else media_state.tissue_changed(state, before, after)

    def loaded(self, state: MediaState, seq: int) -> MediaState:
        """Return the state after a person put medium into a vessel, by the journal's row `seq`."""
        rows = {row.seq: row.body for row in self._journal.entries(kinds=(LOADED,)) if row.seq <= seq}
        body = rows.pop(seq)
        vessel = body["vessel"]
        former = next((each["lot"] for each in reversed(rows.values()) if each["vessel"] == vessel), None)
        complete = self._rig.vessels[vessel].contains == self._rig.vessels[self.circulating[0]].contains
        if not complete or self.where(vessel) is not None or body["lot"] == former:
            return state
        return media_state.new_lot(state)

    def poured(self, state: MediaState, name: str, ul: float, glutamine: float = 1.0) -> MediaState:
        """Return the state after a volume was moved along a line, and over what runs over behind it.

        `glutamine`: the share of its label's glutamine that a bottle still has by its age.
        """
        line = self._rig.lines[name]
        if line.from_ not in self._rig.vessels:
            return state
        poured: Where | Composition | None = self.where(line.from_) or self._content(line.from_)
        vessels, label, aged = self._rig.vessels, self._label_sd(line.from_), None
        if isinstance(poured, Composition) and glutamine < 1.0:
            stable = self._rig.media[vessels[line.from_].contains or ""].stable_glutamine
            poured, aged = _aged(poured, glutamine, stable=stable)
        complete = vessels[line.from_].contains == vessels[self.circulating[0]].contains
        kidney = self._kidney
        if kidney is not None and name == kidney.dialyse:
            # For solutes that pass the membrane, dialysis equals the replacement of a share of the batch by dialysate.
            fibres = self._rig.dialysers[line.dialyser or ""]
            koa = koa_at(kidney.dialysate_ul_min, fibres.koa_ul_min, fibres.koa_at_ul_min)
            share = exchanged(koa, kidney.dialysate_ul_min, ul, state.spent_ul)
            replaced_ul = share * state.spent_ul
            return media_filter.moved(
                media_filter.moved(state, "spent", None, replaced_ul),
                poured,
                "spent",
                replaced_ul,
                label=label,
                aged=aged,
            )
        for vessel, share in self._paths.full(name).items():
            if share > 0.0:
                state = media_filter.moved(
                    state, poured, self.where(vessel), share * ul, complete=complete, label=label, aged=aged
                )
        return state

    def mixed(self, tracer: Mapping[Where, float], state: MediaState, name: str, ul: float) -> Mapping[Where, float]:
        """Return the concentrations of a substance after a volume was moved along a line; bottles hold none of it.

        A dialyser holds it back, as it does all proteins.
        """
        line, kidney = self._rig.lines[name], self._kidney
        if ul <= 0.0 or line.from_ not in self._rig.vessels or (kidney is not None and name == kidney.dialyse):
            return tracer
        source = self.where(line.from_)
        poured = 0.0 if source is None else tracer[source]
        after = dict(tracer)
        for vessel, share in self._paths.full(name).items():
            target = self.where(vessel)
            if share > 0.0 and target is not None and target != source:
                before_ul = state.loop_ul if target == "loop" else state.spent_ul
                after[target] += (poured - after[target]) * share * ul / (before_ul + share * ul)
        return after

    def withdrawn(self, state: MediaState, sample: AssaySample) -> MediaState:
        """Return the state after a sample was taken out."""
        for vessel, ul in sample.withdrawn_ul():
            state = media_filter.moved(state, self.where(vessel), None, ul)
        return state
