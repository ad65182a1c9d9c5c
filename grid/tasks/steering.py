"""Train plastic tissue to steer: the task of `choroid/Steering-v1` for an agent that sees spikes.

An episode begins with the settled culture of its seed. A round probes both sides in an order of chance; how far the motor
groups drive to the side of each probe is its score (1: fully, 0.5: not at all, 0: to the wrong side). Rounds without
training come first. Then, before each round of training, the agent sees what the last round showed and chooses a pattern, or
none. The score of the episode is that of the last rounds, in which the agent is silent: only the synapses can hold it.

Each seed is played with both assignments of motor groups to sides, from the same state and with the same order of probes.
The patterns are those of motor groups, not of sides: what is right with one assignment is wrong with the other. An agent that
does not use what it sees stimulates the same in both, its tissue does the same in both, and its mean score is 0.5 exactly.

In the controls, synapses do not learn (frozen), the agent sees no spikes (zero) or those of another round so far (shuffled),
or the pattern is drawn by chance whenever it chooses one (random).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from choroid.tissue.steered import MOTOR, PATTERNS, SteeredTissue
from choroid.tissue.window import CultureTissue
from grid.tasks.task import BoardTask, Episode, Params, Policy, Scored, Values, array, received

ELECTRODES = 32
SMOOTHING = np.float32(0.5)
"""Share of the newest round in the performance with which the next is compared."""
PREFERRED = np.float32(10.0)
"""Added to the values of the patterns of the side that is trained; above every value."""


@dataclass(frozen=True, slots=True)
class Round:
    """What a round showed.

    `spikes` are the means of the motor groups, shape (probed side, side of the group); `right` is the mean drive to the right
    side at the probes of each side, shape (2,), −1 to 1.
    """

    spikes: NDArray[np.float64]
    right: NDArray[np.float64]

    @property
    def score(self) -> float:
        """Return 1 for the full drive to the right side at each probe, 0.5 for none, 0 for the wrong side."""
        return 0.5 + 0.5 * float(self.right.mean())

    def seen(self) -> list[float]:
        """Return what an agent sees of it."""
        return [*self.spikes.ravel(), *self.right]


def _round(tissue: SteeredTissue, probes: int, rng: np.random.Generator) -> Round:
    spikes, right = np.zeros((2, len(MOTOR))), np.zeros(2)
    for side in rng.permutation(np.repeat([0, 1], probes // 2)):
        answer = tissue.probe(int(side))
        spikes[side] += answer.spikes
        right[side] += answer.drive if side else -answer.drive
    return Round(spikes / (probes // 2), right / (probes // 2))


def _episode(seed: int, control: str | None, params: Params) -> Episode:
    culture = CultureTissue.settled(ELECTRODES, seed, plastic=control != "frozen", settle_s=params["settle_s"])
    tissue = SteeredTissue(culture, swapped=params["swapped"])
    order = np.random.default_rng([seed, 0x57EE])
    chance = np.random.default_rng([seed, 0x5FF, params["swapped"]])
    before = [_round(tissue, params["probes"], order) for _ in range(params["before"])]
    shown = [before[-1].seen()]
    used = 0
    for number in range(params["training"]):
        action = yield {"state": array([*_controlled(shown, control, chance), number / params["training"]])}
        chosen = int(received(action, "pattern", (1 + PATTERNS,)).argmax())
        if chosen:
            drawn = int(chance.integers(PATTERNS)) if control == "random" else chosen - 1
            sensory, motor = divmod(drawn, len(MOTOR))
            tissue.train_group(sensory, motor, repeats=params["repeats"], pause_s=params["pause_s"])
            used += 1
        shown.append(_round(tissue, params["probes"], order).seen())
    test = [_round(tissue, params["probes"], order).score for _ in range(params["test"])]
    begun = float(np.mean([each.score for each in before]))
    return Scored(float(np.mean(test)), {"before": begun, "trained": float(used)})


def _controlled(shown: list[list[float]], control: str | None, chance: np.random.Generator) -> list[float]:
    if control == "zero":
        return [0.0] * len(shown[-1])
    return shown[int(chance.integers(len(shown)))] if control == "shuffled" else shown[-1]


def _choose(pattern: int) -> Values:
    return {"pattern": array(np.eye(1 + PATTERNS)[pattern])}


def _never(seed: int, params: Params) -> Policy:
    return lambda _: _choose(0)


def _any(seed: int, params: Params) -> Policy:
    rng = np.random.default_rng([seed, 0xA47, params["swapped"]])
    return lambda _: _choose(1 + int(rng.integers(PATTERNS)))


def _alternate(seed: int, params: Params) -> Policy:
    """Train in turn the two patterns that would be right without swapping: an open loop."""
    turn = 0

    def policy(_: Values) -> Values:
        nonlocal turn
        turn += 1
        return _choose((1, 4)[turn % 2])

    return policy


class FeedbackAgent:
    """Train the side to which the tissue drives worse, with the pattern of this side that has the greater value.

    The value of a pattern is the sum of the changes in the performance of its side that followed it. At first both are equal.
    Nothing is drawn: the actions follow from the spikes alone. In float32, as a model on the board computes.
    """

    def __init__(self) -> None:
        """Begin without preferences."""
        self._value = np.zeros(PATTERNS, np.float32)
        self._last = np.zeros(PATTERNS, np.float32)
        self._performance: NDArray[np.float32] | None = None

    def __call__(self, observation: Values) -> Values:
        """Return the pattern to train with."""
        right = observation["state"][4:6]
        before = right if self._performance is None else self._performance
        change = np.repeat(right - before, len(MOTOR))
        self._value = np.clip(self._value + self._last * change, np.float32(-1.0), np.float32(1.0))
        self._performance = before + SMOOTHING * (right - before)
        side = int(self._performance.argmin())
        values = self._value + PREFERRED * (np.arange(PATTERNS) // len(MOTOR) == side)
        self._last = array(np.eye(PATTERNS)[values.argmax()])
        return {"pattern": array([0.0, *(values + PREFERRED)])}


STEERING = BoardTask(
    "steering",
    _episode,
    ("zero", "shuffled", "random", "frozen"),
    {"never": _never, "any": _any, "alternate": _alternate, "feedback": lambda seed, params: FeedbackAgent()},
)
