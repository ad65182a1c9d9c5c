"""The simulated array without samples: pulses in, the spikes that a detector finds on each electrode out.

It runs some 150 times as fast as real time, for tasks that take hours. Neurons, synapses and pulses are those of
:class:`sim.neurons.array.SimulatedArray`. A spike is found on each electrode that records its neuron clearly, except within
the blanking that follows a pulse and within 1 ms after another spike of the electrode.
"""

from __future__ import annotations

from collections.abc import Sequence

import numba
import numpy as np
from numpy.typing import NDArray

from sim.neurons.conditions import TissueConditions
from sim.neurons.culture import STEP_S, Floats, Ints, NeuralCulture
from sim.neurons.pulses import PulseEffects, charge_nc
from sim.neurons.spiking import SpikingNetwork

BLANKED_S, BLANKED_THERE_S = 0.0032, 0.0062
"""How long after a pulse no spike is found, and on the stimulated electrode (docs/nerves.md, blanked)."""
DEAD_TIME_S = 0.001
"""Shortest time between two spikes of an electrode."""
IMPEDANCE_KOHM = (10.0, 2000.0)
"""Range within which an electrode may be stimulated."""
MAX_STEPS = 250


@numba.njit(cache=True)  # type: ignore[untyped-decorator,unused-ignore]
def _found(electrode, step, until, dead_steps):  # type: ignore[no-untyped-def]
    """Return which spikes are found: those after the time until which their electrode is deaf, which each one prolongs."""
    kept = np.zeros(len(electrode), np.bool_)
    for n in range(len(electrode)):
        if step[n] >= until[electrode[n]]:
            kept[n] = True
            until[electrode[n]] = step[n] + dead_steps
    return kept


class SpikeArray:
    """One specimen on one array, spike by spike. The same seed and the same pulses give the same spikes.

    `conditions` may be replaced at any time. Times are in seconds from the first moment.
    """

    def __init__(self, electrodes: int, seed: int) -> None:
        """Grow the specimen of a seed.

        Args:
            electrodes: How many electrodes the array has.
            seed: Of the culture and of all that is drawn.
        """
        self.culture = NeuralCulture.grown(electrodes, seed)
        self.conditions = TissueConditions()
        self._network = SpikingNetwork(self.culture, seed)
        self._effects = PulseEffects(self.culture, seed)
        self._deaf_until = np.zeros(electrodes, np.int64)
        footprint = self.culture.recorded()
        neuron, electrode = np.nonzero(footprint)
        self._first = np.searchsorted(neuron, np.arange(self.culture.neurons + 1))
        self._electrode = electrode.astype(np.int32)

    @property
    def electrodes(self) -> int:
        """Return the number of electrodes."""
        return self.culture.electrodes

    @property
    def now_s(self) -> float:
        """Return the time up to which spikes are known (s)."""
        return self._network.step * STEP_S

    def freeze(self) -> None:
        """Let synapses learn no more: the control in which the tissue cannot change."""
        self._network.plastic = False

    def usable(self) -> tuple[int, ...]:
        """Return the electrodes whose impedance allows stimulation."""
        low, high = IMPEDANCE_KOHM
        return tuple(e for e, kohm in enumerate(self.culture.impedance_kohm) if low < kohm < high)

    def advance(
        self, seconds: float, pulses: Sequence[tuple[float, int, Sequence[tuple[float, float]]]] = ()
    ) -> tuple[Ints, Floats]:
        """Let time pass and stimulate.

        Args:
            seconds: How long; rounded to steps of 0.4 ms.
            pulses: Time from now (s), electrode and phases (µs, µA) of each.

        Returns:
            The electrode and the time (s) of each spike, in order of time.

        Raises:
            ValueError: A pulse lies outside this time.
        """
        first = self._network.step
        end = first + round(seconds / STEP_S)
        who: list[Ints] = []
        when: list[NDArray[np.int64]] = []
        for at_s, electrode, phases in sorted(pulses, key=lambda pulse: pulse[:2]):
            at = first + round(at_s / STEP_S)
            if not first <= at < end:
                raise ValueError(f"a pulse at {at_s:g} s lies outside the {seconds:g} s of this call")
            self._until(at, who, when)
            self._network.evoke(*self._effects.drawn(electrode, charge_nc(phases)))
            np.maximum(self._deaf_until, at + round(BLANKED_S / STEP_S), out=self._deaf_until)
            there = max(int(self._deaf_until[electrode]), at + round(BLANKED_THERE_S / STEP_S))
            self._deaf_until[electrode] = there
        self._until(end, who, when)
        if not who:
            return np.empty(0, np.int32), np.empty(0)
        return np.concatenate(who), (np.concatenate(when) * STEP_S).astype(np.float64)

    def _until(self, end: int, who: list[Ints], when: list[NDArray[np.int64]]) -> None:
        """Advance up to a step, and add what is found."""
        while self._network.step < end:
            neurons, steps = self._network.advance(min(MAX_STEPS, end - self._network.step), self.conditions)
            if not len(neurons):
                continue
            counts = self._first[neurons + 1] - self._first[neurons]
            ends = np.cumsum(counts)
            rows = np.arange(int(ends[-1])) + np.repeat(self._first[neurons] - (ends - counts), counts)
            electrode, at = self._electrode[rows], np.repeat(steps, counts)
            kept = _found(electrode, at, self._deaf_until, round(DEAD_TIME_S / STEP_S))
            who.append(electrode[kept])
            when.append(at[kept])
