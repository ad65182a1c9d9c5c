"""Agreement of the scores with the plant's truth over many seeds: rank correlation, calibration, coverage.

Each seed runs every fault of :mod:`choroid.sensitivity.truth`. Samples of one run are not independent, so the
reliability of a figure is its spread over the seeds.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from choroid.common.failure import UserError
from choroid.comparison.comparison import agreement
from choroid.sensitivity.truth import FAULTS, ScreenedFault, against_truth

TOLD = ("score", "of_known")
"""Scores that are compared with the truth: the score itself, and the score of what is known, which the page shows."""


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
        `told`: for each of :data:`TOLD` the agreement of all samples of all seeds and faults
            (:func:`choroid.comparison.comparison.agreement`), and the minimum and maximum rank correlation of a
            seed. `faults`: for each, how often the truth fell, how often the score fell with it, the rank
            correlations, and the share of samples with the truth inside the interval.
    """
    return {
        "told": {name: _of_score([_samples(life, name) for life in lives]) for name in TOLD},
        "faults": {fault: _of_fault([life["faults"][fault] for life in lives]) for fault in lives[0]["faults"]},
    }


def _of_score(by_seed: Sequence[list[dict[str, float]]]) -> dict[str, Any]:
    """Return the agreement of one score over all samples, and the range of its rank correlations by seed."""
    pooled = agreement([sample for one in by_seed for sample in one], "score")
    ranks = [found for one in by_seed if (found := agreement(one, "score")["spearman"]) is not None]
    return pooled | {"spearman_by_seed": [min(ranks), max(ranks)] if ranks else None}


def _of_fault(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the summary of one fault over all seeds."""
    fell = [each for each in found if each["fell"]]
    ranks = [each["ranks"] for each in fell]
    covered = [each["covered"] for each in found]
    return {
        "seeds": len(found),
        "fell": len(fell),
        "agreed": sum(bool(each["agrees"]) for each in fell),
        "ranks": [min(ranks), statistics.median(ranks), max(ranks)] if ranks else None,
        "covered": [min(covered), statistics.fmean(covered)],
    }


def _samples(life: Mapping[str, Any], name: str) -> list[dict[str, float]]:
    """Return one seed's samples in the form of :func:`agreement`; unknown scores are left out."""
    looks = [look for found in life["faults"].values() for look in found["looks"]]
    return [
        {"score": look[name], "low": look["low"], "high": look["high"], "truth": look["true"]}
        for look in looks
        if look[name] is not None
    ]


def as_text(answer: Mapping[str, Any]) -> str:
    """Return the tables as text."""
    lines = [
        f"{answer['rig']}, {answer['seeds']} seed{'s' * (answer['seeds'] != 1)}, {answer['hours']:g} h of each fault"
    ]
    for fault, found in answer["faults"].items():
        ranks = found["ranks"]
        told = (
            "the truth stood" if ranks is None else f"score fell with it in {found['agreed']} of {found['fell']} seeds"
        )
        told += "" if ranks is None else f", rank correlation {ranks[1]:.2f} ({ranks[0]:.2f} to {ranks[2]:.2f})"
        least, mean = found["covered"]
        lines.append(f"{fault:<30}{told}; truth in the interval at {mean:.0%} of looks (worst seed {least:.0%})")
    for name, found in answer["told"].items():
        span = found["spearman_by_seed"]
        seeds = "" if span is None else f", by seed {span[0]:.2f} to {span[1]:.2f}"
        lines.append("")
        lines.append(
            f"{name}, all {found['samples']} looks: rank correlation with the truth {found['spearman']}{seeds}"
        )
        lines.append(f"truth in the interval at {found['truth_in_interval']:.1%} of looks")
        lines += [
            f"  {name} {row['from']:.1f} to {row['to']:.1f}: {row['samples']:>5} looks, mean {row['score']:.3f},"
            f" mean truth {row['truth']:.3f}"
            for row in found["bins"]
        ]
    return "\n".join(lines)
