"""Temperature by a thermostat: the set-point of its bath that brings the chamber to the skin's set-point.

The thermostat regulates its own bath; a jacket and losses to the room lie between bath and chamber. A slow PI regulator
compensates for them. The set-point of the bath never exceeds the chamber's maximum, so that no failure can overheat the
tissue.
"""

from __future__ import annotations

from controller.core.state import State
from controller.regulation.trust import trusted
from controller.rig.description import TemperatureLimit
from controller.rig.organs import SkinConfig
from controller.safety.limits import BATH_MAX_BELOW_K
from controller.safety.terms import Intent
from drivers.commands import Level, LevelStatus

PERIOD_S = 30.0
GAIN = 1.0
"""Change of the bath for a degree of error in the chamber (K/K)."""
INTEGRAL_S = 900.0
"""Integral time (s), longer than the time constants of bath and jacket together."""
GRAIN_C = 0.1
"""Minimum change of the set-point (°C): no thermostat's display has less, and each change may cost a journal row."""


class BathRegulator:
    """Keeps `skin.temperature` at `skin.setpoint` by the set-point `skin.heater`. `wanted_c` is the last requested one."""

    def __init__(self, skin: SkinConfig, limit: TemperatureLimit) -> None:
        self._skin = skin
        self._stale_s = limit.stale_s
        self._min_c = self._skin.setpoint_c - BATH_MAX_BELOW_K
        self._max_c = limit.high_c
        self._next_s = float("-inf")
        self._integral_k = 0.0
        self.wanted_c = self._skin.setpoint_c

    def intents(self, state: State) -> tuple[Intent, ...]:
        """Return the set-point of the bath, at most every half minute, if it has to move and the reading is trusted."""
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
        wanted = min(max(raw, self._min_c), self._max_c)
        # At the limits the integral only moves back inwards: no wind-up while the rig warms from cold.
        if raw == wanted or (raw - wanted) * error_k < 0:
            self._integral_k += GAIN * error_k * PERIOD_S / INTEGRAL_S
        return round(wanted / GRAIN_C) * GRAIN_C if self._min_c < wanted < self._max_c else wanted
