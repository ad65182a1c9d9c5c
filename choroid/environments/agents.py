"""Small agents that learn through the environments, in NumPy. They see observations and rewards only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from choroid.environments.environment import Observation


class PatternTrainer:
    """Train tissue that plays a game: choose training patterns by what they changed (after Bakkum, Chao and Potter 2008).

    It trains the side to which the tissue drives worse, with one of the patterns that contain the sensory group of this
    side. The value of a pattern is the sum of the changes in the performance of its side that followed it. At first both
    patterns of a side are equal; nothing says which is right.
    """

    RIGHT = slice(1, 3)
    """Where an observation has the performance of the two sides."""
    POSSIBLE = 3
    """Where it has whether training is possible."""

    def __init__(self, actions: int, seed: int, *, sharpness: float = 6.0, smoothing: float = 0.5) -> None:
        """Begin without preferences.

        Args:
            actions: Number of actions; 0 trains nothing.
            seed: Of the choices.
            sharpness: How much more often the better pattern is chosen.
            smoothing: Share of the newest round in the performance with which the next is compared.
        """
        self._value = np.zeros((2, (actions - 1) // 2))
        self._rng = np.random.default_rng([seed, 7])
        self._sharpness, self._smoothing = sharpness, smoothing
        self._performance: NDArray[np.float64] | None = None

    def act(self, observation: Observation) -> int:
        """Return the pattern to train with, 0 for none."""
        if observation[self.POSSIBLE] < 0.5 or self._performance is None:
            return 0
        side = int(self._performance.argmin())
        chance = np.exp(self._sharpness * (self._value[side] - self._value[side].max()))
        return 1 + side * len(chance) + int(self._rng.choice(len(chance), p=chance / chance.sum()))

    def learn(self, action: int, reward: float, observation: Observation) -> None:
        """Value the pattern by the change in performance of its side."""
        performance = observation[self.RIGHT].astype(np.float64)
        before = performance if self._performance is None else self._performance
        if action:
            side, pattern = divmod(action - 1, self._value.shape[1])
            value = self._value[side, pattern] + performance[side] - before[side]
            self._value[side, pattern] = np.clip(value, -1.0, 1.0)
        self._performance = before + self._smoothing * (performance - before)


class RateKeeper:
    """Keep a target rate: learn the rate that each action gives, and choose the one that brings the mean to the target."""

    HOLD = 4
    """Steps for which each action is tried at first."""
    WINDOW, MEAN = -2, -1
    """Where an observation has the rate of the window and the mean rate, over the target."""

    def __init__(self, actions: int, seed: int, *, gain: float = 1.5, rate: float = 0.15, chance: float = 0.03) -> None:
        """Begin knowing nothing.

        Args:
            actions: Number of actions.
            seed: Of the order of trials and of chance.
            gain: How much the wanted rate exceeds the target when the mean is below it.
            rate: Share of the newest window in the rate of an action.
            chance: Chance of an action drawn by chance.
        """
        self._rng = np.random.default_rng([seed, 7])
        self._order = np.repeat(self._rng.permutation(actions), self.HOLD)
        self._rates = np.full(actions, np.nan)
        self._gain, self._rate, self._chance = gain, rate, chance
        self._step = 0

    def act(self, observation: Observation) -> int:
        """Return the action whose rate corrects the mean best."""
        if self._step < len(self._order):
            return int(self._order[self._step])
        if self._rng.random() < self._chance:
            return int(self._rng.integers(len(self._rates)))
        wanted = 1.0 + self._gain * (1.0 - float(observation[self.MEAN]))
        return int(np.nanargmin(np.abs(self._rates - wanted)))

    def learn(self, action: int, reward: float, observation: Observation) -> None:
        """Note the rate that followed an action."""
        self._step += 1
        seen, known = float(observation[self.WINDOW]), self._rates[action]
        self._rates[action] = seen if np.isnan(known) else known + self._rate * (seen - known)


class RidgeReader:
    """Name vowels: a ridge regression from spike counts to the vowels received so far."""

    def __init__(self, actions: int, seed: int, *, penalty: float = 10.0) -> None:
        """Begin knowing nothing.

        Args:
            actions: Number of vowels.
            seed: Not used: nothing is drawn.
            penalty: Of large weights, in squared spikes.
        """
        self._vowels = actions
        self._penalty = penalty
        self._counts: list[NDArray[np.float64]] = []
        self._named: list[NDArray[np.float64]] = []
        self._last: NDArray[np.float64] | None = None

    def act(self, observation: Observation) -> int:
        """Return the vowel that the counts are most like."""
        counts = self._of(observation)
        self._last = counts
        if not self._counts:
            return 0
        seen, named = np.stack(self._counts), np.stack(self._named)
        weights = np.linalg.solve(seen.T @ seen + self._penalty * np.eye(len(counts)), seen.T @ named)
        return int((counts @ weights).argmax())

    def learn(self, action: int, reward: float, observation: Observation) -> None:
        """Keep the counts of the last vowel with its name, which the observation after it has."""
        if self._last is not None:
            self._counts.append(self._last)
            self._named.append(observation[-self._vowels :].astype(np.float64))

    def _of(self, observation: Observation) -> NDArray[np.float64]:
        """Return the square roots of the counts, whose scatter is the same for all, and a constant."""
        return np.append(np.sqrt(observation[: -self._vowels].astype(np.float64)), 1.0)
