"""How well a twin that was fitted to the first part of a period predicts the rest, against naive predictors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from choroid.fitting.observations import ANALYTE_COLUMNS, Observation
from choroid.fitting.series import DAY_S, F8

DRAWS = 300
MIN_COVERAGE = 0.6
"""A twin whose 90 % intervals hold less of the metabolites than this does not predict them."""
CHANGES = 2.0
"""Error of the last value, in standard deviations of the assay, from which a metabolite counts as one that changed."""
MIN_VALUES = 5
"""Fewer held-out values of metabolites are not judged: they are within their intervals, or beat the last value, by chance."""
LINE = 5
"""The linear predictor goes through so many of the last values."""


def predicted(
    observations: Sequence[Observation], known: NDArray[np.bool_], courses: F8, total: F8, *, seed: int
) -> dict[str, Any]:
    """Return the errors of the prediction of what is not `known`, by signal.

    Args:
        observations: All observations.
        known: Which of them the fit knew.
        courses: What each would be without errors, by draw of the posterior: shape (draws, observations).
        total: Covariance of their errors.
        seed: Seed of the draws of the errors.
    """
    random = np.random.default_rng([seed, 0x0DD])
    measured = np.array([each.value for each in observations])
    ahead = ~known
    gain = np.linalg.solve(total[np.ix_(known, known)], total[np.ix_(known, ahead)]).T
    left = total[np.ix_(ahead, ahead)] - gain @ total[np.ix_(known, ahead)]
    spread = np.linalg.cholesky(left + 1e-12 * np.eye(len(left)))
    # Shared errors, such as a probe's offset, are known as far as the first part tells them.
    means = courses[:, ahead] + (measured[known] - courses[:, known]) @ gain.T
    draws = means + random.standard_normal(means.shape) @ spread.T
    low, middle, high = np.quantile(draws, (0.05, 0.5, 0.95), axis=0)
    later = [each for each, is_known in zip(observations, known, strict=True) if not is_known]
    earlier = [each for each, is_known in zip(observations, known, strict=True) if is_known]
    signals: dict[str, Any] = {}
    for signal in dict.fromkeys(each.signal for each in later):
        own = np.array([each.signal == signal for each in later])
        truth = np.array([each.value for each in later])[own]
        before = [each for each in earlier if each.signal == signal]
        at = np.array([each.at_s for each in later])[own]
        inside = (low[own] <= truth) & (truth <= high[own])
        signals[signal] = {
            "n": int(own.sum()),
            **_errors(middle[own] - truth, before, at, truth),
            "noise": float(np.sqrt(np.diag(total)[ahead][own].mean())),
            "coverage_90": float(inside.mean()),
            "half_width": float((high - low)[own].mean() / 2.0),
            "points": [
                {"day": round(day / DAY_S, 4), "measured": value, "predicted": mid, "low": bottom, "high": top}
                for day, value, mid, bottom, top in zip(
                    at.tolist(),
                    truth.tolist(),
                    middle[own].tolist(),
                    low[own].tolist(),
                    high[own].tolist(),
                    strict=True,
                )
            ],
        }
    return {"signals": signals} | _verdict(signals, later)


def _errors(missed: F8, before: Sequence[Observation], at_s: F8, truth: F8) -> dict[str, float | None]:
    """Return the errors of the twin and of the naive predictors, and the skill over each: 1 less the share that is left."""
    rmse = _rms(missed)
    naive = {
        "last_value": _rms(before[-1].value - truth) if before else None,
        "linear": _rms(_line(before, at_s) - truth) if len(before) > 1 else None,
    }
    return (
        {"rmse": rmse}
        | {f"rmse_{name}": each for name, each in naive.items()}
        | {f"skill_{name}": None if not each else 1.0 - rmse / each for name, each in naive.items()}
    )


def _verdict(signals: dict[str, Any], later: Sequence[Observation]) -> dict[str, Any]:
    """Return whether the twin predicts: its intervals hold the metabolites, and it beats the last value where they change."""
    metabolic = list(dict.fromkeys(each.signal for each in later if each.column in ANALYTE_COLUMNS.values()))
    counted = [signals[name] for name in metabolic]
    count = sum(each["n"] for each in counted)
    if count == 0:
        return {"predicts": None, "coverage_90": None, "n": 0, "changed": [], "not_beaten": []}
    coverage = sum(each["coverage_90"] * each["n"] for each in counted) / count
    changed = [
        name
        for name in metabolic
        if (naive := signals[name]["rmse_last_value"]) is not None and naive > CHANGES * signals[name]["noise"]
    ]
    lost = [name for name in changed if signals[name]["skill_last_value"] <= 0.0]
    holds = coverage >= MIN_COVERAGE
    return {
        "predicts": None if count < MIN_VALUES or (holds and not changed) else holds and not lost,
        "coverage_90": coverage, "n": count, "changed": changed, "not_beaten": lost,
    }  # fmt: skip


def declining(found: dict[str, Any]) -> dict[str, Any]:
    """Return a prediction of a culture that declines: why is not in the model, so that it is not called one that predicts."""
    return found | {"predicts": False, "declines": True}


def _line(before: Sequence[Observation], at_s: F8) -> F8:
    """Return the straight line through the last values."""
    last = before[-LINE:]
    times = np.array([each.at_s for each in last])
    if np.ptp(times) == 0.0:
        return np.full(len(at_s), last[-1].value)
    slope, start = np.polyfit(times - times[0], [each.value for each in last], 1)
    found: F8 = start + slope * (at_s - times[0])
    return found


def _rms(errors: F8) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))
