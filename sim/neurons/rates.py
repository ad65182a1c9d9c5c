"""The rate-level model of the array: what the sample-level one would fire on average, at the cost of one
formula.

In accelerated time 25,000 frames for each second of rig time cannot be computed. Both models grow the same network from
the same seed; a test holds their mean rates together over the range of health.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sim.neurons.network import BURST_LENGTH_S, REFRACTORY_S, Network


class RateModel:
    """Mean firing of each electrode of the network that `seed` grows on `electrodes` electrodes."""

    def __init__(self, electrodes: int, seed: int) -> None:
        self.network = Network.grown(electrodes, seed)

    def rates_hz(self, health: float, t_s: float) -> NDArray[np.float64]:
        """Return the expected spikes a second, shape (electrodes,), of tissue of this health (0 to 1) at this time."""
        tonic = self.network.tonic_hz(health, t_s)
        in_burst = tonic + self.network.burst_hz(health)
        bursting = self.network.bursts_hz(health) * BURST_LENGTH_S
        bursting /= 1.0 + bursting  # a burst cannot begin while one lasts
        return (1.0 - bursting) * _refractory(tonic) + bursting * _refractory(in_burst)


def _refractory(drive_hz: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the firing rate of a Poisson neuron with a refractory period."""
    return drive_hz / (1.0 + drive_hz * REFRACTORY_S)
