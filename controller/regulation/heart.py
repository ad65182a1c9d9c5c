"""The beat: keeps the heart's lease alive at its flow, and starts it again when it stands and nothing forbids it."""

from __future__ import annotations

from controller.rig.description import Rig
from controller.safety.gate import Gate
from controller.safety.kernel import Intent
from controller.state import State
from drivers.device import Run

RETRY_S = 1.0
"""Tissue does not wait: a heart that was refused or failed is asked for again at the next tick."""


class HeartRegulator:
    """Renews `heart.flow` several times a lease."""

    def __init__(self, rig: Rig, gate: Gate) -> None:
        self._heart = rig.organs.heart
        self._pump = rig.lines[self._heart.line].pump or ""
        self._gate = gate
        self._next_s = 0.0

    async def step(self, state: State) -> None:
        """Once a tick; renews every third of the lease."""
        if state.at_s < self._next_s:
            return
        outcome = await self._gate.submit(
            Intent(self._pump, Run(self._heart.flow_ul_min), "regulator:heart", "keeps the tissue perfused")
        )
        self._next_s = state.at_s + (self._heart.lease_s / 3 if outcome.ok else RETRY_S)
