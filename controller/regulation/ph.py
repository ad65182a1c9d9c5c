"""pH by the share of CO2 in the gas: more CO2, more carbonic acid, lower pH.

A slow PI control: gas exchange takes minutes, and the probe one more.
"""

from __future__ import annotations

from controller.core.state import State
from controller.regulation.trust import trusted
from controller.rig.organs import LungConfig
from controller.safety.limits import BASAL_CO2_FRACTION

GAIN_PCT_PER_PH = 6.0
INTEGRAL_PCT_PER_PH_S = 0.4 / 30.0
"""CO2 (percentage points) for a unit of pH error, at once and for each second that it lasts."""
STALE_S = 30.0
PATIENCE_S = 600.0
"""Time (s) for which the mixture stays without a trusted pH; then it goes to the basal share."""


class PhRegulator:
    """Keeps `lung.ph` at its set-point; `co2_pct` is the requested share (% of the gas)."""

    def __init__(self, lung: LungConfig) -> None:
        self._lung = lung
        self._integral_pct = self._bounded(100.0 * BASAL_CO2_FRACTION)
        self._known_s: float | None = None
        self.co2_pct = self._integral_pct

    def step(self, state: State, period_s: float) -> float:
        """Step once every `period_s`. Return the share of CO2 (%)."""
        ph = trusted(state, self._lung.ph, STALE_S)
        if ph is None:
            if self._known_s is None or state.at_s - self._known_s > PATIENCE_S:
                self.co2_pct = self._integral_pct = self._bounded(100.0 * BASAL_CO2_FRACTION)
            return self.co2_pct
        self._known_s = state.at_s
        error = ph - self._lung.ph_setpoint
        self._integral_pct = self._bounded(self._integral_pct + INTEGRAL_PCT_PER_PH_S * period_s * error)
        self.co2_pct = self._bounded(self._integral_pct + GAIN_PCT_PER_PH * error)
        return self.co2_pct

    def _bounded(self, pct: float) -> float:
        return min(max(pct, self._lung.co2_min_pct), self._lung.co2_max_pct)
