"""Power of a plan by simulation: cultures with assumed variation, the test of the plan, how often the effect is found."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from choroid.common.extras import load_extra
from choroid.common.failure import UserError
from choroid.common.progress import counted
from choroid.comparison.evaluation import evaluate
from choroid.comparison.model import MIN_BATCHES
from choroid.comparison.plan import ComparisonPlan, Variation, read_plan

BATCHES, CULTURES = (3, 4, 5, 6, 8, 10, 12, 16), (1, 2, 3, 4, 6)
TRIALS = 4000
AIM = 0.8


def power(
    path: Path,
    *,
    batches: Sequence[int] = BATCHES,
    cultures: Sequence[int] = CULTURES,
    trials: int = TRIALS,
    seed: int = 1,
    nested: bool = False,
    pilot: Path | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """Return the power of a plan for numbers of batches and of cultures per batch and arm.

    Holm's correction tests the smallest probability at alpha over the number of primary comparisons. At this level power is
    that of finding one effect by itself, which Benjamini and Hochberg's correction does not miss either.

    Args:
        path: The plan; primary end points with `power`.
        batches: Numbers of batches (per arm if nested).
        cultures: Numbers of cultures per batch and arm.
        trials: Simulated experiments for each pair.
        seed: Of the simulation.
        nested: Whether a batch has one arm only.
        pilot: Another plan with end points of the same names, whose cultures have been evaluated: batches and cultures vary
            as there.
        progress: Whether to print the progress on standard error.

    Raises:
        UserError: It is no plan, no primary end point has `power`, or the pilot does not tell how its end points vary.
    """
    plan, digest = read_plan(path)
    points = [each for each in plan.end_points if each.role == "primary" and each.power is not None]
    if not points:
        raise UserError(
            f"{path}: no primary end point says what `power` assumes. Next: docs/statistics.md has an example"
        )
    primary = sum(each.role == "primary" for each in plan.end_points) * (len(plan.arms) - 1)
    alpha = plan.alpha / primary
    varied = {} if pilot is None else _varied(pilot)
    found: list[dict[str, Any]] = []
    for point in counted(points, lambda each: each.name) if progress else points:
        assumed = point.power
        assert assumed is not None  # noqa: S101 - by the choice above
        if pilot is not None:
            if point.name not in varied:
                raise UserError(
                    f"{pilot}: it does not tell how {point.name} varies. Next: give it two batches of two cultures"
                )
            batch_sd, culture_sd = varied[point.name]
            assumed = Variation(effect=assumed.effect, batch_sd=batch_sd, culture_sd=culture_sd)
        random = np.random.default_rng((seed, 31, len(found)))
        grid = [_cell(plan, assumed, random, b, c, trials, alpha, nested=nested) for b in batches for c in cultures]
        reached = [each for each in grid if each["power"] >= AIM]
        least = min(reached, key=lambda each: (each["batches"] * each["cultures"], each["batches"]), default=None)
        found.append({"end_point": point.name, "assumed": assumed.model_dump(), "grid": grid, "least": least})
    return {
        "plan": plan.name,
        "plan_sha256": digest,
        "alpha": alpha,
        "comparisons": primary,
        "design": "nested" if nested else "crossed",
        "trials": trials,
        "seed": seed,
        "aim": AIM,
        "end_points": found,
    }


def rejected(values: np.ndarray[Any, Any], alpha: float, *, nested: bool, interaction: bool) -> np.ndarray[Any, Any]:
    """Return in which trials the effect is found; `values` of two arms: trial, arm, batch, culture.

    For balanced data the mixed model's t is that of the analysis of variance, which is computed here. The model is singular
    where batches vary no more than cultures within them do; then, and where batches are few, the means of batches are tested.
    """
    stats: Any = load_extra("scipy.stats", "stats", needed_for="power", otherwise="compute it by other means")
    trials, arms, batches, cultures = values.shape
    means = values.mean(axis=3)
    difference = means[:, 1].mean(axis=1) - means[:, 0].mean(axis=1)
    if nested:
        of_arm = means.var(axis=2, ddof=1)
        error = np.sqrt(of_arm.sum(axis=1) / batches)
        df = _welch(of_arm, batches)
        if 2 * batches >= MIN_BATCHES and cultures > 1:
            within = values.var(axis=3, ddof=1).mean(axis=(1, 2))
            df = np.where(cultures * of_arm.mean(axis=1) <= within, df, 2.0 * (batches - 1))
    else:
        error = (means[:, 1] - means[:, 0]).std(axis=1, ddof=1) / sqrt(batches)
        df = np.full(trials, batches - 1.0)
        if batches >= MIN_BATCHES and not interaction:
            fitted = values.mean(axis=(2, 3), keepdims=True) + values.mean(axis=(1, 3), keepdims=True)
            residual = values - fitted + values.mean(axis=(1, 2, 3), keepdims=True)
            left = float(arms * batches * cultures - batches - 1)
            within = (residual**2).sum(axis=(1, 2, 3)) / left
            size = arms * cultures
            singular = size * values.mean(axis=(1, 3)).var(axis=1, ddof=1) <= within
            error = np.where(singular, error, np.sqrt(within * 2.0 / (batches * cultures)))
            df = np.where(singular, df, left)
    found: np.ndarray[Any, Any] = np.abs(difference) > stats.t.ppf(1.0 - alpha / 2.0, df) * error
    return found


def _welch(of_arm: np.ndarray[Any, Any], batches: int) -> np.ndarray[Any, Any]:
    """Return the degrees of freedom by Welch from the variances of the means of batches: trial, arm."""
    found: np.ndarray[Any, Any] = (batches - 1) * of_arm.sum(axis=1) ** 2 / np.maximum((of_arm**2).sum(axis=1), 1e-300)
    return found


def simulated(
    random: np.random.Generator, assumed: Variation, shape: tuple[int, int, int], *, effect: float, nested: bool
) -> np.ndarray[Any, Any]:
    """Return values of two arms: trial, arm, batch, culture."""
    trials, batches, cultures = shape
    of_batch = random.normal(0.0, assumed.batch_sd, (trials, 2 if nested else 1, batches, 1))
    values = of_batch + random.normal(0.0, assumed.within_sd, (trials, 2, batches, cultures))
    values[:, 1] += effect
    return values


def as_text(answer: dict[str, Any]) -> str:
    """Return the power for people: batches by row, cultures per batch and arm by column."""
    lines = [
        f"{answer['plan']}: power at alpha {answer['alpha']:.4g} ({answer['comparisons']} primary comparisons), design"
        f" {answer['design']}, {answer['trials']} trials each; ± is the 95 % error of the simulation"
    ]
    for point in answer["end_points"]:
        assumed = point["assumed"]
        lines.append(
            f"{point['end_point']}: effect {assumed['effect']:g}, sd of batches {assumed['batch_sd']:g}, of cultures"
            f" {assumed['culture_sd']:g}, of a value {assumed['measurement_sd']:g}"
        )
        columns = sorted({each["cultures"] for each in point["grid"]})
        lines.append("  batches  " + "".join(f"{f'{count} per arm':>15}" for count in columns))
        for batches in sorted({each["batches"] for each in point["grid"]}):
            row = [each for each in point["grid"] if each["batches"] == batches]
            cells = "".join(f"{each['power']:>8.2f} ± {each['error']:.3f}" for each in row)
            lines.append(f"  {batches:>7}  {cells}")
        least = point["least"]
        lines.append(
            f"  none reaches {answer['aim']:.0%}"
            if least is None
            else f"  fewest cultures for {answer['aim']:.0%}: {least['batches']} batches × {least['cultures']} per arm"
        )
    return "\n".join(lines)


def _varied(pilot: Path) -> dict[str, tuple[float, float]]:
    """Return the standard deviations between batches and between cultures of each end point of a pilot."""
    found = evaluate(pilot)["results"]
    return {
        each["end_point"]: (each["batch_sd"], each["culture_sd"])
        for each in reversed(found)
        if each["batch_sd"] is not None and each["culture_sd"]
    }


def _cell(
    plan: ComparisonPlan,
    assumed: Variation,
    random: np.random.Generator,
    batches: int,
    cultures: int,
    trials: int,
    alpha: float,
    *,
    nested: bool,
) -> dict[str, Any]:
    values = simulated(random, assumed, (trials, batches, cultures), effect=assumed.effect, nested=nested)
    share = float(rejected(values, alpha, nested=nested, interaction="arm by batch" in plan.random).mean())
    return {
        "batches": batches,
        "cultures": cultures,
        "power": share,
        "error": 1.96 * sqrt(max(share * (1.0 - share), 1.0 / trials) / trials),
    }
