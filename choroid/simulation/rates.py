"""Rate-level nerves of an accelerated run: the plant's tissue through the rate model of the array.

At thousands of times real time, 25,000 frames per simulated second cannot be generated; the rate-level model of the
same network (checked against the sample-level array) gives firing rates instead. There are no single spikes.
"""

from __future__ import annotations

import asyncio

import numpy as np

from nerves.summary import NervesSummary, StimulationTreatment
from sim.neurons.rates import RateModel
from sim.plant.plant import Plant

ACTIVE_HZ = 5 / 60
"""Rate from which an electrode counts as active: five spikes a minute (a common convention; electrodes.md §5)."""
UNTOUCHED = StimulationTreatment(0.0, 24.0, None, False, 0, "none", "the rate-level model takes no pulses")


class RateNerves:
    """A `NervesSource` over :class:`sim.neurons.rates.RateModel`."""

    def __init__(self, plant: Plant, *, electrodes: int, seed: int) -> None:
        self._plant = plant
        self._electrodes = electrodes
        self._model = RateModel(electrodes, seed)

    async def summary(self) -> NervesSummary | None:
        """Return the current firing rates (Hz) of the tissue as it truly is."""
        now_s = asyncio.get_running_loop().time()
        rates = self._model.rates_hz(self._plant.conditions, now_s)
        active = rates[rates >= ACTIVE_HZ]
        return NervesSummary(
            at_s=now_s,
            firing_rate_hz=float(np.add.reduce(active) / active.size) if active.size else 0.0,
            active_electrodes=int(active.size),
            electrodes=self._electrodes,
            rates_hz=tuple(rates.tolist()),
            treatment=UNTOUCHED,
        )

    def recent_spikes(self) -> list[tuple[float, int]]:
        """Return no spikes: the rate level has none."""
        return []

    async def close(self) -> None:
        """Do nothing."""
