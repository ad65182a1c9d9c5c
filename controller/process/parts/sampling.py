"""The pace of sampling: full rate while something needs it, the periods at rest otherwise."""

from __future__ import annotations

from controller.core.state import State
from controller.process.core import ControllerCore
from controller.process.part import Part, TickStage
from controller.process.registry import part
from controller.readings.needs import SamplingNeeds

REST_LEASE_S = 2.5
"""How long one tick lets the rig be read at its periods at rest: a loop that stops ticking does not stay there."""


class Pace:
    """Tells the connected devices at each tick whether the rig is at rest."""

    def __init__(self, core: ControllerCore) -> None:
        self._core = core
        self.needs = SamplingNeeds(core.rig, core.limits, core.rest_s)
        self._resting = False

    def update(self, state: State) -> None:
        """Renew the permission to rest for this tick, or end the rest at once."""
        if self.needs.at_rest(state, self._busy()):
            self._core.devices.rest(state.at_s + REST_LEASE_S)
            self._resting = True
        elif self._resting:
            self._resting = False
            self._core.devices.read_at_full_rate()

    def _busy(self) -> str:
        """Return what is underway that needs full rate; empty if nothing is."""
        if reason := self._core.gate.unsettled:
            return reason
        if self._core.runs.transferring:
            return "a transfer is underway"
        return "a measurement waits for readings" if self._core.store.waiting else ""


@part(TickStage.HOLD)
def sampling(core: ControllerCore) -> Part:
    """Make the pace of sampling."""
    return Part("sampling", update=core.provide(Pace(core)).update)
