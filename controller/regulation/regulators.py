"""The regulators of a rig, the heart's first."""

from __future__ import annotations

from typing import Protocol

from controller.core.state import State
from controller.regulation.bath import BathRegulator
from controller.regulation.gas import GasMixer
from controller.regulation.heart import HeartRegulator
from controller.regulation.temperature import TemperatureRegulator
from controller.regulation.watchdog import WatchdogRegulator
from controller.rig.description import Rig
from controller.rig.families import by_thermostat
from controller.safety.terms import Intent


class Regulator(Protocol):
    """A regulator of one or more actuators."""

    def intents(self, state: State) -> tuple[Intent, ...]:
        """Return the intents of this tick, in the order of submission."""


def regulators_of(rig: Rig) -> tuple[Regulator, ...]:
    """Return the regulators of `rig`, the heart's first. An organ that the rig does not have is not regulated."""
    skin, lung, limit, watchdog = rig.organs.skin, rig.organs.lung, rig.safety.temperature, rig.safety.watchdog
    found: list[Regulator] = [HeartRegulator(rig)]
    if skin is not None and limit is not None:  # without its interlock a heater stays off
        found.append(BathRegulator(skin, limit) if by_thermostat(rig) else TemperatureRegulator(skin, limit))
    if lung is not None:
        found.append(GasMixer(lung, air_every_s=rig.devices[lung.air.partition(".")[0]].every_s))
    if watchdog is not None:
        found.append(WatchdogRegulator(watchdog))
    return tuple(found)
