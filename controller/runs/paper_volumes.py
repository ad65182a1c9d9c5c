"""Volumes on paper: what a rehearsal knows of each vessel, with its doubt, while doses, hearts and evaporation change it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from controller.core.state import Volume
from controller.ledger.flow_paths import FlowPaths
from controller.ledger.losses import losses_of
from controller.rig.description import Rig
from controller.rig.graph import lines_of_heart
from controller.safety.kernel import SIGMAS
from controller.transfers.routes import Route, dosing_of
from controller.transfers.weighing import MASS_SD_G

DAY_S = 86_400.0
MIN_UL_MIN = 1e-6
"""Net flow below which a heart does not change a vessel: what it brings leaves again (µL/min)."""


class PaperVolumes:
    """Volumes (µL) and variances (µL²) of all vessels of a rig."""

    def __init__(self, rig: Rig, volumes: Mapping[str, Volume]) -> None:
        self.ul = {name: volume.ul for name, volume in volumes.items()}
        self.variance = {name: volume.sd_ul**2 for name, volume in volumes.items()}
        self.passed_ul: dict[str, float] = {}
        """What the hearts have brought to a vessel and not taken away again, by vessel (µL)."""
        self._rig = rig
        self._paths = FlowPaths(rig)
        self._passing = list(_passing(rig, self._paths))
        kidney = rig.organs.kidney
        self._losses = [
            (name, loss) for name, loss in losses_of(rig).items() if kidney is None or name != kidney.vessel
        ]  # each dose weighs the kidney's vessel again

    def now(self) -> dict[str, Volume]:
        """Return the volumes with their standard deviations."""
        return {name: Volume(ul, math.sqrt(self.variance[name])) for name, ul in self.ul.items()}

    def elapse(self, seconds: float) -> None:
        """Let time pass: water evaporates, and hearts that draw from a bottle empty it."""
        for name, loss in self._losses:
            self.ul[name] -= loss.ul_d * seconds / DAY_S
            self.variance[name] += (loss.sd_ul_d * seconds / DAY_S) ** 2
        for name, ul_min, rel_sd in self._passing:
            self.ul[name] += ul_min * seconds / 60.0
            self.passed_ul[name] = self.passed_ul.get(name, 0.0) + ul_min * seconds / 60.0
            self.variance[name] += (rel_sd * ul_min * seconds / 60.0) ** 2

    def move(self, route: Route, volume_ul: float) -> float:
        """Book a dose; return its standard deviation (µL). A straw draws air below its height, and that moves nothing."""
        volume_ul = self.liquid_ul(route, volume_ul)
        sd_ul = route.rel_sd * volume_ul
        if route.weighed:
            sd_ul = math.hypot(math.sqrt(2.0) * MASS_SD_G * 1000.0, 0.002 * volume_ul)
        for name, share in self._changes(route, volume_ul).items():
            self.ul[name] += share * volume_ul
            self.variance[name] += (share * sd_ul) ** 2
        if route.weighed:
            spent = route.target if route.weighed > 0 else route.source
            self.variance[spent] = (MASS_SD_G * 1000.0) ** 2 + (0.002 * self.ul[spent]) ** 2
        return sd_ul

    def breaches(self, route: Route, volume_ul: float) -> Iterator[str]:
        """Yield why a dose does not fit: three standard deviations from floor and ceiling (I4)."""
        floor_ul = self._rig.vessels[route.source].floor_ul
        if 0.0 < floor_ul <= self._straw_ul(route):
            floor_ul = -math.inf
        volume_ul = self.liquid_ul(route, volume_ul)
        lowest_ul = self.ul[route.source] - SIGMAS * math.sqrt(self.variance[route.source]) - volume_ul
        if lowest_ul < floor_ul:
            yield (f"“{route.source}” could fall to {lowest_ul / 1000:.2f} mL, below its floor, {floor_ul / 1000:g} mL")
        for name, share in self._changes(route, volume_ul).items():
            ceiling_ul = self._rig.vessels[name].limit_ul
            highest_ul = self.ul[name] + SIGMAS * math.sqrt(self.variance[name]) + share * volume_ul
            if share > 0.0 and highest_ul > ceiling_ul:
                yield (
                    f"“{name}” could rise to {highest_ul / 1000:.2f} mL, above its ceiling of {ceiling_ul / 1000:g} mL"
                )

    def _straw_ul(self, route: Route) -> float:
        """Return the volume of the source at which a route draws air (µL)."""
        line = route.line if route.path is None else route.path.lines[0]
        return self._rig.lines[line].draws_above_ul

    def liquid_ul(self, route: Route, volume_ul: float) -> float:
        """Return what of a dose is liquid (µL): what stands above the straw; without a straw all of it."""
        straw_ul = self._straw_ul(route)
        return min(volume_ul, max(self.ul[route.source] - straw_ul, 0.0)) if straw_ul > 0.0 else volume_ul

    def _changes(self, route: Route, volume_ul: float) -> Mapping[str, float]:
        if route.path is not None and route.path.positions:
            return self._paths.along(route.path, volume_ul, self.ul.__getitem__).changes
        return self._paths.of(route.line, volume_ul, self.ul.__getitem__).changes


def _passing(rig: Rig, paths: FlowPaths) -> Iterator[tuple[str, float, float]]:
    """Yield each vessel that the hearts empty or fill: its name, net flow (µL/min) and the flow's relative uncertainty."""
    for name, heart in rig.organs.hearts.items():
        for line in lines_of_heart(rig, name):
            rel_sd = dosing_of(rig, rig.lines[line].pump or "").rel_sd
            for vessel, share in paths.full(line).items():
                if abs(share * heart.flow_ul_min) > MIN_UL_MIN:
                    yield vessel, share * heart.flow_ul_min, rel_sd
