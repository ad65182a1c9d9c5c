"""Dissolved oxygen by added O2: integral only, because air alone carries most of it."""

from __future__ import annotations

from controller.core.state import State
from controller.regulation.trust import trusted
from controller.rig.description import Rig

INTEGRAL_PCT_PER_PCT_S = 0.01 / 30.0
"""Percentage points of added O2 for a percent of saturation missing, for each second that it is."""
MOST_PCT = 30.0
STALE_S = 30.0
PATIENCE_S = 600.0
"""Without a reading to trust the addition stays as it is for so long, then ends: too much oxygen harms as well."""


class OxygenRegulator:
    """Keeps `lung.oxygen` at its set-point; `o2_pct` is the O2 it wants added (% of the gas)."""

    def __init__(self, rig: Rig) -> None:
        self._lung = rig.organs.lung
        self._known_s: float | None = None
        self.o2_pct = 0.0

    def step(self, state: State, period_s: float) -> float:
        """Once every `period_s`; returns the share of added O2 (%)."""
        saturation = trusted(state, self._lung.oxygen, STALE_S)
        if saturation is None:
            if self._known_s is None or state.at_s - self._known_s > PATIENCE_S:
                self.o2_pct = 0.0
            return self.o2_pct
        self._known_s = state.at_s
        error = self._lung.oxygen_setpoint_pct - saturation
        self.o2_pct = min(max(self.o2_pct + INTEGRAL_PCT_PER_PCT_S * period_s * error, 0.0), MOST_PCT)
        return self.o2_pct
