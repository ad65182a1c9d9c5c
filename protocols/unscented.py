"""The unscented Kalman filter: means and covariances propagated through any function by a few chosen points.

Julier & Uhlmann 2004 (Proc. IEEE 92:401), in the symmetric set with equal weights and no centre, which is the
third-degree cubature rule of Arasaratnam & Haykin 2009 (IEEE Trans. Autom. Control 54:1254): 2·n points √n standard
deviations from the mean. All weights are positive, so a predicted covariance is never indefinite, and there is
nothing to tune. Pure and deterministic.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Belief = tuple[Array, Array]
"""Mean, shape (n,), and covariance, shape (n, n)."""


def points(mean: Array, covariance: Array, min_sd: Array) -> Array:
    """Return the sigma points, shape (2·n, n); `min_sd` (n,) is added to each deviation, so that certain states
    have points too.
    """
    root = np.linalg.cholesky(covariance + np.diag(min_sd**2))
    spread = math.sqrt(mean.size) * root.T
    return np.concatenate((mean + spread, mean - spread))


def moments(cloud: Array) -> Belief:
    """Return mean and covariance of sigma points, shape (m, n)."""
    mean: Array = cloud.mean(axis=0)
    off = cloud - mean
    return mean, off.T @ off / cloud.shape[0]


def predicted(belief: Belief, min_sd: Array, step: Callable[[Array], Array]) -> Belief:
    """Return a belief after `step`, which maps sigma points (2·n, n); the caller adds process noise."""
    return moments(step(points(*belief, min_sd)))


def linear_map(belief: Belief, matrix: Array) -> Belief:
    """Return a belief after a linear map (n, n), exactly."""
    mean, covariance = belief
    return matrix @ mean, _symmetric(matrix @ covariance @ matrix.T)


def measured(belief: Belief, look: Array, seen: float, sd: float) -> Belief:
    """Return the belief corrected by one reading of a linear combination `look` (n,): Kalman's update in Joseph's
    form, which is numerically robust.
    """
    mean, covariance = belief
    cross = covariance @ look
    gain = cross / (float(look @ cross) + sd * sd)
    rest = np.eye(mean.size) - np.outer(gain, look)
    after = rest @ covariance @ rest.T + np.outer(gain, gain) * sd * sd
    return mean + gain * (seen - float(look @ mean)), _symmetric(after)


def _symmetric(covariance: Array) -> Array:
    half: Array = (covariance + covariance.T) / 2.0
    return half
