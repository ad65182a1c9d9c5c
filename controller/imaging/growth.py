"""The growth of tissue over a series of images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

from scipy.stats import theilslopes

MIN_IMAGES = 3
MIN_SPAN_D = 0.5
MIN_APART_D = 1 / 48
"""Of two images closer together than this, the newer one counts: their difference is error, and by the day it is huge."""
CONFIDENCE = 0.9


@dataclass(frozen=True, slots=True)
class Growth:
    """Relative change of the projected area per day, with its 90 % interval."""

    per_day: float
    low: float
    high: float
    images: int
    span_d: float


def growth_of(days: Sequence[float], areas_mm2: Sequence[float]) -> Growth | None:
    """Return the growth rate, or None for fewer than three images or less than half a day.

    The slope of the logarithm of the area is the median over all pairs of images (Theil–Sen), so that a few wrong areas do
    not change it.

    Args:
        days: Time of each usable image (d).
        areas_mm2: Area of the tissue in it, greater than 0.
    """
    kept: list[tuple[float, float]] = []
    for day, area in sorted(zip(days, areas_mm2, strict=True), reverse=True):
        if not kept or kept[-1][0] - day >= MIN_APART_D:
            kept.append((day, area))
    if len(kept) < MIN_IMAGES or (span_d := kept[0][0] - kept[-1][0]) < MIN_SPAN_D:
        return None
    slope, _, low, high = theilslopes([log(area) for _, area in kept], [day for day, _ in kept], CONFIDENCE)
    return Growth(exp(slope) - 1, exp(low) - 1, exp(high) - 1, len(kept), span_d)
