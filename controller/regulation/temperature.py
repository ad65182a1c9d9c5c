"""Warmth: a PI regulator whose output is the share of each window that the heater is on.

The heater only ever gets a pulse that ends by itself, so the last one is at most a window long whatever dies.
"""

from __future__ import annotations

from controller.rig.description import Rig
from controller.safety.gate import Gate
from controller.safety.kernel import Intent
from controller.state import State
from drivers.device import Quality, Switch

WINDOW_S = 20.0
GAIN_PER_K = 0.35
"""Duty for a kelvin of error."""
INTEGRAL_S = 600.0
SHORTEST_S = 0.5
STALE_S = 15.0


class TemperatureRegulator:
    """Keeps `skin.temperature` at `skin.setpoint`."""

    def __init__(self, rig: Rig, gate: Gate) -> None:
        self._skin = rig.organs.skin
        self._gate = gate
        self._next_s = 0.0
        self._integral = 0.4
        self.duty = 0.0

    async def step(self, state: State) -> None:
        """Once a tick; acts at the start of each window."""
        if state.at_s < self._next_s:
            return
        self._next_s = state.at_s + WINDOW_S
        reading = state.readings.get(self._skin.temperature)
        if reading is None or reading.quality is Quality.BAD or state.at_s - reading.at_s > STALE_S:
            self.duty = 0.0
            return
        error = self._skin.setpoint_c - reading.value
        wanted = GAIN_PER_K * error + self._integral
        self.duty = min(max(wanted, 0.0), 1.0)
        if wanted == self.duty or (wanted - self.duty) * error < 0:  # no wind-up at the ends
            self._integral = min(max(self._integral + GAIN_PER_K * error * WINDOW_S / INTEGRAL_S, 0.0), 1.0)
        pulse_s = round(self.duty * WINDOW_S, 1)
        if pulse_s >= SHORTEST_S:
            await self._gate.submit(
                Intent(self._skin.heater, Switch(True, pulse_s), "regulator:temperature", f"duty {self.duty:.2f}")
            )
