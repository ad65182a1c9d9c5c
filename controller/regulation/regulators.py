"""The regulators of a rig, those of the hearts first."""

from __future__ import annotations

from typing import Protocol

from controller.core.state import State
from controller.regulation.agitation import AgitationRegulator
from controller.regulation.bath import BathRegulator
from controller.regulation.gas import GasMixer
from controller.regulation.heart import HeartRegulator
from controller.regulation.heat_balance import HeatBalance
from controller.regulation.temperature import TemperatureRegulator
from controller.regulation.watchdog import WatchdogRegulator
from controller.rig.description import Rig
from controller.rig.families import by_thermostat
from controller.rig.perfusion import of_heart
from controller.safety.terms import Intent


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
