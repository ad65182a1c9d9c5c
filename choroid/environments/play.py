"""Environments in which the tissue plays a game and the agent trains it. A step of the environment is a round of the game.

Two groups of electrodes tell the tissue the side (a probe pulse on each electrode), two others are read: the spikes from 10
to 30 ms after a probe, in relation to their running mean, are the drive. The agent sees the score of a round and whether
the drive was right. Before each round it may choose a training pattern: a motor group, a sensory group and the other motor
group in sequence, 10 ms apart, sixty times. Only the synapses of the tissue can keep what the training changed, so that the
frozen tissue cannot learn the game.

That patterns of stimulation, chosen by performance, direct a culture was shown by Bakkum, Chao and Potter (2008). Nothing
tells the tissue or the agent which pattern is right.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import gymnasium
import numpy as np

from choroid.environments.environment import ControlArm, Observation, TissueEnvironment
from choroid.environments.games import CartPoleGame, Game, PongGame, SteeringGame
from choroid.tissue.steered import MOTOR, PATTERNS, SENSORY, SteeredTissue

REPEATS = 60
PAUSE_S = 10.0
"""Pause after a training: synapses and thresholds recover, so that a round shows what lasts."""
BASELINE, TRAINING, TEST = 10, 30, 10
"""Rounds before the training, with training, and after it. Only those of the test count. Together they take less than the
20 min of stimulation that are allowed without a rest (nerves/envelope.py)."""


class TissueGame(TissueEnvironment):
    """A game that the tissue plays.

    Actions: 0 trains nothing; 1 to 4 are the sequences of a sensory group and the two motor groups. They are numbered by the
    motor group that comes last, whatever its side. An observation is the score of the last round, the mean drive towards the
    right side in it at the probes of the left and of the right side (−1 to 1), whether training is possible in the next
    one, and the share of rounds that are over.

    Which of the motor groups drives to the right is drawn, or given by `swapped`. A culture prefers one of the two
    assignments before any training, and probing alone shifts that. A comparison that plays each culture with both
    assignments is free of it (verification/bench/learning.py).
    """

    mandatory: ClassVar = (
        ControlArm.FROZEN,
        ControlArm.SHUFFLED,
        ControlArm.RANDOM,
        ControlArm.UNSTIMULATED,
        ControlArm.ZERO,
    )
    steps = BASELINE + TRAINING + TEST
    game: ClassVar[type[Game]]

    def __init__(
        self,
        *,
        control: ControlArm | str = ControlArm.NONE,
        nerves: Path | str | None = None,
        swapped: bool | None = None,
    ) -> None:
        """Set up the environment.

        Args:
            control: See the base.
            nerves: See the base.
            swapped: Whether the second motor group drives to the left; None draws it with the seed of each episode.
        """
        super().__init__(control=control, nerves=nerves)
        self._swapped = swapped
        self.action_space = gymnasium.spaces.Discrete(1 + PATTERNS)
        self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (5,), np.float32)

    def _begin(self) -> Observation:
        self._game = self.game()
        self._right = [0.0, 0.0]
        drawn = bool(self.np_random.integers(2))
        swapped = drawn if self._swapped is None else self._swapped
        self._steered = SteeredTissue(self.tissue, swapped=swapped)
        return self._observed(0.0)

    def _act(self, action: int) -> tuple[Observation, float]:
        if action and self._trains(self._step):
            self._train(*divmod(action - 1, len(MOTOR)))
        score = self.round()
        return self._observed(score), score

    def _train(self, sensory: int, motor: int) -> None:
        """Train with a pattern of a sensory and a motor group."""
        self._steered.train_group(sensory, motor, repeats=REPEATS, pause_s=PAUSE_S)

    def _shown(self, observation: Observation, reward: float) -> tuple[Observation, float]:
        """Shuffle how rounds went, not when training is possible: the shuffled arm trains as often as the others."""
        seen, its_reward = super()._shown(observation, reward)
        seen[1 + len(SENSORY) :] = observation[1 + len(SENSORY) :]
        return seen, its_reward

    def _is_scored(self) -> bool:
        return self._step >= BASELINE + TRAINING

    def _trains(self, step: int) -> bool:
        return BASELINE <= step < BASELINE + TRAINING

    def _observed(self, score: float) -> Observation:
        return np.array([score, *self._right, self._trains(self._step + 1), self._step / self.steps], np.float32)

    def round(self) -> float:
        """Play a round; return its score."""
        self._game.begin(self.np_random)
        drives: tuple[list[float], list[float]] = ([], [])
        over = False
        while not over:
            side = self._game.side()
            drive = self._steered.probe(side).drive
            drives[side].append(drive if side else -drive)
            over = self._game.play(drive)
        self._right = [
            float(np.mean(each)) if each else before for each, before in zip(drives, self._right, strict=True)
        ]
        return self._game.score()


class Steering(TissueGame):
    """The tissue drives to the side of each probe."""

    game = SteeringGame


class SteeringBySide(Steering):
    """Version 0, used by `choroid verify bench learning`, not registered: patterns are those of sides.

    An agent that knows plasticity can train the right patterns without looking. The control `shuffled` shows that.
    """

    def _train(self, sensory: int, motor: int) -> None:
        """Train with a pattern of a sensory group and the motor group of a side."""
        self._steered.train(sensory, motor, repeats=REPEATS, pause_s=PAUSE_S)


class CartPole(TissueGame):
    """The tissue balances a pole on a cart."""

    game = CartPoleGame


class Pong(TissueGame):
    """The tissue returns a ball."""

    game = PongGame
