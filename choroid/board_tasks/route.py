"""Train plastic tissue: strengthen the way from each of two sensory groups of electrodes to the motor group that is wanted.

The array has two sensory and two motor groups. An episode begins with probes: pulses on a sensory group, and the
spikes of the motor groups that follow within 30 ms. Then come rounds of training: in each the agent sees the last
probes and chooses one of four patterns (pulses on a sensory group, and 10 ms later on a motor group) or none, which
is repeated; then the tissue is probed again. After a rest the tissue is probed without training. The score is how
much more the wanted motor groups answer than the others, over what they did at the beginning. Patterns of stimulation
that are chosen by what a culture does direct its plasticity (Bakkum, Chao and Potter 2008).

What counts is the tissue, not the agent: the probes of the test are read while the agent is silent. In the controls,
synapses do not learn (frozen), no spikes are seen (zero), spikes appear on other electrodes (shuffled), or pulses of
the training reach electrodes drawn by chance (random).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from choroid.board_tasks.spikes import Phases, biphasic
from choroid.board_tasks.task import BoardTask, Episode, Params, Policy, Scored, Values, array, received
from sim.neurons.spike_array import SpikeArray

ELECTRODES, COLUMNS = 32, 6
WINDOW_S, PULSE_AT_S, DELAY_S = 0.2, 0.002, 0.010
READ_S = (0.0054, 0.032)
"""What is read of a window: after the blanking of the probe, and before a network burst."""
PROBE_UA, TRAINING_UA = 1.5, 2.0
SETTLE_S, REST_S = 10.0, 10.0
SENSORY = (((2, 3), (0, 1)), ((2, 3), (3, 4)))
MOTOR = (((0, 1), (1, 2, 3)), ((4, 5), (1, 2, 3)))
"""Columns and rows of the groups on a square grid of six columns."""
PATTERNS = len(SENSORY) * len(MOTOR)
Counts = NDArray[np.float64]


class RoutedTissue:
    """The tissue of an episode, its groups, and what a control changes."""

    def __init__(self, seed: int, control: str | None) -> None:
        self._array = SpikeArray(ELECTRODES, seed)
        if control == "frozen":
            self._array.freeze()
        self._control = control
        self._rng = np.random.default_rng([seed, 0x407])
        usable = self._array.usable()
        self._usable = np.array(usable)
        self.sensory = [_group(place, usable) for place in SENSORY]
        self.motor = [_group(place, usable) for place in MOTOR]
        self.wanted = int(self._rng.integers(2))
        """The motor group that sensory group 0 is to reach; group 1 is to reach the other."""
        self._array.advance(SETTLE_S)

    def probe(self, repeats: int) -> Counts:
        """Probe both sensory groups; return the mean spikes of each motor group, shape (sensory, motor)."""
        answers = np.zeros((len(SENSORY), len(MOTOR)))
        for _ in range(repeats):
            for side, group in enumerate(self.sensory):
                answers[side] += self._answer(group) / repeats
        return answers

    def train(self, pattern: int, repeats: int) -> None:
        """Repeat a pattern: pulses on a sensory group, then on a motor group."""
        sensory, motor = self.sensory[pattern // len(MOTOR)], self.motor[pattern % len(MOTOR)]
        plan = [(PULSE_AT_S, electrode) for electrode in sensory]
        plan += [(PULSE_AT_S + DELAY_S, electrode) for electrode in motor]
        pulse = biphasic(TRAINING_UA)
        for _ in range(repeats):
            if self._control == "random":
                plan = [(at_s, int(self._rng.choice(self._usable))) for at_s, _ in plan]
            self._array.advance(WINDOW_S, [(at_s, electrode, pulse) for at_s, electrode in plan])

    def rest(self, seconds: float) -> None:
        """Let time pass without pulses."""
        self._array.advance(seconds)

    def _answer(self, group: Sequence[int]) -> Counts:
        begin_s, pulse = self._array.now_s, biphasic(PROBE_UA)
        pulses: list[tuple[float, int, Phases]] = [(PULSE_AT_S, electrode, pulse) for electrode in group]
        electrode, at_s = self._array.advance(WINDOW_S, pulses)
        since_s = at_s - begin_s
        seen = electrode[(since_s >= READ_S[0]) & (since_s < READ_S[1])]
        counts = np.bincount(seen, minlength=ELECTRODES).astype(np.float64)
        if self._control == "zero":
            counts[:] = 0.0
        elif self._control == "shuffled":
            counts = self._rng.permutation(counts)
        return np.array([counts[list(motor)].sum() for motor in self.motor])


def contrast(answers: Counts, wanted: int) -> float:
    """Return how much more the wanted motor groups answer than the others: −1 to 1 (0: equally, or not at all)."""
    right = answers[0, wanted] + answers[1, 1 - wanted]
    wrong = answers[0, 1 - wanted] + answers[1, wanted]
    return float((right - wrong) / (right + wrong)) if right + wrong > 0.0 else 0.0


def _group(place: tuple[Sequence[int], Sequence[int]], usable: Sequence[int]) -> list[int]:
    columns, rows = place
    return [each for each in (row * COLUMNS + column for row in rows for column in columns) if each in usable]


def _episode(seed: int, control: str | None, params: Params) -> Episode:
    tissue = RoutedTissue(seed, control)
    before = tissue.probe(params["probes"])
    answers = before
    used = 0
    for number in range(params["rounds"]):
        done = number / params["rounds"]
        action = yield {"state": array([*answers.ravel(), tissue.wanted, done])}
        chosen = int(received(action, "pattern", (1 + PATTERNS,)).argmax())
        if chosen:
            tissue.train(chosen - 1, params["repeats"])
            used += 1
        else:
            tissue.rest(WINDOW_S * params["repeats"])
        answers = tissue.probe(params["glances"])
    tissue.rest(REST_S)
    after = tissue.probe(params["probes"])
    begun, ended = contrast(before, tissue.wanted), contrast(after, tissue.wanted)
    return Scored(ended - begun, {"before": begun, "after": ended, "trained": float(used)})


def _choose(pattern: int) -> Values:
    return {"pattern": array(np.eye(1 + PATTERNS)[pattern])}


def _never(seed: int, params: Params) -> Policy:
    return lambda _: _choose(0)


def _any(seed: int, params: Params) -> Policy:
    rng = np.random.default_rng([seed, 0xA47])
    return lambda _: _choose(int(rng.integers(1 + PATTERNS)))


def _alternate(seed: int, params: Params) -> Policy:
    """Train both ways in turn."""
    turn = 0

    def policy(observation: Values) -> Values:
        nonlocal turn
        wanted, side = int(observation["state"][4]), turn % 2
        turn += 1
        return _choose(1 + side * len(MOTOR) + (wanted if side == 0 else 1 - wanted))

    return policy


ROUTE = BoardTask(
    _episode,
    ("zero", "shuffled", "random", "frozen"),
    {"never": _never, "any": _any, "alternate": _alternate},
)
