"""Controls of experiments on learning: twins of a culture in which what is learned cannot come from its synapses.

An agent that scores on the plastic culture and equally on a twin has not taught the tissue anything.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

SHUFFLE_EVERY_S = 10.0


class Twin(StrEnum):
    """What differs from the culture."""

    PLASTIC = "plastic"
    """Nothing: the culture itself."""
    FROZEN = "frozen"
    """Synapses do not learn."""
    SHUFFLED = "shuffled"
    """Spikes appear on other electrodes, which change every 10 s."""
    ZERO = "zero"
    """No spikes are seen."""
    RANDOM_STIMULATION = "random_stimulation"
    """Pulses go to an electrode drawn by chance."""


class Twins:
    """How a twin changes what is seen and what is stimulated."""

    def __init__(self, twin: Twin, electrodes: int, seed: int) -> None:
        self.twin = twin
        self.all = np.arange(electrodes, dtype=np.int32)
        """The electrodes in order, as :meth:`shown` returns them where nothing is changed."""
        self._seed = seed
        self._rng = np.random.default_rng([seed, 5])
        self._shuffled: tuple[int, NDArray[np.int32]] = (-1, self.all)

    def shown(self, at_s: float) -> NDArray[np.int32] | None:
        """Return on which electrode the signal of each electrode appears, or None if nothing does."""
        if self.twin is Twin.ZERO:
            return None
        if self.twin is not Twin.SHUFFLED:
            return self.all
        turn = int(at_s / SHUFFLE_EVERY_S)
        if self._shuffled[0] != turn:
            order = np.random.default_rng([self._seed, 6, turn]).permutation(len(self.all))
            self._shuffled = (turn, order.astype(np.int32))
        return self._shuffled[1]

    def stimulated(self, electrode: int) -> int:
        """Return the electrode that a pulse really reaches."""
        if self.twin is Twin.RANDOM_STIMULATION:
            return int(self._rng.integers(len(self.all)))
        return electrode
