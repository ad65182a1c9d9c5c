"""The beat: keeps the heart's lease alive at its flow, and asks again at once when it does not flow."""

from __future__ import annotations

from controller.core.state import State
from controller.rig.description import Rig
from controller.safety.terms import Intent
from drivers.commands import PumpStatus, Run

RENEWALS = 3
"""How often a lease is renewed within its own time."""


class HeartRegulator:
    """Wants `heart.flow`, always."""

    def __init__(self, rig: Rig) -> None:
        heart = rig.organs.heart
        self._pump = rig.lines[heart.line].pump or ""
        self._flow = Run(heart.flow_ul_min)
        self._period_s = heart.lease_s / RENEWALS
        self._next_s = float("-inf")

    def intents(self, state: State) -> tuple[Intent, ...]:
        """Once a tick: a renewal when it is due; every tick while the pump stands or was told something else."""
        if state.at_s < self._next_s and self._flows(state):
            return ()
        self._next_s = state.at_s + self._period_s
        return (Intent(self._pump, self._flow, "regulator:heart", "keeps the tissue perfused"),)

    def _flows(self, state: State) -> bool:
        view = state.actuators.get(self._pump)
        if view is None or view.commanded != self._flow:
            return False
        return isinstance(view.status, PumpStatus) and view.status.running
