"""Dissolved oxygen by added O2: integral control only, because air alone carries most of it."""

from __future__ import annotations

from controller.core.state import State
from controller.regulation.trust import trusted
from controller.rig.organs import LungConfig

INTEGRAL_PCT_PER_PCT_S = 0.01 / 30.0
"""Added O2 (percentage points) for each percent of missing saturation and each second."""
MAX_PCT = 30.0
STALE_S = 30.0
PATIENCE_S = 600.0
"""Time (s) for which the addition stays without a trusted reading; then it ends, because too much oxygen harms too."""


class OxygenRegulator:
    """Keeps `lung.oxygen` at its set-point; `o2_pct` is the requested addition of O2 (% of the gas)."""

    def __init__(self, lung: LungConfig) -> None:
        self._lung = lung
        self._known_s: float | None = None
        self.o2_pct = 0.0

    def step(self, state: State, period_s: float) -> float:
        """Step once every `period_s`. Return the share of added O2 (%)."""
        saturation = trusted(state, self._lung.oxygen, STALE_S)
        if saturation is None:
            if self._known_s is None or state.at_s - self._known_s > PATIENCE_S:
                self.o2_pct = 0.0
            return self.o2_pct
        self._known_s = state.at_s
        error = self._lung.oxygen_setpoint_pct - saturation
        self.o2_pct = min(max(self.o2_pct + INTEGRAL_PCT_PER_PCT_S * period_s * error, 0.0), MAX_PCT)
        return self.o2_pct
