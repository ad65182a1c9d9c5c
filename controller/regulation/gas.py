"""Breath: oxygen and pH by the mixture of air, CO2 and O2 over the loop.

CO2 answers pH, added oxygen answers dissolved oxygen; both are slow integral regulators, because gas exchange takes
minutes and a probe a minute. The total flow stays what the rig says.
"""

from __future__ import annotations

from controller.rig.description import Rig
from controller.safety.gate import Gate
from controller.safety.kernel import Intent
from controller.state import State
from drivers.device import Level, Quality

PERIOD_S = 30.0
CO2_PCT_PER_PH = 0.4
"""Percentage points of CO2 for a unit of pH error and period."""
CO2_PROPORTIONAL = 6.0
O2_PCT_PER_PCT = 0.01
MOST_O2_PCT = 30.0
GRAIN_ML_MIN = 0.05
"""A set-point moves only by so much or more: the probes' noise is not worth a command."""
STALE_S = 30.0


class GasRegulator:
    """Keeps `lung.oxygen` and `lung.ph` at their set-points."""

    def __init__(self, rig: Rig, gate: Gate) -> None:
        self._lung = rig.organs.lung
        self._gate = gate
        self._next_s = 0.0
        self._co2_pct = 6.0
        self._o2_pct = 0.0
        self._sent: dict[str, float] = {}

    async def step(self, state: State) -> None:
        """Once a tick; acts every half minute."""
        if state.at_s < self._next_s:
            return
        self._next_s = state.at_s + PERIOD_S
        lung = self._lung
        co2_pct = self._co2_pct
        if (ph := self._trusted(state, lung.ph)) is not None:
            error = ph - lung.ph_setpoint
            self._co2_pct = min(max(self._co2_pct + CO2_PCT_PER_PH * error, lung.co2_min_pct), lung.co2_max_pct)
            co2_pct = min(max(self._co2_pct + CO2_PROPORTIONAL * error, lung.co2_min_pct), lung.co2_max_pct)
        if (oxygen := self._trusted(state, lung.oxygen)) is not None:
            error = lung.oxygen_setpoint_pct - oxygen
            self._o2_pct = min(max(self._o2_pct + O2_PCT_PER_PCT * error, 0.0), MOST_O2_PCT)
        total = lung.total_ml_min
        co2, o2 = round(total * co2_pct / 100, 2), round(total * self._o2_pct / 100, 2)
        wanted = {lung.co2: co2, lung.o2: o2, lung.air: round(total - co2 - o2, 2)}
        if all(abs(value - self._sent.get(point, -1.0)) < GRAIN_ML_MIN for point, value in wanted.items()):
            return
        for point, value in wanted.items():
            outcome = await self._gate.submit(Intent(point, Level(value), "regulator:gas", f"CO2 {co2_pct:.2f} %"))
            if outcome.ok:
                self._sent[point] = value

    def _trusted(self, state: State, point: str) -> float | None:
        reading = state.readings.get(point)
        if reading is None or reading.quality is Quality.BAD or state.at_s - reading.at_s > STALE_S:
            return None
        return reading.value
