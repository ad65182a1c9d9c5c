"""Compare an agent with the controls of an environment: effect sizes with intervals, and whether the result is void."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import gymnasium
import numpy as np

from choroid.environments.effect import EffectSize, effect_size
from choroid.environments.environment import ControlArm, Observation, TissueEnvironment


class Agent(Protocol):
    """What chooses the actions of one episode."""

    def act(self, observation: Observation) -> int:
        """Return the action for what is seen."""
        ...

    def learn(self, action: int, reward: float, observation: Observation) -> None:
        """Learn from the reward of an action and from what is seen after it."""
        ...


MakeAgent = Callable[[int, int], Agent]
"""Makes the agent of an episode: (number of actions, seed)."""


@dataclass(frozen=True, slots=True)
class ControlComparison:
    """The scores of an agent and of the controls, one for each seed, and the effect size against each control."""

    environment: str
    seeds: tuple[int, ...]
    scores: Mapping[ControlArm, tuple[float, ...]]
    effects: Mapping[ControlArm, EffectSize]
    mandatory: tuple[ControlArm, ...]

    @property
    def reached_by(self) -> tuple[ControlArm, ...]:
        """Return the mandatory controls that the agent does not beat: the interval of the difference reaches 0."""
        return tuple(control for control in self.mandatory if not self.effects[control].is_beaten)

    @property
    def is_void(self) -> bool:
        """Return whether the result says nothing, because a control reaches the score."""
        return bool(self.reached_by)

    def as_text(self) -> str:
        """Return the comparison as a table, one line for each control."""
        mean = {control: float(np.mean(scores)) for control, scores in self.scores.items()}
        lines = [f"{self.environment}, {len(self.seeds)} seeds: score {mean[ControlArm.NONE]:.3g}"]
        for control, effect in self.effects.items():
            lines.append(
                f"  {control:<13} score {mean[control]:.3g}, difference {effect.difference:+.3g}"
                f" ({effect.low:+.3g} to {effect.high:+.3g}), g {effect.hedges_g:.2f}, δ {effect.cliffs_delta:+.2f}"
                f"{'' if control in self.mandatory else ' (reported)'}"
            )
        lines.append(
            f"  void: {', '.join(self.reached_by)} reach the score" if self.is_void else "  every control is beaten"
        )
        return "\n".join(lines)


def episode_score(environment: gymnasium.Env[Observation, np.int64], make_agent: MakeAgent, seed: int) -> float:
    """Let a new agent play one episode; return the mean score of the steps that count.

    Args:
        environment: One of Choroid's.
        make_agent: Makes the agent.
        seed: Of the episode and of the agent.
    """
    space = environment.action_space
    assert isinstance(space, gymnasium.spaces.Discrete)  # noqa: S101  (all of them are)
    agent = make_agent(int(space.n), seed)
    observation, _ = environment.reset(seed=seed)
    scores: list[float] = []
    over = False
    while not over:
        action = agent.act(observation)
        observation, reward, ended, truncated, info = environment.step(np.int64(action))
        agent.learn(action, float(reward), observation)
        if info["scored"]:
            scores.append(float(info["score"]))
        over = ended or truncated
    return float(np.mean(scores))


def compare_with_controls(
    environment: str,
    make_agent: MakeAgent,
    seeds: Iterable[int],
    *,
    controls: Sequence[ControlArm] | None = None,
    **options: Any,
) -> ControlComparison:
    """Let an agent play one episode for each seed, with the plastic tissue and with each control.

    Args:
        environment: Its registered name, such as `choroid/TargetRate-v0`.
        make_agent: Makes the agent of an episode.
        seeds: Of the episodes; at least two.
        controls: Which; None means the mandatory and the reported ones. A result without all mandatory ones is none.
        options: Arguments of the environment.

    Raises:
        ValueError: There are fewer than two seeds, or a mandatory control is left out.
    """
    numbers = tuple(seeds)
    first = gymnasium.make(environment, **options).unwrapped
    if not isinstance(first, TissueEnvironment):
        raise ValueError(f"{environment} is not an environment on tissue")
    wanted = tuple(controls) if controls is not None else (*first.mandatory, *first.reported)
    missing = [control for control in first.mandatory if control not in wanted]
    if missing:
        raise ValueError(f"{environment}: the control {', '.join(missing)} is mandatory")
    arms = {control: gymnasium.make(environment, control=control, **options) for control in (ControlArm.NONE, *wanted)}
    scores: dict[ControlArm, list[float]] = {control: [] for control in arms}
    for seed in numbers:
        for control, arm in arms.items():
            scores[control].append(episode_score(arm, make_agent, seed))
    for arm in arms.values():
        arm.close()
    effects = {control: effect_size(scores[ControlArm.NONE], scores[control]) for control in wanted}
    return ControlComparison(environment, numbers, {c: tuple(s) for c, s in scores.items()}, effects, first.mandatory)
