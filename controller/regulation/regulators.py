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
    """Return the regulators of `rig`, the heart's first."""
    warmth = BathRegulator(rig) if by_thermostat(rig) else TemperatureRegulator(rig)
    watchdog = rig.safety.watchdog
    renewal = () if watchdog is None else (WatchdogRegulator(watchdog),)
    return (HeartRegulator(rig), warmth, GasMixer(rig), *renewal)
