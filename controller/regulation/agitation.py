"""Agitation: keeps a stirrer, shaker or rocker running."""

from __future__ import annotations

from controller.core.state import State
from controller.rig.agitation import Agitator
from controller.safety.terms import Intent
from drivers.commands import Command, Level, LevelStatus, Switch, SwitchStatus

RETRY_S = 10.0
"""Time between two requests while the output does not follow (s)."""


class AgitationRegulator:
    """Requests that one agitator runs at its speed, whenever it is not known to be commanded so."""

    def __init__(self, name: str, agitator: Agitator) -> None:
        self._drive = agitator.drive or ""
        self._command: Command = Switch(True) if agitator.switch is not None else Level(agitator.speed_rpm)
        self._requester = f"regulator:agitation.{name}"
        self._reason = f"keeps {agitator.kind} {name} at {agitator.speed_rpm:g} rpm"
        self._next_s = float("-inf")

    def intents(self, state: State) -> tuple[Intent, ...]:
        """Return a request while the drive is not commanded or not on."""
        if state.at_s < self._next_s or self._follows(state):
            return ()
        self._next_s = state.at_s + RETRY_S
        return (Intent(self._drive, self._command, self._requester, self._reason),)

    def _follows(self, state: State) -> bool:
        view = state.actuators.get(self._drive)
        if view is None or view.commanded != self._command:
            return False
        match view.status:
            case SwitchStatus(on=on):
                return on
            case LevelStatus(setpoint=setpoint):
                return setpoint > 0.0
        return False
