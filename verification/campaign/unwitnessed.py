"""What nothing on a rig can show of a dose: exactly what the residual rows `unwitnessed_…` of its hazard table say.

The volume that a dose lacks by such a fault is excused. Everything else of the dose is judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from controller.hazards.witnesses import unwitnessed_id
from controller.rig.description import Rig
from controller.transfers.flow_witness import proved_from_ul
from controller.transfers.routes import Route, route_of_dose, routes_of
from sim.plant.plant import Plant
from verification.campaign.troubles import Troubles, unseen_rows


class Net(NamedTuple):
    """Volume (µL) that entered and left a line in its direction, less what moved the other way; what moved backwards, and
    the air that has still to pass.
    """

    moved_ul: float
    arrived_ul: float
    back_ul: float
    air_ul: float

    @classmethod
    def of(cls, plant: Plant, line: str) -> Net:
        """Read it off the plant."""
        truth = plant.truth()
        back_ul = truth.backwards_ul[line]
        moved_ul, arrived_ul = truth.moved_ul[line] - 2.0 * back_ul, truth.arrived_ul[line] - 2.0 * back_ul
        return cls(moved_ul, arrived_ul, back_ul, plant.faults.bubble_ul.get(line, 0.0))


class DoseSpan(NamedTuple):
    """A dose: line, positions of its selectors, volume (µL), and when it was announced and settled (s)."""

    line: str
    ports: Mapping[str, int]
    ul: float
    begun_s: float
    ended_s: float


class Unwitnessed:
    """The doses of a rig that nothing proves, and what they lacked."""

    def __init__(self, rig: Rig, troubles: Troubles) -> None:
        self._rig = rig
        self._troubles = troubles
        self._routes = routes_of(rig)
        self._residual = unseen_rows(rig)
        self.lacking_ul: dict[str, float] = {}
        """By vessel, by how much its volume may differ from the ledger's for doses that lacked something unseen."""

    def lacked_ul(self, dose: DoseSpan, before: Net, after: Net) -> float:
        """Return how much of the volume that its pump counted was not moved, by a fault that nothing shows; remember it."""
        if unwitnessed_id(dose.line) not in self._residual:
            return 0.0
        route = route_of_dose(self._routes.values(), dose.line, dose.ports)
        if dose.ul >= proved_from_ul(self._rig, route):
            return 0.0
        moved_ul = after.moved_ul - before.moved_ul
        lacked = min(self._by_fault(dose, route, before, after), max(0.0, dose.ul - moved_ul))
        lacked += self._by_straw(dose, route, moved_ul + lacked)
        if lacked > 0.0:
            for vessel in (route.source, route.target):
                self.lacking_ul[vessel] = self.lacking_ul.get(vessel, 0.0) + lacked
        return lacked

    def _by_fault(self, dose: DoseSpan, route: Route, before: Net, after: Net) -> float:
        """Return what a dose lacked by air, by a motor that turned backwards, or by a valve between two ports."""
        span = dose.begun_s, dose.ended_s
        air_ul = before.air_ul + self._troubles.bubbles_ul(dose.line, *span) - after.air_ul
        back_ul = after.back_ul - before.back_ul if self._troubles.turned_back(route.pump, *span) else 0.0
        lacked = max(0.0, air_ul) + 2.0 * back_ul
        if any(self._troubles.between_ports(valve, *span) for valve in route.levels):
            lacked = max(lacked, dose.ul - (after.moved_ul - before.moved_ul))
        return lacked

    def _by_straw(self, dose: DoseSpan, route: Route, moved_ul: float) -> float:
        """Return what a dose lacked because an earlier one did: its straw ends above what the chamber truly holds."""
        inlet = self._rig.lines[dose.line if route.path is None else route.path.lines[0]]
        if not inlet.draws_above_ul:
            return 0.0
        return min(max(0.0, dose.ul - moved_ul), self.lacking_ul.get(route.source, 0.0))
