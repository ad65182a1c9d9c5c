"""Heater power against the temperature that its probe shows: at rest, power = loss × (temperature − ambient).

The loss of a rig is learnt from the power that holds the set-point. A probe that drifts alone asks for more or less power at
the same reading; the power then shows the temperature better than the probe does. Heat is limited to the power that held the
set-point, and :data:`MAX_WARMER_K` more. A room that has become colder looks the same, unless a second thermometer agrees.
"""

from __future__ import annotations

from controller.regulation.references import Learner, Memory
from controller.rig.organs import SkinConfig

FILTER_S = 600.0
"""Time constant of the mean power (s): of the order of that of a chamber with its loop and holder."""
MAX_WARMER_K = 1.5
"""By how much the power may exceed what held the set-point, as a temperature (K): 37 °C then stays below 38.9 °C."""
MIN_SPAN_K = 5.0
"""Difference to the room below which the power says too little (K)."""
STEADY_K = 0.3
"""Distance to the set-point within which the power counts as that which holds it (K)."""


class HeatBalance:
    """Follows the mean power of one heater (as duty, 0..1)."""

    def __init__(self, skin: SkinConfig, memory: Memory) -> None:
        self._skin = skin
        self._span_k = skin.setpoint_c - skin.ambient_c
        of = f"{skin.heater} {skin.temperature} {skin.power_w:g} {skin.setpoint_c:g} {skin.ambient_c:g}"
        self._held = Learner(memory, "heat", of)
        self._mean: float | None = None
        self._reading_c: float | None = None
        self.confirmed = False
        """Whether another thermometer in the medium agrees: then the surroundings have changed, not the probe."""

    @property
    def difference_k(self) -> float | None:
        """Temperature by the power minus the one that is shown (K), 0 if that is confirmed; None until both are known."""
        if self.confirmed:
            return 0.0
        held, mean, shown = self._held.value, self._mean, self._reading_c
        if held is None or mean is None or shown is None or held <= 0.0 or self._span_k < MIN_SPAN_K:
            return None
        return (mean / held - 1.0) * self._span_k + self._skin.setpoint_c - shown

    def limited(self, duty: float, window_s: float) -> float:
        """Return the duty of the next window, so that the mean power stays below what :data:`MAX_WARMER_K` permits."""
        held, mean = self._held.value, self._mean
        if self.confirmed or held is None or mean is None or self._span_k < MIN_SPAN_K:
            return duty
        max_mean = held * (1.0 + MAX_WARMER_K / self._span_k)
        return min(duty, max(mean + (max_mean - mean) * FILTER_S / window_s, 0.0))

    def note(self, duty: float, shown_c: float | None, window_s: float, at_s: float) -> None:
        """Take in the duty of a window and the reading at its beginning; None without a trusted one."""
        self._reading_c = shown_c
        if self._mean is None:
            held = self._held.value
            self._mean = duty if held is None else held
        self._mean += (duty - self._mean) * window_s / FILTER_S
        steady = shown_c is not None and abs(shown_c - self._skin.setpoint_c) < STEADY_K
        self._held.note(duty if steady else None, at_s)
