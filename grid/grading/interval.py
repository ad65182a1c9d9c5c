"""The interval of a mean paired difference: whether a score is above that of a control on the same seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from scipy.special import stdtrit


@dataclass(frozen=True, slots=True)
class PairedInterval:
    """The mean difference of pairs, with the ends of its interval (Student's t)."""

    difference: float
    low: float
    high: float


def paired_interval(scores: Sequence[float], control: Sequence[float], confidence: float) -> PairedInterval:
    """Compare two groups of scores, pair by pair.

    Args:
        scores: Of the first group, one for each seed.
        control: Of the second group, for the same seeds in the same order.
        confidence: Of the interval, 0 to 1: of a 90 % interval, 5 % are below its lower end.

    Returns:
        The interval; without ends (−∞ to ∞) for a single pair.
    """
    pairs = [one - other for one, other in zip(scores, control, strict=True)]
    mean = fmean(pairs)
    if len(pairs) < 2:
        return PairedInterval(mean, -math.inf, math.inf)
    quantile = float(stdtrit(len(pairs) - 1, 0.5 + confidence / 2.0))
    half = quantile * stdev(pairs) / math.sqrt(len(pairs))
    return PairedInterval(mean, mean - half, mean + half)
