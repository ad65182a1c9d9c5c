"""Warmth by a thermostat: what its bath is set to, so that the chamber comes to the skin's set-point.

The thermostat regulates its own bath; between bath and chamber lie a jacket and the losses to the room. A slow PI
regulator finds what is to be added for them. The bath is never set above what the chamber may at most be: so whatever
dies, it cannot cook the tissue.
"""

from __future__ import annotations

from controller.core.state import State
from controller.regulation.trust import trusted
from controller.rig.description import Rig
from controller.safety.limits import BATH_MOST_BELOW_K
from controller.safety.terms import Intent
from drivers.commands import Level, LevelStatus

PERIOD_S = 30.0
GAIN = 1.0
"""Degrees of the bath for one of the chamber."""
INTEGRAL_S = 900.0
"""Longer than bath and jacket take together."""
GRAIN_C = 0.1
"""A set-point moves by so much or more: no thermostat's display has less, and each may cost a row of the journal."""


class BathRegulator:
    """Keeps `skin.temperature` at `skin.setpoint` by the set-point `skin.heater`; `wanted_c` is the last it asked for."""

    def __init__(self, rig: Rig) -> None:
        self._skin = rig.organs.skin
        self._stale_s = rig.safety.temperature.stale_s
        self._low_c = self._skin.setpoint_c - BATH_MOST_BELOW_K
        self._high_c = rig.safety.temperature.high_c
        self._next_s = float("-inf")
        self._integral_k = 0.0
        self.wanted_c = self._skin.setpoint_c

    def intents(self, state: State) -> tuple[Intent, ...]:
        """Once a tick; every half minute the bath's set-point, when it is worth moving. Without a reading to trust none."""
        if state.at_s < self._next_s:
            return ()
        self._next_s = state.at_s + PERIOD_S
        celsius = trusted(state, self._skin.temperature, self._stale_s)
        if celsius is None:
            return ()
        self.wanted_c = self._step(self._skin.setpoint_c - celsius)
        view = state.actuators.get(self._skin.heater)
        stands = view.status.setpoint if view is not None and isinstance(view.status, LevelStatus) else None
        if stands is not None and abs(stands - self.wanted_c) < GRAIN_C - 1e-6:
            return ()
        why = f"{celsius:.2f} degC in the chamber"
        return (Intent(self._skin.heater, Level(self.wanted_c), "regulator:temperature", why),)

    def _step(self, error_k: float) -> float:
        raw = self._skin.setpoint_c + GAIN * error_k + self._integral_k
        wanted = min(max(raw, self._low_c), self._high_c)
        # At the ends the integral only moves back inwards: no wind-up while the rig warms from cold.
        if raw == wanted or (raw - wanted) * error_k < 0:
            self._integral_k += GAIN * error_k * PERIOD_S / INTEGRAL_S
        return round(wanted / GRAIN_C) * GRAIN_C if self._low_c < wanted < self._high_c else wanted
