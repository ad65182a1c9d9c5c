"""Temperature by a heater: a PI regulator whose output is the heater's share of each time window.

The heater only gets pulses that end by themselves, so the last one lasts at most a window, whatever fails. A probe that
drifts is followed only as far as the power that held the temperature permits (:mod:`controller.regulation.heat_balance`).
"""

from __future__ import annotations

from controller.core.state import State
from controller.regulation.heat_balance import HeatBalance
from controller.regulation.trust import trusted
from controller.rig.description import TemperatureLimit
from controller.rig.organs import SkinConfig
from controller.safety.terms import Intent
from drivers.commands import Switch

WINDOW_S = 20.0
GAIN_PER_K = 0.35
"""Duty for a kelvin of error (1/K)."""
INTEGRAL_S = 600.0
START_DUTY = 0.4
"""Initial integral: about the duty that holds 37 °C in a room; it settles within half an hour."""
MIN_PULSE_S = 0.5
GRAIN_S = 0.1
"""Relays count in tenths of a second and wear with each switching: shorter pulses are accumulated."""


class TemperatureRegulator:
    """Keeps `skin.temperature` at `skin.setpoint`. `duty` (0..1) is that of the present window."""

    def __init__(self, skin: SkinConfig, limit: TemperatureLimit, balance: HeatBalance | None = None) -> None:
        self._skin = skin
        self._balance = balance
        self._stale_s = limit.stale_s
        self._next_s = float("-inf")
        self._integral = START_DUTY
        self._saved_s = 0.0
        self.duty = 0.0

    def intents(self, state: State) -> tuple[Intent, ...]:
        """Return a pulse at the start of each window. Without a trusted reading there is no heat."""
        if state.at_s < self._next_s:
            return ()
        self._next_s = state.at_s + WINDOW_S
        celsius = trusted(state, self._skin.temperature, self._stale_s)
        if celsius is None:
            self.duty = self._saved_s = 0.0
        else:
            self.duty = self._step(self._skin.setpoint_c - celsius)
        if self._balance is not None:
            self._balance.note(self.duty, celsius, WINDOW_S, state.at_s)
        if celsius is None:
            return ()
        wanted_s = self.duty * WINDOW_S + self._saved_s
        pulse_s = min(round(wanted_s / GRAIN_S) * GRAIN_S, WINDOW_S)
        if pulse_s < MIN_PULSE_S:
            self._saved_s = min(wanted_s, MIN_PULSE_S)
            return ()
        self._saved_s = min(max(wanted_s - pulse_s, 0.0), MIN_PULSE_S)
        pulse = Switch(True, round(pulse_s, 1))
        return (Intent(self._skin.heater, pulse, "regulator:temperature", f"duty {self.duty:.2f}"),)

    def _step(self, error_k: float) -> float:
        wanted = GAIN_PER_K * error_k + self._integral
        duty = min(max(wanted, 0.0), 1.0)
        if self._balance is not None:
            duty = self._balance.limited(duty, WINDOW_S)
        # At the limits the integral only moves back inwards: no wind-up while the rig warms from cold.
        if wanted == duty or (wanted - duty) * error_k < 0:
            self._integral = min(max(self._integral + GAIN_PER_K * error_k * WINDOW_S / INTEGRAL_S, 0.0), 1.0)
        return duty
