"""Does the simulated culture learn, and not its controls? Steering, 20 seeds.

Fixed before the first run of the reported seeds:

* **Task.** Two sensory groups of electrodes receive a probe for a side; the spikes of two motor groups from 10 to 30 ms after
  it are the drive. The score of a round of 30 probes is 1 for the full drive to the right side at each, 0.5 for none, 0 for
  the full drive to the wrong side. It is version 0 of the environment (:class:`SteeringBySide`).
* **Session.** 10 rounds, 30 rounds with a training pattern before each, 10 test rounds without training. Then a rest of 5 min
  and 10 more rounds.
* **Counterbalance.** Each culture plays two sessions from the same state, one for each assignment of the motor groups to the
  sides. The result of an arm is the mean of both. A culture that does not learn has 0.5, whatever it preferred at first and
  however it drifts.
* **Arms.** The plastic tissue with :class:`PatternTrainer`; the same with frozen synapses; with feedback in another order of
  time (shuffled); with training patterns drawn by chance (random); without training (unstimulated); without spikes (zero).
  All arms of a seed begin with the same culture in the same state.
* **Seeds.** 21 to 40, run once. The protocol was tuned with seeds from 101 on.
* **Primary outcome.** Mean score of the 10 test rounds.
* **Statistic.** Mean paired difference between the plastic arm and each control with its bootstrap 95 % interval, Hedges' g
  and Cliff's delta. The tissue has learned if every interval lies above 0.
* **Secondary.** Score before the training, and after the rest, of the plastic arm.

A former protocol scored the cart-pole (docs/environments.md, Former protocols).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import gymnasium
import numpy as np

from choroid.environments.agents import PatternTrainer
from choroid.environments.effect import effect_size
from choroid.environments.environment import ControlArm
from choroid.environments.play import BASELINE, TEST, SteeringBySide

SEEDS = tuple(range(21, 41))
REST_S = 300.0
PHASES = ("before training", "during training", "test", "after a rest of 5 min")
Phases = tuple[float, ...]
"""Mean score of each of PHASES."""


def session(control: ControlArm, seed: int, *, swapped: bool) -> Phases:
    """Play one session; return the mean score of each phase, of the last only for the plastic arm."""
    tissue_game = SteeringBySide(control=control, swapped=swapped)
    assert isinstance(tissue_game.action_space, gymnasium.spaces.Discrete)  # noqa: S101
    agent = PatternTrainer(int(tissue_game.action_space.n), seed)
    observation, _ = tissue_game.reset(seed=seed)
    scores, over = [], False
    while not over:
        action = agent.act(observation)
        observation, reward, _, over, info = tissue_game.step(action)
        agent.learn(action, reward, observation)
        scores.append(float(info["score"]))
    found = [np.mean(scores[:BASELINE]), np.mean(scores[BASELINE:-TEST]), np.mean(scores[-TEST:])]
    if control is ControlArm.NONE:
        tissue_game.tissue.window(REST_S)
        found.append(np.mean([tissue_game.round() for _ in range(TEST)]))
    return tuple(float(score) for score in found)


def arms(seed: int) -> dict[ControlArm, Phases]:
    """Return the mean of the sessions with both assignments, for each arm of one seed."""
    return {control: _counterbalanced(control, seed) for control in (ControlArm.NONE, *SteeringBySide.mandatory)}


def _counterbalanced(control: ControlArm, seed: int) -> Phases:
    both = [session(control, seed, swapped=swapped) for swapped in (False, True)]
    return tuple(float(score) for score in np.mean(both, axis=0))


def bench_learning(seeds: Sequence[int] = SEEDS, workers: int | None = None) -> dict[str, Any]:
    """Play all sessions; return the mean scores of the plastic arm, and the effect size against each control.

    Args:
        seeds: At least two.
        workers: Processes; None means as many as there are CPUs.
    """
    with ProcessPoolExecutor(workers or os.cpu_count(), mp_context=get_context("spawn")) as pool:
        return learning_figures(list(pool.map(arms, seeds)))


def learning_figures(found: Sequence[dict[ControlArm, Phases]]) -> dict[str, Any]:
    """Return the figures of sessions: the arms of each seed."""
    test = PHASES.index("test")
    figures: dict[str, Any] = {"seeds": len(found)}
    for number, phase in enumerate(PHASES):
        figures[f"plastic, {phase}"] = float(np.mean([each[ControlArm.NONE][number] for each in found]))
    plastic = [each[ControlArm.NONE][test] for each in found]
    figures["plastic, every seed"] = " ".join(f"{score:.2f}" for score in plastic)
    for control in SteeringBySide.mandatory:
        scores = [each[control][test] for each in found]
        effect = effect_size(plastic, scores)
        figures[f"{control}, test"] = float(np.mean(scores))
        figures[f"plastic over {control}"] = (
            f"{effect.difference:+.3f} ({effect.low:+.3f} to {effect.high:+.3f}), g {effect.hedges_g:.2f},"
            f" δ {effect.cliffs_delta:+.2f}"
        )
    return figures
