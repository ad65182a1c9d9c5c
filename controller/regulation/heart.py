"""Circulation: renews a heart's lease at its flow, and requests the flow at once if the pump stands."""

from __future__ import annotations

from controller.core.state import ActuatorView, State
from controller.rig.organs import HeartConfig
from controller.safety.terms import Intent
from drivers.commands import PumpStatus, Run

RENEWALS = 3
"""Number of renewals within a lease."""


class HeartRegulator:
    """Requests the flow of one heart, always."""

    def __init__(self, heart: HeartConfig, pump: str, requester: str) -> None:
        self._pump = pump
        self._requester = requester
        self._flow = Run(heart.flow_ul_min)
        self._period_s = heart.lease_s / RENEWALS
        self._next_s = float("-inf")
        self._running: ActuatorView | None = None
        """The last view in which the pump ran as requested."""

    def intents(self, state: State) -> tuple[Intent, ...]:
        """Return a renewal when it is due; at every tick while the pump stands or has another command."""
        if state.at_s < self._next_s and self._flows(state):
            return ()
        self._next_s = state.at_s + self._period_s
        return (Intent(self._pump, self._flow, self._requester, "keeps the tissue perfused"),)

    def _flows(self, state: State) -> bool:
        view = state.actuators.get(self._pump)
        if view is None:
            return False
        if view is self._running:
            return True
        flows = view.commanded == self._flow and isinstance(view.status, PumpStatus) and view.status.running
        self._running = view if flows else None
        return flows
