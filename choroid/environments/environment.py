"""What all environments have in common: the tissue of an episode, its controls, and the score that counts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import NDArray

from choroid.tissue.window import CultureTissue, SilentTissue, StimulatedTissue

Observation = NDArray[np.float32]
ELECTRODES = 32
MAX_SEED = 2**31


class ControlArm(StrEnum):
    """What differs from an episode with the plastic tissue and the actions of the agent."""

    NONE = "none"
    """Nothing: the episode that is compared with the others."""
    FROZEN = "frozen"
    """The synapses of the simulated culture learn no more. Not possible with an electrode engine."""
    SHUFFLED = "shuffled"
    """The agent sees the observations and rewards of the episode in another order of time."""
    RANDOM = "random"
    """Actions are drawn by chance."""
    UNSTIMULATED = "unstimulated"
    """The agent's action is always 0."""
    ZERO = "zero"
    """No spikes are seen."""


class TissueEnvironment(gymnasium.Env[Observation, np.int64], ABC):
    """An environment on tissue.

    Each episode with a seed has the simulated culture of this seed; without a seed, one that is drawn. `info` of each step
    has `score`, the true score of the step, and `scored`, whether the step counts. Both are for evaluation: an agent must
    not use them.

    Attributes:
        mandatory: Controls that the agent must beat; otherwise its result is void.
        reported: Controls that are measured too and may do as well.
        steps: Steps of an episode.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  (declared so by gymnasium)
    mandatory: ClassVar[tuple[ControlArm, ...]]
    reported: ClassVar[tuple[ControlArm, ...]] = ()
    steps: int

    def __init__(self, *, control: ControlArm | str = ControlArm.NONE, nerves: Path | str | None = None) -> None:
        """Set up an environment.

        Args:
            control: What differs from the episode with plastic tissue.
            nerves: The `nerves.json` of a running electrode engine; None means the simulated culture in accelerated time.

        Raises:
            ValueError: The control does not exist, or needs the simulated culture.
        """
        self.control = ControlArm(control)
        self._nerves = nerves
        if nerves is not None and self.control is ControlArm.FROZEN:
            raise ValueError("the tissue behind an electrode engine cannot be frozen. Next: leave out `nerves`")
        self._tissue: StimulatedTissue | None = None
        self._step = 0
        self._seen: list[tuple[Observation, float]] = []

    @property
    def tissue(self) -> StimulatedTissue:
        """Return the tissue of this episode.

        Raises:
            RuntimeError: There is no episode yet.
        """
        if self._tissue is None:
            raise RuntimeError("the environment has no tissue yet. Next: call reset()")
        return self._tissue

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: Of the culture and of all that is drawn; None draws one.
            options: None are known.

        Returns:
            The first observation, and `info` with the score 0.
        """
        super().reset(seed=seed)
        culture = int(self.np_random.integers(MAX_SEED)) if seed is None else seed
        self.close()
        tissue = self._opened(culture)
        self._tissue = SilentTissue(tissue) if self.control is ControlArm.ZERO else tissue
        self._step, self._seen = 0, []
        observation = self._begin()
        return observation, {"score": 0.0, "scored": False}

    def step(self, action: np.int64 | int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Act, and let the tissue answer.

        Args:
            action: Number of the action.

        Returns:
            Observation, reward, False, whether the episode is over, and `info` with `score` and `scored`.

        Raises:
            RuntimeError: There is no episode yet.
        """
        _ = self.tissue  # there is none before reset()
        if self.control is ControlArm.RANDOM:
            action = self.np_random.integers(self._actions)
        elif self.control is ControlArm.UNSTIMULATED:
            action = 0
        scored = self._is_scored()
        observation, score = self._act(int(action))
        self._step += 1
        seen = self._shown(observation, score)
        return *seen, False, self._step >= self.steps, {"score": score, "scored": scored}

    def close(self) -> None:
        """Give the array back."""
        if self._tissue is not None:
            self._tissue.close()
            self._tissue = None

    @property
    def _actions(self) -> int:
        assert isinstance(self.action_space, gymnasium.spaces.Discrete)  # noqa: S101  (all of them are)
        return int(self.action_space.n)

    def _opened(self, seed: int) -> StimulatedTissue:
        if self._nerves is not None:
            from choroid.environments.engine_tissue import EngineTissue

            return EngineTissue(self._nerves)
        return CultureTissue.settled(ELECTRODES, seed, plastic=self.control is not ControlArm.FROZEN)

    def _shown(self, observation: Observation, reward: float) -> tuple[Observation, float]:
        """Return what the agent sees of a step: the step itself, or, shuffled, any step so far."""
        if self.control is not ControlArm.SHUFFLED:
            return observation, reward
        self._seen.append((observation, reward))
        earlier, its_reward = self._seen[int(self.np_random.integers(len(self._seen)))]
        return earlier.copy(), its_reward

    def _is_scored(self) -> bool:
        """Return whether the step to come counts: those of the last third do."""
        return self._step >= self.steps * 2 // 3

    @abstractmethod
    def _begin(self) -> Observation:
        """Begin an episode on :attr:`tissue`; return the first observation."""

    @abstractmethod
    def _act(self, action: int) -> tuple[Observation, float]:
        """Do one step; return the observation and the score."""
