"""Whether an image can be used: the judgement of one frame, with its features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import hypot, log, pi, sqrt

import numpy as np

from controller.imaging.bubbles import FoundBubble, find_bubble
from controller.imaging.features import Features, features_of
from controller.imaging.field import Greys, optical_density
from controller.imaging.outlines import MIN_STEP, Mask
from controller.imaging.segmentation import FoundObject, at_border, find_tissue

ANALYSIS_VERSION = 3
MIN_DIAMETER_UM = 250.0
"""Smaller objects are debris."""
MAX_RIM_UM = 41.0
"""With a wider rim the area is uncertain by more than about a tenth at a diameter of 1 mm."""
MIN_LEVEL, MAX_LEVEL, MAX_SATURATED = 0.1, 0.95, 0.01
SEVERAL_SHARE = 0.2
"""Another object of this share of the tissue's area counts as tissue."""

LIKE_AREA, MAX_AWAY, MAX_UNLIKE, CLEARLY = 0.15, 2.0, 3.0, 1.0
"""An object is unlike the known tissue by the difference of the logarithms of area over the first, plus its way in lengths of
the tissue, at most the second; the tissue is certain below the third if each other object is more unlike by the last."""


class Defect(StrEnum):
    """Names the reason why an image is not used."""

    DARK = "dark"
    OVEREXPOSED = "overexposed"
    EMPTY = "empty"
    NO_TISSUE = "no_tissue"
    """What is there has not the outline of tissue: a cloud in the medium, gel, debris, drops."""
    SEVERAL = "several_objects"
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
    """Number of objects with the outline of tissue, of a fifth of the tissue's area or more."""
    left_out: tuple[float, ...] = ()
    """Areas of those that are not measured (mm²), largest first."""
    bubble_away: bool = False
    """Whether a bubble lies in the field, away from the tissue."""
    tissue: Mask | None = None

    @property
    def usable(self) -> bool:
        """Whether the features may be used."""
        return not self.defects and self.features is not None


@dataclass(frozen=True, slots=True)
class Known:
    """What earlier images say of the tissue, to find it again among several objects."""

    area_mm2: float
    place_mm: tuple[float, float] | None = None
    """Its last place: x and y from the left upper corner of the image."""


def analyse(image: Greys, bits: int, pixel_um: float, *, known: Known | None = None, expected: int = 1) -> Analysis:
    """Judge an image and measure the tissue in it.

    Args:
        image: Grey levels of a brightfield image, shape (rows, columns).
        bits: Bits of the sensor's range.
        pixel_um: Length of a pixel in the plane of the tissue.
        known: The tissue in earlier images. Without it the largest object is measured.
        expected: Number of organoids in the chamber; more objects than that are a defect, unless `known` tells them apart.
    """
    field = optical_density(image, bits)
    if field.level < MIN_LEVEL:
        return Analysis((Defect.DARK,), None)
    if field.saturated > MAX_SATURATED or field.level > MAX_LEVEL:
        return Analysis((Defect.OVEREXPOSED,), None)
    objects = find_tissue(field, pi / 4 * (MIN_DIAMETER_UM / pixel_um) ** 2, pixel_um)
    bubble = find_bubble(field.density)
    if not objects:
        return Analysis((Defect.EMPTY,), None, bubble_away=bubble is not None)
    objects = [each for each in objects if each.area_px >= SEVERAL_SHARE * objects[0].area_px]
    found, certain = objects[0], len(objects) <= expected
    if known is not None and len(objects) > 1:
        found, certain = _known_among(objects, known, pixel_um, certain)
    outline, tissue = found.outline, found.mask
    features = features_of(field.density, tissue, pixel_um)
    touched = bubble is not None and _touches(bubble, tissue if found.within is None else tissue | found.within)
    soft = outline.is_soft_tissue
    defects = tuple(
        defect
        for defect, true in (
            (Defect.CUT_OFF, at_border(tissue) and outline.step >= MIN_STEP),
            (Defect.BUBBLE, touched),
            (Defect.OUT_OF_FOCUS, soft and (features.rim_width_um > MAX_RIM_UM or not outline.is_tissue)),
            (Defect.SEVERAL, not certain),
        )
        if true
    )
    away = bubble is not None and not touched
    if not soft and not defects:
        return Analysis((Defect.NO_TISSUE,), None, bubble_away=away, tissue=tissue)
    left_out = tuple(each.area_px * (pixel_um * 1e-3) ** 2 for each in objects if each is not found)
    return Analysis(defects, features, len(objects), left_out, away, tissue)


def _known_among(
    objects: Sequence[FoundObject], known: Known, pixel_um: float, certain: bool
) -> tuple[FoundObject, bool]:
    """Return the object that is most like the tissue of earlier images, and whether no other is nearly as much so."""
    pixel_mm = pixel_um * 1e-3
    reach = sqrt(known.area_mm2)

    def unlike(each: FoundObject) -> float:
        size = abs(log(each.area_px * pixel_mm**2 / known.area_mm2)) / LIKE_AREA
        if known.place_mm is None:
            return size
        row, column = (float(np.mean(at)) * pixel_mm for at in np.nonzero(each.mask))
        return size + min(hypot(column - known.place_mm[0], row - known.place_mm[1]) / reach, MAX_AWAY)

    order = sorted(objects, key=unlike)
    return order[0], certain or (unlike(order[0]) < MAX_UNLIKE and unlike(order[1]) > unlike(order[0]) + CLEARLY)


def _touches(bubble: FoundBubble, tissue: Mask) -> bool:
    rows, columns = np.nonzero(tissue)
    nearest = np.min(np.hypot(rows + 0.5 - bubble.row, columns + 0.5 - bubble.column))
    return bool(nearest < 1.1 * bubble.radius)
