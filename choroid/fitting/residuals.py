"""What a fit leaves unexplained, by signal: size, runs and trend of the whitened residuals.

Under a model that is right they are independent with standard deviation 1, so that each signal is judged by itself: many
readings of one probe cannot hide that the assays do not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from choroid.fitting.observations import Observation
from choroid.fitting.series import DAY_S, F8

DOUBT = 0.01
"""Probability from which a pattern is reported, over all signals together."""
MISFIT = 0.001
"""Probability of so large a misfit from which the model does not describe the data, over all signals together."""
MIN_VALUES = 6
"""For a test of runs or of a trend."""


def residual_tests(observations: Sequence[Observation], whitened: F8) -> dict[str, dict[str, Any]]:
    """Return for each signal: number of values, misfit, runs of one sign, trend, and the probabilities of as much by chance.

    Args:
        observations: In order of time.
        whitened: Their whitened residuals, predicted minus measured.
    """
    from scipy.stats import chi2, norm

    found: dict[str, dict[str, Any]] = {}
    for signal in dict.fromkeys(each.signal for each in observations):
        own = np.array([each.signal == signal for each in observations])
        left = whitened[own]
        days = np.array([each.at_s for each in observations])[own] / DAY_S
        squares = float((left**2).sum())
        p_runs = p_trend = 1.0
        if len(left) >= MIN_VALUES and np.ptp(days) > 0.0:
            p_runs = _few_runs(left)
            centred = days - days.mean()
            slope = float(centred @ left) / float(np.sqrt(centred @ centred))
            p_trend = 2.0 * float(norm.sf(abs(slope)))
        found[signal] = {
            "n": len(left), "misfit": squares / len(left), "p_misfit": float(chi2.sf(squares, len(left))),
            "p_runs": p_runs, "p_trend": p_trend,
        }  # fmt: skip
    return found


def described(found: dict[str, dict[str, Any]]) -> bool:
    """Return whether the errors explain what is left of every signal: its size, its runs and its trend."""
    limit = MISFIT / (3 * max(len(found), 1))
    return all(min(each["p_misfit"], each["p_runs"], each["p_trend"]) > limit for each in found.values())


def doubts(found: dict[str, dict[str, Any]]) -> list[str]:
    """Return a sentence for each signal whose residuals have a pattern."""
    limit = DOUBT / max(2 * len(found), 1)
    return [
        f"{signal}: the model stays on one side of the values for days (probability by chance"
        f" {min(each['p_runs'], each['p_trend']):.1g}). Likely cause: the culture changes in a way that the model does not"
        " have, such as dying or a harmful medium, or a probe drifts"
        for signal, each in found.items()
        if min(each["p_runs"], each["p_trend"]) < limit
    ]


def _few_runs(left: F8) -> float:
    """Return the probability of so few runs of one sign, by Wald and Wolfowitz' normal approximation."""
    from scipy.stats import norm

    above = left > 0.0
    high = int(above.sum())
    low = len(left) - high
    if high == 0 or low == 0:
        return float(2.0 * 0.5 ** len(left))
    runs = 1 + int((above[1:] != above[:-1]).sum())
    both = high + low
    mean = 1.0 + 2.0 * high * low / both
    variance = (mean - 1.0) * (mean - 2.0) / (both - 1.0)
    return float(norm.cdf((runs + 0.5 - mean) / np.sqrt(max(variance, 1e-9))))
