"""`choroid verify bench hard_imaging`: is what is accepted the tissue? Images of :mod:`verification.bench.hard_images`.

The analysis gets grey levels, bits and the length of a pixel, and no history: an image with two organoids has to be refused.
Of shares the figures have counts and the exact 95 % interval (Clopper–Pearson).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np

from choroid.common.workers import workers
from controller.imaging.quality import analyse
from verification.bench.hard_images import CONDITIONS, HardImage, hard_image

SEEDS = range(6001, 6041)
"""None of them was looked at when the analysis was made."""
MIN_IOU = 0.5


@dataclass(frozen=True, slots=True)
class HardJudged:
    """One image: whether it can be used, and what the analysis made of it."""

    condition: str
    usable: bool
    accepted: bool
    iou: float
    """Intersection over union of true and found tissue."""
    area_error: float
    """Found over true area, minus 1; 0 without tissue."""
    cpu_s: float


def bench_hard_imaging(seeds: Sequence[int] = SEEDS, jobs: int | None = None) -> dict[str, Any]:
    """Judge one image of each condition for each seed; return errors and rates.

    Args:
        seeds: One image of each condition each.
        jobs: Processes; None means as many as there are CPUs.
    """
    if jobs == 1:
        every = [_seed(seed) for seed in seeds]
    else:
        with workers(jobs or os.cpu_count() or 1) as pool:
            every = list(pool.map(_seed, seeds))
    return hard_figures([one for each in every for one in each])


def hard_judged(condition: str, seed: int, spoil: Callable[[HardImage], HardImage] = lambda image: image) -> HardJudged:
    """Draw one image and analyse it; `spoil` changes the truth, to see that the judge notices."""
    image = spoil(hard_image(condition, seed))
    began = process_time()
    analysis = analyse(image.grey, image.bits, image.pixel_um)
    cpu_s = process_time() - began
    found = np.zeros_like(image.mask) if analysis.tissue is None else analysis.tissue
    iou = float((found & image.mask).sum() / max(int((found | image.mask).sum()), 1))
    error = float(found.sum() / image.mask.sum() - 1) if image.mask.any() else 0.0
    return HardJudged(condition, image.usable, analysis.usable, iou, error, cpu_s)


def hard_figures(rows: Sequence[HardJudged]) -> dict[str, Any]:
    """Return the figures of judged images."""
    usable, unusable = ([one for one in rows if one.usable is kind] for kind in (True, False))
    accepted = [one for one in rows if one.accepted]
    errors = [100 * abs(one.area_error) for one in accepted if one.usable] or [float("nan")]
    found: dict[str, Any] = {
        "images": len(rows),
        "area_error_median_pct": float(np.median(errors)),
        "area_error_p95_pct (goal 3)": float(np.quantile(errors, 0.95)),
        "area_error_max_pct": max(errors),
        "unusable refused (goal 95 %)": share(not one.accepted for one in unusable),
        "accepted with IoU below 0.5 (goal 1 %)": share(one.iou < MIN_IOU for one in accepted),
        "usable refused": share(not one.accepted for one in usable),
        "processor time per image (ms)": 1e3 * float(np.mean([one.cpu_s for one in rows])),
    }
    for condition in dict.fromkeys(one.condition for one in rows):
        of = [one for one in rows if one.condition == condition]
        kind = "usable" if of[0].usable else "unusable"
        found[f"{kind}: {condition}"] = f"accepted {sum(one.accepted for one in of)} of {len(of)}" + _worst(of)
    return found


def share(true: Iterable[bool]) -> str:
    """Return a share in words: per cent, counts, and the exact 95 % interval."""
    every = list(true)
    if not every:
        return "none"
    from scipy.stats import binomtest

    ends = binomtest(sum(every), len(every)).proportion_ci(0.95)
    low, high = 100 * ends.low, 100 * ends.high
    return f"{100 * sum(every) / len(every):.1f} % ({sum(every)} of {len(every)}; {low:.1f} to {high:.1f} %)"


def _seed(seed: int) -> list[HardJudged]:
    return [hard_judged(condition, seed) for condition in CONDITIONS]


def _worst(of: Sequence[HardJudged]) -> str:
    errors = [100 * abs(one.area_error) for one in of if one.accepted and one.usable]
    return f", error of the area at most {max(errors):.1f} %" if errors else ""
