"""Medium history: what each transfer mixes into the vessels on its path, and into the lines that several media pass."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from controller.core.state import Volume
from controller.ledger.batches import BatchMixture, Whereabouts
from controller.ledger.flow_paths import FlowPath
from controller.ledger.line_contents import LineContents, Liquid
from controller.ledger.terms import Parcel
from controller.rig.description import Rig
from controller.rig.organs import KidneyConfig
from protocols.dialysis import INSULIN_KOA, exchanged, koa_at


@dataclass(slots=True)
class VesselState:
    """Volume (µL), its variance (µL²) and the history of the medium of one vessel."""

    ul: float
    variance: float
    parcel: Parcel = field(default_factory=Parcel)
    _cached: tuple[float, float, Volume] | None = None

    def volume(self) -> Volume:
        """Return volume and standard deviation (µL); the same object as long as they do not change."""
        cached = self._cached
        if cached is None or cached[0] != self.ul or cached[1] != self.variance:
            cached = self._cached = (self.ul, self.variance, Volume(self.ul, math.sqrt(self.variance)))
        return cached[2]


class Mixing:
    """Keeps the parcels of all vessels, and where each lot is."""

    def __init__(
        self, rig: Rig, vessels: Mapping[str, VesselState], whereabouts: Whereabouts, contents: LineContents
    ) -> None:
        self._rig = rig
        self._loop = rig.loop
        self._vessels = vessels
        self._whereabouts = whereabouts
        self._contents = contents
        self._kidney = rig.organs.kidney

    def mix(self, path: FlowPath, ul: float, utc: str) -> None:
        """Mix a volume that was moved along a path: perfectly in each vessel, also in those that run over."""
        passing: dict[str, Liquid] = {}
        """What enters each junction and selector."""
        for leg, share in path.mixed(ul, {name: vessel.ul for name, vessel in self._vessels.items()}):
            into_loop = leg.target == self._loop
            liquid = passing.get(leg.source) or self._held(leg.source)
            if leg.line in self._contents and leg.source in passing:
                liquid = self._contents.pass_through(leg.line, liquid, leg.share * ul)
                self._whereabouts.mixtures[leg.source] = liquid.lots
            parcel = liquid.parcel
            if leg.target not in self._vessels:
                passing[leg.target] = liquid
            else:
                if into_loop:
                    parcel = replace(parcel, passes=parcel.passes + 1.0 - parcel.unused, unused=0.0)
                target = self._vessels[leg.target]
                target.parcel = target.parcel.mixed(parcel, share)
            moved_ul = leg.share * ul
            self._whereabouts.moved(leg.line, leg.source, leg.target, moved_ul, share, into_loop=into_loop, utc=utc)
        self._contents.displace([leg.line for leg in path.legs], path.legs[0].source, ul)
        for place in passing:
            self._whereabouts.mixtures.pop(place, None)
        if self._kidney is not None and path.legs[0].line == self._kidney.dialyse:
            self._dialyse(self._kidney, ul)

    def _held(self, vessel: str) -> Liquid:
        """Return what a vessel holds; nothing is known of what a pump draws out of a branch."""
        known = self._vessels.get(vessel)
        lots = self._whereabouts.mixtures.get(vessel, BatchMixture())
        return Liquid({vessel: 1.0}, Parcel() if known is None else known.parcel, lots)

    def _dialyse(self, kidney: KidneyConfig, ul: float) -> None:
        """Take the insulin out of the spent vessel that leaves with `ul` of dialysate."""
        spent = self._vessels[kidney.vessel]
        fibres = self._rig.dialysers[self._rig.lines[kidney.dialyse or ""].dialyser or ""]
        koa = koa_at(kidney.dialysate_ul_min, fibres.koa_ul_min, fibres.koa_at_ul_min)
        leaked = exchanged(INSULIN_KOA * koa, kidney.dialysate_ul_min, ul, spent.ul)
        spent.parcel = replace(spent.parcel, insulin=spent.parcel.insulin * (1.0 - leaked))
