"""The simulated culture spike by spike, for the tasks of boards: pulses in, the spikes that a detector finds out.

No samples are made, so that hours pass in minutes. A spike is found on each electrode that records its neuron clearly,
except in the blanking after a pulse and within 1 ms after another spike of the electrode. What a pulse does is that of
the simulated array (:mod:`sim.neurons.array`). Boards grade by it: a change here needs new versions of the boards.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sim.neurons.conditions import TissueConditions
from sim.neurons.culture import STEP_S, Floats, Ints, NeuralCulture
from sim.neurons.spiking import SpikingNetwork

Phases = tuple[tuple[float, float], ...]
"""(µs, µA) of each phase of a pulse."""
HALF_NC, CHARGE_POWER, REACH_UM = 0.12, 0.7, 150.0
SCATTER = 0.2
LATENCY_S = (0.005, 0.012)
BLANKED_S, BLANKED_THERE_S, DEAD_TIME_S = 0.0032, 0.0062, 0.001
IMPEDANCE_KOHM = (10.0, 2000.0)
MAX_STEPS = 250


class BoardTissue:
    """One specimen on an array. The same seed and the same pulses give the same spikes."""

    def __init__(self, electrodes: int, seed: int, *, plastic: bool = True) -> None:
        self._culture = NeuralCulture.grown(electrodes, seed)
        self._network = SpikingNetwork(self._culture, seed, plastic=plastic)
        self._rng = np.random.default_rng([seed, 3])
        self._deaf_until = np.zeros(electrodes, np.int64)
        neuron, electrode = np.nonzero(self._culture.recorded())
        self._first = np.searchsorted(neuron, np.arange(self._culture.neurons + 1))
        self._electrode = electrode.astype(np.int32)

    @property
    def now_s(self) -> float:
        """Return the time up to which spikes are known (s)."""
        return self._network.step * STEP_S

    def usable(self) -> tuple[int, ...]:
        """Return the electrodes whose impedance allows stimulation."""
        low, high = IMPEDANCE_KOHM
        return tuple(number for number, kohm in enumerate(self._culture.impedance_kohm) if low < kohm < high)

    def advance(self, seconds: float, pulses: Sequence[tuple[float, int, Phases]] = ()) -> tuple[Ints, Floats]:
        """Let time pass with pulses; return electrode and time (s) of each spike, in order of time.

        Args:
            seconds: How long; rounded to steps of 0.4 ms.
            pulses: Time from now (s), electrode and phases of each.
        """
        first = self._network.step
        who: list[Ints] = []
        when: list[NDArray[np.int64]] = []
        for at_s, electrode, phases in sorted(pulses, key=lambda pulse: pulse[:2]):
            at = first + round(at_s / STEP_S)
            self._until(at, who, when)
            self._stimulate(electrode, phases)
            np.maximum(self._deaf_until, at + round(BLANKED_S / STEP_S), out=self._deaf_until)
            there = at + round(BLANKED_THERE_S / STEP_S)
            self._deaf_until[electrode] = max(int(self._deaf_until[electrode]), there)
        self._until(first + round(seconds / STEP_S), who, when)
        if not who:
            return np.empty(0, np.int32), np.empty(0)
        return np.concatenate(who), (np.concatenate(when) * STEP_S).astype(np.float64)

    def _stimulate(self, electrode: int, phases: Phases) -> None:
        culture = self._culture
        charge_nc = max(abs(us * ua) for us, ua in phases) / 1000.0
        far_um = np.hypot(*(culture.position_um - culture.electrode_um[electrode]).T)
        strength = (charge_nc / HALF_NC) ** CHARGE_POWER * np.exp(-far_um / REACH_UM)
        strength *= self._rng.lognormal(0.0, SCATTER, culture.neurons)
        self._network.evoke(strength, self._rng.uniform(*LATENCY_S, culture.neurons))

    def _until(self, end: int, who: list[Ints], when: list[NDArray[np.int64]]) -> None:
        """Advance up to a step, and add what is found."""
        while self._network.step < end:
            steps = min(MAX_STEPS, end - self._network.step)
            neurons, fired = self._network.advance(steps, TissueConditions())
            if not len(neurons):
                continue
            counts = self._first[neurons + 1] - self._first[neurons]
            ends = np.cumsum(counts)
            rows = np.arange(ends[-1]) + np.repeat(self._first[neurons] - (ends - counts), counts)
            electrode, at = self._electrode[rows], np.repeat(fired, counts)
            kept = self._found(electrode, at)
            who.append(electrode[kept])
            when.append(at[kept])

    def _found(self, electrode: Ints, at: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which spikes a detector finds; each makes its electrode deaf for a moment."""
        kept = np.zeros(len(electrode), np.bool_)
        for number, (one, step) in enumerate(zip(electrode.tolist(), at.tolist(), strict=True)):
            if step >= self._deaf_until[one]:
                kept[number] = True
                self._deaf_until[one] = step + round(DEAD_TIME_S / STEP_S)
        return kept
