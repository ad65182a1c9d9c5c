"""The bath or block that a simulated thermostat keeps warm: first-order, exact at any time, moved by nothing else.

A thermostat's bath is not one of the plant's vessels, so the plant knows nothing of it.
"""

from __future__ import annotations

import asyncio
import math

AMBIENT_C = 20.0
REGULATED_S = 120.0
"""Time constant with which a regulated bath comes to its set-point."""
LEFT_ALONE_S = 3600.0
"""Time constant with which it comes back to the room's temperature."""
HOLDING = 0.8
"""Output (% of full) that one degree above the room costs."""
GAIN = 20.0
"""Output (% of full) for one degree below the set-point."""


class Bath:
    """Its temperature as of now, whatever was asked of it before."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._from_c = AMBIENT_C
        self._since_s = self._loop.time()
        self.goal_c: float | None = None

    def regulate(self, goal_c: float | None) -> None:
        """Keep `goal_c` (°C) from now on; None leaves the bath alone."""
        if goal_c != self.goal_c:
            self._from_c, self._since_s = self.temperature_c, self._loop.time()
            self.goal_c = goal_c

    def become(self, temperature_c: float) -> None:
        """It has this temperature (°C) from now on, as if somebody had changed its water."""
        self._from_c, self._since_s = temperature_c, self._loop.time()

    @property
    def temperature_c(self) -> float:
        """Of this moment (°C)."""
        goal_c, constant_s = (AMBIENT_C, LEFT_ALONE_S) if self.goal_c is None else (self.goal_c, REGULATED_S)
        passed_s = self._loop.time() - self._since_s
        return goal_c + (self._from_c - goal_c) * math.exp(-passed_s / constant_s)

    def output(self, *, cools: bool) -> float:
        """Heating (%), negative for cooling."""
        if self.goal_c is None:
            return 0.0
        wanted = HOLDING * (self.goal_c - AMBIENT_C) + GAIN * (self.goal_c - self.temperature_c)
        return min(100.0, max(-100.0 if cools else 0.0, wanted))
