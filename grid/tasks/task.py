"""What a task of a board is: a generator that yields observations, receives actions and returns a score."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = Mapping[str, NDArray[np.float32]]
Params = Mapping[str, Any]
Policy = Callable[[Values], Values]
"""A baseline: from an observation to an action."""


class TaskError(Exception):
    """A request that this task cannot serve."""


@dataclass(frozen=True, slots=True)
class Scored:
    """The score of an episode, greater is better, and the figures behind it."""

    value: float
    figures: Mapping[str, float] = field(default_factory=dict)


Episode = Generator[Values, Values, Scored]


@dataclass(frozen=True, slots=True)
class BoardTask:
    """One task; boards call it by its name.

    `episode(seed, control, params)` is the generator; `baselines` make a policy from seed and params; `data(seed, params)`
    returns inputs and targets for training where a task has such (arrays by name).
    """

    name: str
    episode: Callable[[int, str | None, Params], Episode]
    controls: tuple[str, ...]
    baselines: Mapping[str, Callable[[int, Params], Policy]]
    data: Callable[[int, Params], Values] | None = None


def play(episode: Episode, policy: Policy) -> Scored:
    """Play an episode to its end with a policy."""
    try:
        observation = next(episode)
        while True:
            observation = episode.send(policy(observation))
    except StopIteration as end:
        scored: Scored = end.value
        return scored


def array(value: Any) -> NDArray[np.float32]:
    """Return `value` as an array of float32."""
    return np.asarray(value, np.float32)


def received(action: Values, name: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return a tensor of an action. Raises :class:`TaskError` when it is missing, of another shape, or not finite."""
    given = action.get(name)
    if given is None or given.shape != shape:
        found = "is missing" if given is None else f"has the shape {given.shape}"
        raise TaskError(f"the action's tensor “{name}” {found}; it needs {shape}")
    if not np.isfinite(given).all():
        raise TaskError(f"the action's tensor “{name}” is not finite; no score is given to NaN or infinity")
    return given.astype(np.float64)
