"""Agreement of the scores with the plant's truth over many seeds: rank correlation, calibration, coverage.

Each seed runs every fault of :mod:`verification.sensitivity.truth`. Samples of one run are not independent, so the
reliability of a figure is its spread over the seeds.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from choroid.common.failure import UserError
from verification.comparison.comparison import agreement
from verification.sensitivity.truth import FAULTS, ScreenedFault, against_truth

SCORES = ("viability", "care_rating", "of_known")
"""What is compared with the true viability: its estimate, the care rating, and the rating of what is known."""
INTERVALS = ("viability", "care_rating")
"""Those that have an interval of their own."""


def over_seeds(
    path: Path, *, seeds: int, hours: float, faults: Sequence[ScreenedFault] = FAULTS, progress: bool = True
) -> dict[str, Any]:
    """Run every fault for `hours` on seeds 1 to `seeds`; return their :func:`summary`.

    Raises:
        UserError: Real links, or no seeds.
    """
    if seeds < 1 or not hours > 0:
        raise UserError("the comparison of scores and truth needs --seeds of 1 or more and --hours above 0")
    lives = []
    for seed in range(1, seeds + 1):
        if progress:
            print(f"seed {seed} of {seeds}", file=sys.stderr, flush=True)
        lives.append(against_truth(path, seed=seed, hours=hours, faults=faults, progress=progress))
    return {"rig": lives[0]["rig"], "seeds": seeds, "hours": hours, **summary(lives)}


def summary(lives: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Join the answers of :func:`against_truth`, one per seed.

    Returns:
        `scores`: for each of :data:`SCORES` the agreement of all samples of all seeds and faults
            (:func:`verification.comparison.comparison.agreement`), and the minimum and maximum rank correlation of a
            seed. `faults`: for each, how often the truth fell, how often the score fell with it, the rank
            correlations, and the share of samples with the truth inside the interval.
    """
    return {
        "scores": {name: _of_score(name, [_samples(life, name) for life in lives]) for name in SCORES},
        "faults": {fault: _of_fault([life["faults"][fault] for life in lives]) for fault in lives[0]["faults"]},
    }


def _of_score(name: str, by_seed: Sequence[list[dict[str, float]]]) -> dict[str, Any]:
    """Return the agreement of one score over all samples, and the range of its rank correlations by seed."""
    pooled = agreement([sample for one in by_seed for sample in one], name)
    ranks = [found for one in by_seed if (found := agreement(one, name)["spearman"]) is not None]
    return pooled | {"spearman_by_seed": [min(ranks), max(ranks)] if ranks else None}


def _of_fault(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the summary of one fault over all seeds."""
    fell = [each for each in found if each["viability_true_fell"]]
    answer: dict[str, Any] = {
        "seeds": len(found),
        "viability_true_fell": len(fell),
        "care_rating_fell": sum(bool(each["care_rating_fell"]) for each in fell),
    }
    for score in INTERVALS:
        ranks = [each[f"{score}_spearman"] for each in fell]
        covered = [each[f"{score}_truth_in_interval"] for each in found]
        answer[f"{score}_spearman"] = [min(ranks), statistics.median(ranks), max(ranks)] if ranks else None
        answer[f"{score}_truth_in_interval"] = [min(covered), statistics.fmean(covered)]
    return answer


def _samples(life: Mapping[str, Any], name: str) -> list[dict[str, float]]:
    """Return one seed's samples in the form of :func:`agreement`; unknown scores are left out."""
    looks = [look for found in life["faults"].values() for look in found["looks"] if look[name] is not None]
    if name == "viability":
        return [
            {"low": low, name: value, "high": high, "viability_true": look["viability_true"]}
            for look in looks
            for low, value, high in (look[name],)
        ]
    return [{key: look[key] for key in ("low", "high", "viability_true", name)} for look in looks]


def as_text(answer: Mapping[str, Any]) -> str:
    """Return the tables as text."""
    lines = [
        f"{answer['rig']}, {answer['seeds']} seed{'s' * (answer['seeds'] != 1)}, {answer['hours']:g} h of each fault"
    ]
    for fault, found in answer["faults"].items():
        fell = found["viability_true_fell"]
        told = f"care rating fell with it in {found['care_rating_fell']} of {fell} seeds" if fell else "the truth stood"
        lines.append(f"{fault:<30}{told}")
        for score in INTERVALS:
            ranks, (least, mean) = found[f"{score}_spearman"], found[f"{score}_truth_in_interval"]
            rank = "" if ranks is None else f"rank correlation {ranks[1]:.2f} ({ranks[0]:.2f} to {ranks[2]:.2f}); "
            lines.append(f"  {score:<28}{rank}truth in the interval at {mean:.0%} of looks (worst seed {least:.0%})")
    for name, found in answer["scores"].items():
        span = found["spearman_by_seed"]
        seeds = "" if span is None else f", by seed {span[0]:.2f} to {span[1]:.2f}"
        lines.append("")
        lines.append(
            f"{name}, all {found['samples']} looks: rank correlation with the truth {found['spearman']}{seeds}"
        )
        lines.append(f"truth in the interval at {found['truth_in_interval']:.1%} of looks")
        lines += [
            f"  {name} {row['from']:.1f} to {row['to']:.1f}: {row['samples']:>5} looks, mean {row[name]:.3f},"
            f" mean truth {row['viability_true']:.3f}"
            for row in found["bins"]
        ]
    return "\n".join(lines)
