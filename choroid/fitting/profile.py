"""Profile likelihood: how far each parameter can go while the others make up for it, without the prior of the plant's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from choroid.fitting.posterior import FitProblem, jacobian
from choroid.fitting.series import F8

THRESHOLD = 2.706
"""Rise of the squares at the ends of a 90 % interval: the 90th percentile of chi-square with one degree of freedom."""
EDGE = 3.0
"""Standard deviations of the prior to which a profile is followed; there it counts as open."""
MAX_POINTS, FIRST_STEP, LONGEST_STEP = 12, 0.3, 1.5
RIDGE = 0.03
"""Weak pull of the plant's parameters to the prior's median, so that there is one best fit."""
MAX_TURNS = 30


def profiles(problem: FitProblem, best: F8, plant: Sequence[int]) -> list[tuple[float | None, float | None]]:
    """Return for each of the `plant` parameters the range of its profile (z); None where it is open to that side.

    Instruments and media keep their priors: these are measured. The parameters of the plant have none.
    """
    precision = np.where(np.isin(np.arange(problem.dimensions), plant), 0.0, problem.precision)
    bare = replace(problem, precision=precision)
    start, lowest = _settled(bare, best, None)
    found: list[tuple[float | None, float | None]] = []
    for number in plant:
        low, below = _end(bare, start, lowest, number, -1.0)
        high, above = _end(bare, start, lowest, number, 1.0)
        lowest = min(lowest, below, above)
        found.append((low, high))
    return found


def _end(problem: FitProblem, best: F8, lowest: float, number: int, sign: float) -> tuple[float | None, float]:
    """Return where the profile crosses the threshold on one side, and the lowest cost that was met."""
    z, rise, step, least = best, 0.0, FIRST_STEP, lowest
    along = np.zeros(problem.dimensions)
    for _ in range(MAX_POINTS):
        if sign * z[number] >= EDGE:
            return None, least
        at = sign * min(sign * z[number] + step, EDGE)
        ahead, cost = _settled(problem, z + along * abs(at - z[number]), number, at)
        least = min(least, cost)
        if (now := cost - least) >= THRESHOLD:
            roots = np.sqrt([rise, THRESHOLD, now])  # the squares rise about quadratically
            return float(z[number] + (roots[1] - roots[0]) / (roots[2] - roots[0]) * (at - z[number])), least
        step = min(step * (2.0 if now - rise < 0.25 * THRESHOLD else 1.0), LONGEST_STEP)
        along, z, rise = (ahead - z) / abs(at - z[number]), ahead, max(now, 0.0)
    return None, least


def _settled(problem: FitProblem, z: F8, fixed: int | None, at: float = 0.0) -> tuple[F8, float]:
    """Return the best fit near `z` with one parameter fixed, and its cost."""
    from scipy.optimize import least_squares

    free = np.array([number for number in range(problem.dimensions) if number != fixed])
    roots = np.sqrt(np.maximum(problem.precision[free], RIDGE**2))

    def whole(part: F8) -> F8:
        found = np.full(problem.dimensions, at)
        found[free] = part
        return found

    def residuals(part: F8) -> F8:
        return np.concatenate([problem.residuals(whole(part)[None])[0], roots * part])

    def slope(part: F8) -> F8:
        return np.vstack([jacobian(problem, whole(part))[:, free], np.diag(roots)])

    inside = np.clip(z[free], -0.99 * EDGE, 0.99 * EDGE)
    found = least_squares(residuals, inside, jac=slope, bounds=(-EDGE, EDGE), max_nfev=MAX_TURNS, ftol=1e-4, xtol=1e-4)
    return whole(found.x), 2.0 * float(found.cost)
