"""The network of neurons of both array models: firing rates, and their dependence on health.

Rates, burst figures and spike sizes lie inside what is published for cortical organoids on planar arrays:
spikes of 30 to 200 µV and about a millisecond, single-unit rates of a few hertz with a skewed distribution,
network bursts of a few hundred milliseconds every several seconds. They are a plausible specimen, not a fit
to one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

REFRACTORY_S = 0.003
"""Shortest time between two spikes of one neuron."""

BURST_EVERY_S = 8.0
"""Mean time between network bursts of a wholly healthy network."""

BURST_LENGTH_S = 0.3
BURST_RATE_HZ = 45.0
"""Firing of a fully taking-part neuron inside a burst, at health 1."""


@dataclass(frozen=True, slots=True)
class Network:
    """One specimen: arrays have one entry for each electrode; an electrode records one neuron or none.

    `base_hz`: tonic firing at health 1. `takes_part`: share in network bursts. `falls_silent_at`: the
    health at and below which this neuron is silent. `trough_uv`: spike size. `position_um`: shape
    (electrodes, 2).
    """

    base_hz: Floats
    takes_part: Floats
    falls_silent_at: Floats
    trough_uv: Floats
    impedance_kohm: Floats
    position_um: Floats
    drift_period_s: Floats
    drift_phase: Floats

    @classmethod
    def grown(cls, electrodes: int, seed: int) -> Network:
        """Return the specimen of this seed. One electrode of eight records nothing; one (if there are eight) is broken."""
        rng = np.random.default_rng([seed, 0x6E65])
        base_hz = rng.lognormal(math.log(1.6), 0.7, electrodes).clip(0.3, 12.0)
        deaf = rng.permutation(electrodes)[: electrodes // 8]
        trough_uv = rng.lognormal(math.log(75.0), 0.3, electrodes).clip(45.0, 180.0)
        impedance = rng.lognormal(math.log(220.0), 0.2, electrodes)
        if electrodes >= 8:
            impedance[deaf[0]] = 8000.0  # an open lead: no neuron is recorded, and more noise
        base_hz[deaf] = 0.0
        takes_part = rng.uniform(0.3, 1.0, electrodes)
        takes_part[deaf] = 0.0
        columns = math.ceil(math.sqrt(electrodes))
        grid = np.arange(electrodes)
        return cls(
            base_hz=base_hz,
            takes_part=takes_part,
            falls_silent_at=rng.uniform(0.02, 0.45, electrodes),
            trough_uv=trough_uv,
            impedance_kohm=impedance,
            position_um=np.stack([grid % columns, grid // columns], axis=1).astype(np.float64) * 200.0,
            drift_period_s=rng.uniform(900.0, 7200.0, electrodes),
            drift_phase=rng.uniform(0.0, 2.0 * math.pi, electrodes),
        )

    @property
    def electrodes(self) -> int:
        """Return the number of electrodes."""
        return len(self.base_hz)

    def vigour(self, health: float) -> Floats:
        """Return the share of its full firing of each neuron at this health (0 to 1): 0 below its threshold of silence."""
        share = (min(max(health, 0.0), 1.0) - self.falls_silent_at) / (1.0 - self.falls_silent_at)
        return np.maximum(share, 0.0)

    def drift(self, t_s: float) -> Floats:
        """Return the slow drift of each neuron's rate around 1, with periods of a quarter of an hour to two hours."""
        return 1.0 + 0.15 * np.sin(2.0 * math.pi * t_s / self.drift_period_s + self.drift_phase)

    def tonic_hz(self, health: float, t_s: float) -> Floats:
        """Return the drive outside bursts (Hz), before the effect of the refractory period."""
        return self.base_hz * self.vigour(health) * self.drift(t_s)

    def burst_hz(self, health: float) -> Floats:
        """Return the additional drive inside a burst (Hz)."""
        return BURST_RATE_HZ * self.takes_part * self.vigour(health)

    def bursts_hz(self, health: float) -> float:
        """Return the network bursts a second."""
        return min(max(health, 0.0), 1.0) / BURST_EVERY_S
