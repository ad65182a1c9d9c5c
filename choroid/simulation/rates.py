"""The rate-level nerves of an accelerated run: the plant's tissue, heard through the rate model of the array.

At thousands of times life no one can generate 25,000 frames a second of life; the rate-level model of the same network
(checked against the sample-level array) tells firing rates instead. There are no single spikes here.
"""

from __future__ import annotations

import asyncio

from controller.nerves.summary import NervesSummary, StimulationTreatment
from sim.neurons.rates import RateModel
from sim.plant.plant import Plant

ACTIVE_HZ = 5 / 60
"""An electrode counts as active from five spikes a minute (a common convention; electrodes.md §5)."""
UNTOUCHED = StimulationTreatment(0.0, 24.0, None, False, 0, "none", "the rate-level model takes no pulses")


class RateNerves:
    """A `NervesSource` over :class:`sim.neurons.rates.RateModel`."""

    def __init__(self, plant: Plant, *, electrodes: int, seed: int) -> None:
        self._plant = plant
        self._electrodes = electrodes
        self._model = RateModel(electrodes, seed)

    async def summary(self) -> NervesSummary | None:
        """The firing rates of this moment (Hz), given the tissue's true liveliness."""
        now_s = asyncio.get_running_loop().time()
        rates = self._model.rates_hz(self._plant.firing_scale, now_s)
        active = rates[rates >= ACTIVE_HZ]
        return NervesSummary(
            at_s=now_s,
            firing_rate_hz=float(active.mean()) if active.size else 0.0,
            active_electrodes=int(active.size),
            electrodes=self._electrodes,
            rates_hz=tuple(rates.tolist()),
            treatment=UNTOUCHED,
        )

    def recent_spikes(self) -> list[tuple[float, int]]:
        """No single spikes at rate level."""
        return []

    async def close(self) -> None:
        """Nothing to close."""
