"""What a pulse does to the neurons around its electrode: who is depolarised, how strongly, and when."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from sim.neurons.culture import Floats, NeuralCulture

HALF_NC = 0.12
"""Charge that brings a neuron at the electrode to its threshold."""
CHARGE_POWER = 0.7
REACH_UM = 150.0
"""Distance at which the effect of a pulse has fallen to 1/e."""
SCATTER = 0.2
"""Scatter of the effect from pulse to pulse (standard deviation of the logarithm)."""
LATENCY_S = (0.005, 0.012)


def charge_nc(phases: Sequence[tuple[float, float]]) -> float:
    """Return the largest charge that flows to one side, over pauses too (nC); phases are (µs, µA)."""
    moved = (us * ua for us, ua in phases if ua)
    sides = groupby(moved, lambda charge: charge > 0.0)
    return max((abs(sum(side)) for _, side in sides), default=0.0) / 1000.0


class PulseEffects:
    """The effects of pulses on one culture, with the scatter of this seed."""

    def __init__(self, culture: NeuralCulture, seed: int) -> None:
        self._culture = culture
        self._rng = np.random.default_rng([seed, 3])
        self._reached: dict[int, Floats] = {}

    def drawn(self, electrode: int, charge: float) -> tuple[Floats, Floats]:
        """Return the depolarisation of each neuron (in thresholds) and its latency (s) for a pulse of this charge (nC)."""
        strength = (charge / HALF_NC) ** CHARGE_POWER * self._reach(electrode)
        strength *= self._rng.lognormal(0.0, SCATTER, self._culture.neurons)
        return strength, self._rng.uniform(*LATENCY_S, self._culture.neurons)

    def _reach(self, electrode: int) -> Floats:
        """Return the share of the effect of a pulse that reaches each neuron."""
        if electrode not in self._reached:
            far_um = np.hypot(*(self._culture.position_um - self._culture.electrode_um[electrode]).T)
            self._reached[electrode] = np.exp(-far_um / REACH_UM)
        return self._reached[electrode]
