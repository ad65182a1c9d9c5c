"""What an environment needs of tissue on an array: a window of time with pulses in, the spikes of each electrode out.

The simulated culture answers some 150 times as fast as real time. The same environments run on the array of an electrode
engine (:mod:`choroid.environments.engine_tissue`). Nothing else passes: no weights, no states of neurons, no reward.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sim.neurons.spike_array import SpikeArray

PHASE_US = 160.0
SETTLED_S = 360.0
"""Time before an experiment (s): homeostasis of the simulated culture measures the rates that it keeps."""
KEPT = 4
"""Settled cultures that are kept for the next episode with the same seed."""


@dataclass(frozen=True, slots=True)
class SitePulse:
    """One biphasic pulse, negative first, 160 µs a phase: when (s from the begin of the window), where, and its current."""

    at_s: float
    electrode: int
    ua: float

    @property
    def phases(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return the phases (µs, µA)."""
        return ((PHASE_US, -self.ua), (PHASE_US, self.ua))


@dataclass(frozen=True, slots=True)
class WindowSpikes:
    """The spikes of a window: the electrode and the time (s from the begin of the window) of each, in order of time."""

    electrode: NDArray[np.int32]
    at_s: NDArray[np.float64]
    electrodes: int

    def counts(self, from_s: float = 0.0, to_s: float = np.inf) -> NDArray[np.int64]:
        """Return the spikes of each electrode between two times, shape (electrodes,)."""
        inside = (self.at_s >= from_s) & (self.at_s < to_s)
        return np.bincount(self.electrode[inside], minlength=self.electrodes)


class StimulatedTissue(Protocol):
    """Tissue on an array."""

    @property
    def electrodes(self) -> int:
        """Return the number of electrodes."""
        ...

    def usable(self) -> tuple[int, ...]:
        """Return the electrodes that may be stimulated."""
        ...

    def window(self, seconds: float, pulses: Sequence[SitePulse] = ()) -> WindowSpikes:
        """Let a window of time pass with these pulses, and return its spikes."""
        ...

    def close(self) -> None:
        """Give the array back."""
        ...


class CultureTissue:
    """A simulated culture in accelerated time. The same seed and the same pulses give the same spikes."""

    def __init__(self, array: SpikeArray) -> None:
        self._array = array

    @classmethod
    def settled(cls, electrodes: int, seed: int, *, plastic: bool = True, settle_s: float = SETTLED_S) -> CultureTissue:
        """Return the culture of a seed after its first minutes.

        Args:
            electrodes: How many electrodes its array has.
            seed: Of the culture.
            plastic: Whether its synapses learn from now on.
            settle_s: How long it has been left alone (s).
        """
        array = copy.deepcopy(_settled(electrodes, seed, settle_s))
        if not plastic:
            array.freeze()
        return cls(array)

    @property
    def electrodes(self) -> int:
        """Return the number of electrodes."""
        return self._array.electrodes

    def usable(self) -> tuple[int, ...]:
        """Return the electrodes that may be stimulated."""
        return self._array.usable()

    def window(self, seconds: float, pulses: Sequence[SitePulse] = ()) -> WindowSpikes:
        """Let a window of time pass with these pulses, and return its spikes."""
        begin_s = self._array.now_s
        electrode, at_s = self._array.advance(
            seconds, [(pulse.at_s, pulse.electrode, pulse.phases) for pulse in pulses]
        )
        return WindowSpikes(electrode, at_s - begin_s, self.electrodes)

    def close(self) -> None:
        """Do nothing: a simulated culture holds nothing."""


class SilentTissue:
    """StimulatedTissue whose spikes are not seen: the control that shows what a task gives without it."""

    def __init__(self, tissue: StimulatedTissue) -> None:
        self._tissue = tissue

    @property
    def electrodes(self) -> int:
        """Return the number of electrodes."""
        return self._tissue.electrodes

    def usable(self) -> tuple[int, ...]:
        """Return the electrodes that may be stimulated."""
        return self._tissue.usable()

    def window(self, seconds: float, pulses: Sequence[SitePulse] = ()) -> WindowSpikes:
        """Let a window of time pass with these pulses, and return no spikes."""
        self._tissue.window(seconds, pulses)
        return WindowSpikes(np.empty(0, np.int32), np.empty(0), self.electrodes)

    def close(self) -> None:
        """Give the array back."""
        self._tissue.close()


@lru_cache(maxsize=KEPT)
def _settled(electrodes: int, seed: int, settle_s: float) -> SpikeArray:
    array = SpikeArray(electrodes, seed)
    array.advance(settle_s)
    return array
