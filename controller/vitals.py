"""The vital signs that the viability score is made of, gathered from the state once a minute.

The score is advice (design §4.12): it moves nothing. What is missing or doubtful is left out and lowers the confidence.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

from controller.execution.estimator import Estimator
from controller.rig.description import Rig
from controller.state import State
from drivers.device import Quality
from protocols.grading import Letter
from protocols.viability import Viability, Vitals, viability

STALE_S = 120.0
DAY_S = 86_400.0
HOUR_S = 3_600.0
BASELINE_S = 7 * DAY_S
"""The tissue's own baseline is the mean of its firing, over about a week once there is one."""
WARM_UP_S = 1200.0
"""Before the array has been heard for so long there is no baseline to compare with."""


class VitalSigns:
    """Keeps what the score needs to remember: a day of pH, the tissue's own firing baseline."""

    def __init__(self, rig: Rig, estimator: Estimator, grade: Callable[[], Letter | None]) -> None:
        self._lung = rig.organs.lung
        self._skin = rig.organs.skin
        self._estimator = estimator
        self._grade = grade
        self._expected_umol_d = estimator.state.rate_umol_d
        self._ph_hours: deque[tuple[float, float, float]] = deque()
        self._baseline_hz = 0.0
        self._heard_s = 0.0
        self._at_s: float | None = None

    def score(self, state: State) -> Viability:
        """The score of this moment."""
        ph = self._trusted(state, self._lung.ph)
        firing = self._trusted(state, "nerves.firing_rate")
        return viability(
            Vitals(
                oxygen_pct=self._trusted(state, self._lung.oxygen),
                temperature_c=self._trusted(state, self._skin.temperature),
                ph=ph,
                ph_spread=self._spread(state.at_s, ph),
                grade=self._grade(),
                firing_ratio=self._ratio(state.at_s, firing),
                lactate_ratio=self._lactate_ratio(),
            )
        )

    def _trusted(self, state: State, point: str) -> float | None:
        reading = state.readings.get(point)
        if reading is None or reading.quality is Quality.BAD or not math.isfinite(reading.value):
            return None
        return reading.value if state.at_s - reading.at_s <= STALE_S else None

    def _spread(self, now_s: float, ph: float | None) -> float | None:
        """Highest less lowest pH of the last day, kept by the hour."""
        if ph is not None:
            if self._ph_hours and now_s - self._ph_hours[-1][0] < HOUR_S:
                begun_s, low, high = self._ph_hours[-1]
                self._ph_hours[-1] = (begun_s, min(low, ph), max(high, ph))
            else:
                self._ph_hours.append((now_s, ph, ph))
        while self._ph_hours and now_s - self._ph_hours[0][0] > DAY_S:
            self._ph_hours.popleft()
        if not self._ph_hours:
            return None
        return max(high for _, _, high in self._ph_hours) - min(low for _, low, _ in self._ph_hours)

    def _ratio(self, now_s: float, firing_hz: float | None) -> float | None:
        """Firing over the tissue's own baseline; silence is 0, an unknown rate is None."""
        since_s = 0.0 if self._at_s is None else now_s - self._at_s
        self._at_s = now_s
        if firing_hz is None:
            return None
        self._heard_s += since_s
        if self._heard_s > 0:
            self._baseline_hz += (firing_hz - self._baseline_hz) * since_s / min(self._heard_s, BASELINE_S)
        if self._heard_s < WARM_UP_S or self._baseline_hz <= 0:
            return None
        return firing_hz / self._baseline_hz

    def _lactate_ratio(self) -> float | None:
        """Lactate making over what that much tissue is expected to make; None before the soft sensor has seen enough."""
        sensor = self._estimator.state
        if sensor.observations < 2 or self._expected_umol_d <= 0:
            return None
        return sensor.rate_umol_d / self._expected_umol_d
