"""Bring the firing of the array to a target rate by choosing how much to stimulate (Wagenaar 2005 controlled bursts so)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import NDArray

from choroid.environments.environment import ELECTRODES, ControlArm, Observation, TissueEnvironment
from choroid.tissue.window import SitePulse

WINDOW_S = 0.5
PULSES = 5
PERIOD_S = 0.1
CURRENT_UA = 3.0
SITES = 6
REST_S = 30.0
FACTORS = (1.3, 3.0)
MIN_TARGET_HZ = 4.0
SMOOTHED_S = 4.0
"""Time constant of the mean rate. Spontaneous network bursts make the rate of a single window a coin."""
TOLERANCE = 0.5
"""Logarithm of the factor above or below the target at which the reward is 0."""
STEPS = 240
MAX_COUNT = 200.0
MAX_RATIO = 10.0


class TargetRate(TissueEnvironment):
    """Keep the mean firing of the array at a target between 1.3 and 3 times its value at rest, drawn for each episode.

    The action is how many of six sites are stimulated, with five pulses each. An observation is the spike count
    of each electrode in the window of 0.5 s, then the rate of the window and the mean rate, both over the target. Rates are
    those of all electrodes that are not sites; the mean has a time constant of 4 s. The reward is 1 when the mean is at the
    target and falls to 0 at a factor of 1.65 above or below it.
    """

    mandatory: ClassVar = (ControlArm.SHUFFLED, ControlArm.RANDOM, ControlArm.UNSTIMULATED, ControlArm.ZERO)
    reported: ClassVar = (ControlArm.FROZEN,)
    steps = STEPS

    def __init__(
        self,
        *,
        control: ControlArm | str = ControlArm.NONE,
        nerves: Path | str | None = None,
        target_hz: float | None = None,
    ) -> None:
        """Set up the environment; the other arguments are those of the base.

        Args:
            control: See :class:`TissueEnvironment`.
            nerves: See :class:`TissueEnvironment`.
            target_hz: Rate of all electrodes that are not sites together; None draws a factor on that of the first 30 s.
        """
        super().__init__(control=control, nerves=nerves)
        self.action_space = gymnasium.spaces.Discrete(SITES + 1)
        self.observation_space = gymnasium.spaces.Box(0.0, MAX_COUNT, (ELECTRODES + 2,), np.float32)
        self._given_hz = target_hz
        self.target_hz = target_hz or MIN_TARGET_HZ

    def _begin(self) -> Observation:
        spikes = self.tissue.window(REST_S)
        self._sites = self.np_random.permutation(self.tissue.usable())[:SITES]
        self._others = np.setdiff1d(np.arange(self.tissue.electrodes), self._sites)
        self._rate_hz = float(spikes.counts()[self._others].sum()) / REST_S
        if self._given_hz is None:
            self.target_hz = max(float(self.np_random.uniform(*FACTORS)) * self._rate_hz, MIN_TARGET_HZ)
        return self._observed(np.zeros(self.tissue.electrodes), self._rate_hz)

    def _act(self, action: int) -> tuple[Observation, float]:
        sites = self._sites[:action]
        pulses = [SitePulse(PERIOD_S * n, int(site), CURRENT_UA) for n in range(PULSES) for site in sites]
        counts = self.tissue.window(WINDOW_S, pulses).counts()
        rate_hz = float(counts[self._others].sum()) / WINDOW_S
        self._rate_hz += (rate_hz - self._rate_hz) * (1.0 - math.exp(-WINDOW_S / SMOOTHED_S))
        ratio = max(self._rate_hz / self.target_hz, 1e-9)
        return self._observed(counts, rate_hz), max(0.0, 1.0 - abs(math.log(ratio)) / TOLERANCE)

    def _observed(self, counts: NDArray[Any], rate_hz: float) -> Observation:
        ratios = np.minimum([rate_hz / self.target_hz, self._rate_hz / self.target_hz], MAX_RATIO)
        return np.concatenate([np.minimum(counts, MAX_COUNT), ratios]).astype(np.float32)
