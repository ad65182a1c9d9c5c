"""The rate-level model of the array: the mean firing of each electrode, for accelerated time.

In accelerated time 25,000 frames for each second of rig time cannot be computed. The mean rates of the same culture are
measured once on its spiking network, which needs no samples, at the shares of living tissue around the present one. Between
them the model interpolates. A test compares it with the network over the range of its inputs.
"""

from __future__ import annotations

import numpy as np

from sim.neurons.conditions import TissueConditions
from sim.neurons.culture import STEP_S, Floats, NeuralCulture
from sim.neurons.spiking import SpikingNetwork

LEVELS = (0.0, 0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Shares of living tissue at which rates are measured."""
NEURON_SECONDS = 9600.0
"""Length of a measurement times the number of neurons: a minute of the smallest culture."""
MIN_MEASURED_S = 8.0
SETTLING_S = 5.0
ADVANCE_STEPS = 250
EXCITABILITY_POWER = 0.25
"""Rates grow less than the intrinsic drive, because network bursts are limited by the recovery of synapses. Measured on the
network: factors of 0.50 to 0.75 at a tenth of the drive, and 1.05 to 1.30 at 1.3 times."""

GLUTAMATE_POWER = 0.9
"""Rates grow with the slow excitation: factors of 1.8 to 2.0 at twice, 2.5 to 2.8 at three times, measured on the network."""


class RateModel:
    """Mean firing of each electrode of the culture that `seed` grows on `electrodes` electrodes."""

    def __init__(self, electrodes: int, seed: int) -> None:
        self._culture = NeuralCulture.grown(electrodes, seed)
        self._seed = seed
        self._pairs = np.nonzero(self._culture.recorded())
        """Which neuron is recorded by which electrode: an array of each."""
        self._measured: dict[float, Floats] = {0.0: np.zeros(self._culture.neurons)}

    def rates_hz(self, conditions: TissueConditions, t_s: float) -> Floats:
        """Return the expected spikes a second that each electrode records clearly at a time, shape (electrodes,)."""
        alive = min(max(conditions.alive, 0.0), 1.0)
        above = next(level for level in LEVELS if level >= alive)
        below = max(level for level in LEVELS if level <= alive)
        rates = self._at(below)
        if above > below:
            share = (alive - below) / (above - below)
            rates = (1.0 - share) * rates + share * self._at(above)
        drive = conditions.excitability * self._culture.drift(t_s)
        neuron, electrode = self._pairs
        weights = (rates * drive**EXCITABILITY_POWER * conditions.glutamate**GLUTAMATE_POWER)[neuron]
        found: Floats = np.bincount(electrode, weights=weights, minlength=self._culture.electrodes).astype(np.float64)
        return found

    def _at(self, alive: float) -> Floats:
        """Return the rates of the neurons at a level, measured when they are first needed."""
        found = self._measured.get(alive)
        if found is None:
            found = self._measured[alive] = self._measure(TissueConditions(alive=alive))
        return found

    def _measure(self, conditions: TissueConditions) -> Floats:
        network = SpikingNetwork(self._culture, self._seed, plastic=False)
        measured_s = max(NEURON_SECONDS / self._culture.neurons, MIN_MEASURED_S)
        counts = np.zeros(self._culture.neurons)
        for _ in range(round(SETTLING_S / (ADVANCE_STEPS * STEP_S))):
            network.advance(ADVANCE_STEPS, conditions)
        advances = round(measured_s / (ADVANCE_STEPS * STEP_S))
        for _ in range(advances):
            who, _ = network.advance(ADVANCE_STEPS, conditions)
            counts += np.bincount(who, minlength=len(counts))
        rates: Floats = counts / (advances * ADVANCE_STEPS * STEP_S)
        return rates
