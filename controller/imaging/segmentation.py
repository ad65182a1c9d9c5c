"""Where the tissue is in an image: the largest dark object, bounded by the steepest change of density."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import binary_fill_holes, distance_transform_edt
from skimage.filters import sobel
from skimage.measure import label, regionprops
from skimage.morphology import isotropic_opening
from skimage.segmentation import watershed

from controller.imaging.field import F8, OpticalDensity, smoothed

SMOOTHING_PX = 1.2
CONTRAST_SD = 4.0
"""Minimum contrast of an object over the noise after smoothing."""
MIN_CONTRAST = 0.02
"""Minimum mean optical density of an object."""
OPENING_SHARE = 0.03
"""Radius of what is cut off as too thin to be tissue, over the object's radius."""
RIM_SHARE = 0.06
"""Share of an object's median density that counts as part of it, at first."""
BAND_SHARE = 0.06
"""Half the width of the band in which the border is sought, over the object's radius."""
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Objects:
    """The tissue, and other objects of its kind."""

    tissue: Mask | None
    others_px: tuple[int, ...] = ()
    """Areas of the other objects, largest first."""


def find_tissue(image: OpticalDensity, min_px: float) -> Objects:
    """Return the tissue of an image.

    Args:
        image: The optical density.
        min_px: Minimum area of tissue; smaller objects are debris.
    """
    density = smoothed(image.density, SMOOTHING_PX)
    floor = max(CONTRAST_SD * image.noise / (2 * SMOOTHING_PX), MIN_CONTRAST)
    if float(density.max()) < floor:
        return Objects(None)
    seed = density > _threshold(density, floor)
    objects = label(binary_fill_holes(isotropic_opening(seed, 2)))
    found = sorted((each for each in regionprops(objects) if each.area >= min_px), key=lambda each: -each.area)
    if not found:
        return Objects(None)
    seed = objects == found[0].label
    box = box_around(seed, margin=round(0.4 * np.sqrt(found[0].area)) + 6)
    tissue = np.zeros(seed.shape, dtype=bool)
    tissue[box] = _bounded(density[box], seed[box])
    return Objects(tissue, tuple(int(each.area) for each in found[1:]))


def box_around(mask: Mask, margin: int) -> tuple[slice, slice]:
    """Return the part of an image that holds a mask of at least one pixel, with a margin (pixels)."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return (
        slice(max(0, int(rows[0]) - margin), int(rows[-1]) + margin + 1),
        slice(max(0, int(columns[0]) - margin), int(columns[-1]) + margin + 1),
    )


def _threshold(density: F8, floor: float) -> float:
    """Return the level that the thin rim of an object reaches: far below that of its core, which may be many times darker."""
    return max(floor, RIM_SHARE * float(np.median(density[density > floor])))


def _bounded(density: F8, seed: Mask) -> Mask:
    """Return the object around `seed`, with its border at the steepest change of density."""
    radius = np.sqrt(seed.sum() / np.pi)
    inside = distance_transform_edt(seed) > max(3.0, BAND_SHARE * radius)
    outside = distance_transform_edt(~seed) > max(4.0, BAND_SHARE * radius)
    if not inside.any():
        inside = seed
    if not outside.any():
        return seed
    marks = inside.astype(np.int32) + 2 * outside.astype(np.int32)
    grown = binary_fill_holes(watershed(sobel(density), marks) == 1)
    cut = isotropic_opening(grown, max(1.0, OPENING_SHARE * radius))
    pieces = label(cut)
    if pieces.max() == 0:
        return np.asarray(grown)
    return np.asarray(pieces == 1 + int(np.argmax(np.bincount(pieces.ravel())[1:])))
