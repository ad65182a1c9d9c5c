"""The bath or block of a simulated thermostat: first-order, exact at any time, without other heat flows.

It is large compared with what it warms: the plant receives its course and takes heat from it, and does not cool it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from sim.devices.port import BathRamp

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
    """The temperature of a bath. `tell` receives its further course at each change."""

    def __init__(self, tell: Callable[[BathRamp | None], None]) -> None:
        self._tell = tell
        self._told: BathRamp | None = None
        self._touches = False
        self._loop = asyncio.get_running_loop()
        self._from_c = AMBIENT_C
        self._since_s = self._loop.time()
        self.goal_c: float | None = None

    def regulate(self, goal_c: float | None) -> None:
        """Keep `goal_c` (°C) from now on; None leaves the bath alone."""
        if goal_c != self.goal_c:
            self._from_c, self._since_s = self.temperature_c, self._loop.time()
            self.goal_c = goal_c
            self._go_on()

    def touch(self, touches: bool) -> None:
        """Connect the bath's fluid or block to what it warms, or disconnect it."""
        if touches != self._touches:
            self._touches = touches
            self._go_on()

    def become(self, temperature_c: float) -> None:
        """Set the temperature (°C) at once, as if the water had been changed."""
        self._from_c, self._since_s = temperature_c, self._loop.time()
        self._go_on()

    def _go_on(self) -> None:
        course = BathRamp(self.temperature_c, *self._goal()) if self._touches else None
        if course != self._told:
            self._told = course
            self._tell(course)

    def _goal(self) -> tuple[float, float]:
        """Return the temperature that the bath approaches (°C), and the time constant (s)."""
        return (AMBIENT_C, LEFT_ALONE_S) if self.goal_c is None else (self.goal_c, REGULATED_S)

    @property
    def temperature_c(self) -> float:
        """Return the present temperature (°C)."""
        goal_c, constant_s = self._goal()
        passed_s = self._loop.time() - self._since_s
        return goal_c + (self._from_c - goal_c) * math.exp(-passed_s / constant_s)

    def output(self, *, cools: bool) -> float:
        """Return the heating power (%), negative for cooling."""
        if self.goal_c is None:
            return 0.0
        wanted = HOLDING * (self.goal_c - AMBIENT_C) + GAIN * (self.goal_c - self.temperature_c)
        return min(100.0, max(-100.0 if cools else 0.0, wanted))
