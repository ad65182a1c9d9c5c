"""The pace of sampling: full rate while something needs it, the periods at rest otherwise."""

from __future__ import annotations

from collections.abc import Mapping

from controller.core.state import State, StateStore
from controller.process.assembly import Assembly
from controller.readings.needs import SamplingNeeds
from controller.rig.description import Rig
from controller.safety.terms import Limits

REST_LEASE_S = 2.5
"""How long one tick lets the rig be read at its periods at rest: a loop that stops ticking does not stay there."""


class Pace:
    """Tells the connected devices at each tick whether the rig is at rest. `rest_s` is each device's period at rest (s)."""

    def __init__(self, rig: Rig, limits: Limits, store: StateStore, rest_s: Mapping[str, float]) -> None:
        self.rest_s = rest_s
        self.needs = SamplingNeeds(rig, limits, self.rest_s)
        self._store = store
        self._resting = False

    def look(self, state: State, assembly: Assembly) -> None:
        """Renew the permission to rest for this tick, or end the rest at once."""
        if self.needs.at_rest(state, self._busy(assembly)):
            assembly.devices.rest(state.at_s + REST_LEASE_S)
            self._resting = True
        elif self._resting:
            self._resting = False
            assembly.devices.hurry()

    def _busy(self, assembly: Assembly) -> str:
        """Return what is underway that needs full rate; empty if nothing is."""
        if reason := assembly.gate.unsettled:
            return reason
        if assembly.runs.transferring:
            return "a transfer is underway"
        return "a measurement waits for readings" if self._store.waiting else ""
