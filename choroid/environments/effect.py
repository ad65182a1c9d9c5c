"""The size of an effect between two paired groups of scores, with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 10_000
INTERVAL = (2.5, 97.5)


@dataclass(frozen=True, slots=True)
class EffectSize:
    """How much the scores of one group are above those of another of the same seeds.

    Attributes:
        difference: Mean difference of the pairs.
        low: Lower end of its 95 % interval (bootstrap over pairs, percentiles).
        high: Upper end.
        hedges_g: Mean difference over the pooled standard deviation, corrected for small groups (Hedges 1981).
        cliffs_delta: Chance that a score of the first group is above one of the second, minus that of the opposite (Cliff
            1993); −1 to 1.
    """

    difference: float
    low: float
    high: float
    hedges_g: float
    cliffs_delta: float

    @property
    def is_beaten(self) -> bool:
        """Return whether the first group is above the second: the interval lies above 0."""
        return self.low > 0.0


def effect_size(scores: Sequence[float], control: Sequence[float]) -> EffectSize:
    """Compare the scores of two groups, pair by pair.

    Args:
        scores: Of the first group, one for each seed.
        control: Of the second group, for the same seeds in the same order.

    Raises:
        ValueError: There are fewer than two pairs, or the groups differ in length.
    """
    ones, others = np.asarray(scores, np.float64), np.asarray(control, np.float64)
    if len(ones) != len(others) or len(ones) < 2:
        raise ValueError(f"an effect size needs at least two pairs; there are {len(ones)} and {len(others)} scores")
    pairs = ones - others
    drawn = np.random.default_rng(0).integers(len(pairs), size=(RESAMPLES, len(pairs)))
    low, high = np.percentile(pairs[drawn].mean(axis=1), INTERVAL)
    pooled = np.sqrt((ones.var(ddof=1) + others.var(ddof=1)) / 2.0)
    correction = 1.0 - 3.0 / (8.0 * len(ones) - 9.0)
    g = (
        correction * pairs.mean() / pooled
        if pooled > 0.0
        else float(np.sign(pairs.mean()) * np.inf if pairs.any() else 0.0)
    )
    delta = np.sign(ones[:, None] - others[None, :]).mean()
    return EffectSize(float(pairs.mean()), float(low), float(high), float(g), float(delta))
