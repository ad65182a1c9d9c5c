"""Which samples a rank takes in which step: a pure function, so that a job can be resumed and checked by replay."""

from __future__ import annotations

from functools import lru_cache

import numpy as np


def indices(
    samples: int, *, seed: int, outer: int, local: int, locals_: int, rank: int, ranks: int, batch: int
) -> list[int]:
    """Return the samples of one step of one rank.

    Each epoch is a permutation of all samples by seed and epoch. The ranks take turns in it, so that no sample occurs twice
    in an epoch. What a rank that is absent would have taken is left out in that epoch.

    Args:
        samples: Number of samples.
        seed: Of the order.
        outer: Number of the outer step, from 0.
        local: Number of the local step in it, from 0.
        locals_: Local steps of an outer step.
        rank: Number of the rank, from 0.
        ranks: Highest number of ranks of the job, also while some are absent.
        batch: Samples of one step of a rank.

    Raises:
        ValueError: There are no samples.
    """
    if samples < 1:
        raise ValueError("the split has no samples. Next: name data sets that have some in the manifest")
    first = ((outer * locals_ + local) * ranks + rank) * batch
    places = range(first, first + batch)
    return [int(_permutation(samples, seed, place // samples)[place % samples]) for place in places]


@lru_cache(maxsize=2)
def _permutation(samples: int, seed: int, epoch: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.random.default_rng([seed, epoch]).permutation(samples)
