"""Name spoken vowels from the response of the tissue: a reservoir whose readout the agent learns.

A vowel is the first two formants of a man, a woman or a child: the means of Peterson and Barney (1952, J. Acoust. Soc. Am.
24, 175, table II) with a scatter of 6 % from speaker to speaker. It is given to the tissue by place: each formant has a row
of electrodes along its range on a logarithmic scale, and the two nearest to the formant are stimulated.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import ClassVar

import gymnasium
import numpy as np
from numpy.typing import NDArray

from choroid.environments.environment import ELECTRODES, ControlArm, Observation, TissueEnvironment
from choroid.tissue.window import SitePulse

FORMANTS_HZ = {
    "i": ((270, 2290), (310, 2790), (370, 3200)),
    "ɛ": ((530, 1840), (610, 2330), (690, 2610)),
    "ɑ": ((730, 1090), (850, 1220), (1030, 1370)),
    "u": ((300, 870), (370, 950), (430, 1170)),
    "ɝ": ((490, 1350), (500, 1640), (560, 1820)),
}
"""First and second formant of men, women and children."""
SCATTER = 0.06
RANGES_HZ = ((250.0, 1100.0), (800.0, 3400.0))
SITES = (5, 7)
"""Electrodes along the range of each formant."""
NEAREST = 2
WINDOW_S = 0.5
PULSE_AT_S = 0.002
READ_S = (0.0034, 0.1)
CURRENT_UA = 2.0
MAX_COUNT = 100.0
STEPS = 300
VOWELS = tuple(FORMANTS_HZ)


def spoken(rng: np.random.Generator) -> tuple[int, NDArray[np.float64]]:
    """Draw a vowel and a speaker; return the number of the vowel and its formants (Hz), shape (2,)."""
    vowel = int(rng.integers(len(VOWELS)))
    means = FORMANTS_HZ[VOWELS[vowel]][int(rng.integers(3))]
    return vowel, np.array(means, np.float64) * rng.lognormal(0.0, SCATTER, 2)


class ReservoirVowels(TissueEnvironment):
    """Name the vowel that the tissue answers to. The score of a step is 1 for the right vowel and 0 for another.

    The action is the number of a vowel. An observation is the spike count of each electrode in the 100 ms after the vowel
    that is to be named, then which vowel the one before was (one-hot). The synapses of the tissue need not learn.
    """

    mandatory: ClassVar = (ControlArm.SHUFFLED, ControlArm.RANDOM, ControlArm.ZERO)
    reported: ClassVar = (ControlArm.FROZEN,)
    steps = STEPS

    def __init__(self, *, control: ControlArm | str = ControlArm.NONE, nerves: Path | str | None = None) -> None:
        """Set up the environment; see the base."""
        super().__init__(control=control, nerves=nerves)
        self.action_space = gymnasium.spaces.Discrete(len(VOWELS))
        self.observation_space = gymnasium.spaces.Box(0.0, MAX_COUNT, (ELECTRODES + len(VOWELS),), np.float32)

    def _begin(self) -> Observation:
        sites = self.np_random.permutation(self.tissue.usable())[: sum(SITES)]
        self._sites = np.split(sites, [SITES[0]])
        return self._speak(np.zeros(len(VOWELS)))

    def _act(self, action: int) -> tuple[Observation, float]:
        score = float(action == self._vowel)
        return self._speak(np.eye(len(VOWELS))[self._vowel]), score

    def _speak(self, before: NDArray[np.float64]) -> Observation:
        """Tell the tissue a new vowel; return its response with the name of the vowel before."""
        self._vowel, formants_hz = spoken(self.np_random)
        pulses = []
        for hz, (low, high), sites in zip(formants_hz, RANGES_HZ, self._sites, strict=True):
            place = math.log(hz / low) / math.log(high / low) * (len(sites) - 1)
            nearest = np.argsort(np.abs(np.arange(len(sites)) - place), kind="stable")[:NEAREST]
            pulses += [SitePulse(PULSE_AT_S, int(sites[n]), CURRENT_UA) for n in nearest]
        counts = self.tissue.window(WINDOW_S, pulses).counts(PULSE_AT_S + READ_S[0], PULSE_AT_S + READ_S[1])
        return np.concatenate([np.minimum(counts, MAX_COUNT), before]).astype(np.float32)
