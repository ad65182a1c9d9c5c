"""The regulators of a rig, those of the hearts first; here those of agitators and of the watchdog relay."""

from __future__ import annotations

from typing import Protocol

from controller.core.state import State
from controller.regulation.bath import BathRegulator
from controller.regulation.gas import GasMixer
from controller.regulation.heart import HeartRegulator
from controller.regulation.heat_balance import HeatBalance
from controller.regulation.temperature import TemperatureRegulator
from controller.rig.agitation import Agitator
from controller.rig.description import Rig, WatchdogRelay
from controller.rig.families import by_thermostat
from controller.rig.perfusion import of_heart
from controller.safety.terms import Intent
from drivers.commands import Command, Level, LevelStatus, Switch, SwitchStatus

RENEWALS = 3
"""Number of renewals within the hold time: two may be lost."""


class WatchdogRegulator:
    """Closes the relay repeatedly for its hold time."""

    def __init__(self, watchdog: WatchdogRelay) -> None:
        self._watchdog = watchdog
        self._next_s = float("-inf")

    def intents(self, state: State) -> tuple[Intent, ...]:
        """Return the renewal when it is due."""
        if state.at_s < self._next_s:
            return ()
        self._next_s = state.at_s + self._watchdog.hold_s / RENEWALS
        pulse = Switch(True, self._watchdog.hold_s)
        return (Intent(self._watchdog.relay, pulse, "regulator:watchdog", "control lives"),)


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


class Regulator(Protocol):
    """A regulator of one or more actuators."""

    def intents(self, state: State) -> tuple[Intent, ...]:
        """Return the intents of this tick, in the order of submission."""


def regulators_of(rig: Rig, balance: HeatBalance | None = None) -> dict[str, Regulator]:
    """Return the regulators of `rig` by name, those of the hearts first. What the rig does not have is not regulated.

    `balance` limits the heater's power.
    """
    skin, lung, limit, watchdog = rig.organs.skin, rig.organs.lung, rig.safety.temperature, rig.safety.watchdog
    found: list[Regulator] = []
    if skin is not None and limit is not None:  # without its interlock a heater stays off
        found.append(BathRegulator(skin, limit) if by_thermostat(rig) else TemperatureRegulator(skin, limit, balance))
    if lung is not None:
        found.append(GasMixer(lung, air_every_s=rig.devices[lung.air.partition(".")[0]].every_s))
    if watchdog is not None:
        found.append(WatchdogRegulator(watchdog))
    hearts = {
        of_heart(rig, HeartRegulator.__name__, name): HeartRegulator(
            heart, rig.lines[heart.line].pump or "", of_heart(rig, "regulator:heart", name)
        )
        for name, heart in rig.organs.hearts.items()
    }
    motion = {
        f"{AgitationRegulator.__name__}.{name}": AgitationRegulator(name, agitator)
        for name, agitator in rig.agitators.items()
        if agitator.drive is not None
    }
    return {**hearts, **motion, **{type(each).__name__: each for each in found}}
