"""Whether an image can be used: the judgement of one frame, with its features."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import pi

import numpy as np

from controller.imaging.bubbles import FoundBubble, find_bubble
from controller.imaging.features import Features, features_of
from controller.imaging.field import Greys, optical_density
from controller.imaging.segmentation import Mask, at_border, find_tissue

ANALYSIS_VERSION = 2
MIN_DIAMETER_UM = 200.0
"""Smaller objects are debris."""
MAX_RIM_UM = 41.0
"""With a wider rim the area is uncertain by more than about a tenth at a diameter of 1 mm."""
MIN_LEVEL, MAX_LEVEL, MAX_SATURATED = 0.1, 0.95, 0.01
SEVERAL_SHARE = 0.2
"""Another object of this share of the tissue's area counts as tissue."""


class Defect(StrEnum):
    """Names the reason why an image is not used."""

    DARK = "dark"
    OVEREXPOSED = "overexposed"
    EMPTY = "empty"
    CUT_OFF = "cut_off"
    BUBBLE = "bubble"
    OUT_OF_FOCUS = "out_of_focus"


@dataclass(frozen=True, slots=True)
class Analysis:
    """Holds the result of the analysis of one image."""

    defects: tuple[Defect, ...]
    """Empty for an image that can be used."""
    features: Features | None
    """None where there is no tissue; with defects they are for people to look at."""
    objects: int = 0
    """Number of objects of the tissue's kind."""
    bubble_away: bool = False
    """Whether a bubble lies in the field, away from the tissue."""
    tissue: Mask | None = None

    @property
    def usable(self) -> bool:
        """Whether the features may be used."""
        return not self.defects and self.features is not None


def analyse(image: Greys, bits: int, pixel_um: float) -> Analysis:
    """Judge an image and measure the tissue in it.

    Args:
        image: Grey levels of a brightfield image, shape (rows, columns).
        bits: Bits of the sensor's range.
        pixel_um: Length of a pixel in the plane of the tissue.
    """
    field = optical_density(image, bits)
    if field.level < MIN_LEVEL:
        return Analysis((Defect.DARK,), None)
    if field.saturated > MAX_SATURATED or field.level > MAX_LEVEL:
        return Analysis((Defect.OVEREXPOSED,), None)
    found = find_tissue(field, pi / 4 * (MIN_DIAMETER_UM / pixel_um) ** 2)
    bubble = find_bubble(field.density)
    if found.tissue is None:
        return Analysis((Defect.EMPTY,), None, bubble_away=bubble is not None)
    features = features_of(field.density, found.tissue, pixel_um)
    touched = bubble is not None and _touches(bubble, found.tissue)
    others = sum(area >= SEVERAL_SHARE * found.tissue.sum() for area in found.others_px)
    defects = [
        defect
        for defect, true in (
            (Defect.CUT_OFF, at_border(found.tissue)),
            (Defect.BUBBLE, touched),
            (Defect.OUT_OF_FOCUS, features.rim_width_um > MAX_RIM_UM),
        )
        if true
    ]
    return Analysis(tuple(defects), features, 1 + others, bubble is not None and not touched, found.tissue)


def _touches(bubble: FoundBubble, tissue: Mask) -> bool:
    rows, columns = np.nonzero(tissue)
    nearest = np.min(np.hypot(rows + 0.5 - bubble.row, columns + 0.5 - bubble.column))
    return bool(nearest < 1.1 * bubble.radius)
