"""Where the tissue is in an image: the largest dark object, bounded by the steepest change of density."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import binary_fill_holes, distance_transform_edt
from skimage.filters import sobel
from skimage.measure import label, regionprops
from skimage.measure._regionprops import RegionProperties
from skimage.morphology import isotropic_erosion, isotropic_opening
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
MIN_SOLIDITY = 0.85
"""Least area over that of the convex hull of an object that is preferred to one which is cut off."""
AROUND_SHARE = 0.35
"""Maximum density around such an object, over its own."""
LEVELS = (0.03, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6)
"""Levels between the lowest and the density of the core at which an outline is looked for; the first ones lie in a thin rim
around a core that is many times denser."""
SHARPER = 1.4
"""How much sharper than at the lowest level such an outline has to be."""
DULLER = 0.8
"""An outline that is duller than this, over the lowest one, lies in the tissue."""
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
    low = _threshold(density, floor)
    objects = _objects(density > low)
    found = sorted((each for each in regionprops(objects) if each.area >= min_px), key=lambda each: -each.area)
    if not found:
        return Objects(None)
    chosen = _whole(density, objects, found)
    seed = _sharpest(density, objects == chosen.label, low, min_px)
    box = box_around(seed, margin=round(0.4 * np.sqrt(seed.sum())) + 6)
    tissue = np.zeros(seed.shape, dtype=bool)
    tissue[box] = _bounded(density[box], seed[box])
    return Objects(tissue, tuple(int(each.area) for each in found if each is not chosen))


def at_border(mask: Mask) -> bool:
    """Return whether a mask touches the border of the image."""
    return bool(mask[:2].any() or mask[-2:].any() or mask[:, :2].any() or mask[:, -2:].any())


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


def _objects(dark: Mask) -> NDArray[np.int32]:
    return np.asarray(label(binary_fill_holes(isotropic_opening(dark, 2))), dtype=np.int32)


def _whole(density: F8, objects: NDArray[np.int32], found: Sequence[RegionProperties]) -> RegionProperties:
    """Return the largest object; if that is cut off or ragged, such as the shadow of a well, the largest one that is tissue.

    An object within the field is taken for tissue if it is compact and darker than all around it.
    """
    largest = found[0]
    if largest.solidity >= MIN_SOLIDITY and not at_border(objects == largest.label):
        return largest
    for each in found[1:]:
        mask = objects == each.label
        if each.solidity >= MIN_SOLIDITY and not at_border(mask) and _stands_out(density, mask):
            return each
    return largest


def _stands_out(density: F8, mask: Mask) -> bool:
    radius = float(np.sqrt(mask.sum() / np.pi))
    box = box_around(mask, margin=round(0.25 * radius) + 3)
    density, mask = density[box], mask[box]
    away = distance_transform_edt(~mask)
    around = (away > 0.05 * radius + 1) & (away < 0.25 * radius + 2)
    return bool(np.median(density[around]) < AROUND_SHARE * np.median(density[mask]))


def _sharpest(density: F8, seed: Mask, low: float, min_px: float) -> Mask:
    """Return the object at the level of density at which its outline is sharpest.

    The outline of a shadow around the tissue becomes ever sharper towards the tissue, which is far sharper. The outline of
    tissue with a dense core is sharp, then there is none in the outer tissue, then follows that of the core: the lowest level
    stands.
    """
    box = box_around(seed, margin=2)
    part, inside = density[box], seed[box]
    slope, top = sobel(part), float(np.quantile(part[inside], 0.9))
    lowest = _sharpness(part, slope, inside)
    kept, sharpest = inside, SHARPER * lowest
    for share in LEVELS:
        pieces = _objects((part > low + share * (top - low)) & inside)
        sizes = np.bincount(pieces.ravel())[1:]
        if not sizes.size or sizes.max() < min_px:
            break
        piece = pieces == 1 + int(np.argmax(sizes))
        found = _sharpness(part, slope, piece)
        if found < DULLER * lowest:
            break
        if found > sharpest:
            kept, sharpest = piece, found
    whole = np.zeros(seed.shape, dtype=bool)
    whole[box] = kept
    return whole


def _sharpness(density: F8, slope: F8, mask: Mask) -> float:
    """Return the mean slope along the outline of an object over its density."""
    outline = mask & ~isotropic_erosion(mask, 1.5)
    return float(slope[outline].mean() / max(float(np.median(density[mask])), 1e-3))


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
