"""Where the tissue is in an image: the largest object with the outline of tissue, bounded by the steepest change of light.

The largest dark object over the whole image comes first. Where it has no such outline, as a cloud in the medium, outlines are
looked for at many levels of density: at one of them tissue stands apart from what is around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import binary_fill_holes, binary_opening, distance_transform_edt
from skimage.filters import sobel
from skimage.measure import label, regionprops
from skimage.measure._regionprops import RegionProperties
from skimage.morphology import isotropic_erosion, isotropic_opening
from skimage.segmentation import watershed
from skimage.transform import downscale_local_mean

from controller.imaging.field import F8, OpticalDensity, smoothed
from controller.imaging.outlines import FAR_UM, MIN_FILLED, MIN_STEP, Mask, Outlined, outlined

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


PIECE_LEVELS = tuple(float(level) for level in np.geomspace(0.02, 1.2, 18))
"""Optical densities at which outlines are looked for in the whole image."""
CLEARER, RAGGED_SOLIDITY = 2.0, 0.96
"""A ragged outline is that of a shadow around the tissue if one within it is clearer by this factor."""
MAX_SHARE = 0.7
"""Share of the image that tissue takes at most."""
PIECES_PX = 300
"""Pixels across the coarse image in which they are looked for."""
CLEAR_SHARE = 0.8
"""Of outlines within one another the outermost counts whose strength is at least this share of the clearest."""


@dataclass(frozen=True, slots=True)
class FoundObject:
    """An object of an image, and what speaks for its outline."""

    mask: Mask
    outline: Outlined
    within: Mask | None = None
    """The darker object in which it was found, such as a cloud around it."""

    @property
    def area_px(self) -> int:
        """Its area in pixels."""
        return int(self.mask.sum())


def find_tissue(image: OpticalDensity, min_px: float, pixel_um: float) -> list[FoundObject]:
    """Return the objects with the outline of tissue, largest first; without any, the most conspicuous object alone.

    Args:
        image: The optical density.
        min_px: Minimum area of tissue; smaller objects are debris.
        pixel_um: Length of a pixel in the plane of the tissue.
    """
    density = -np.log10(smoothed(10.0**-image.density, SMOOTHING_PX))
    floor = max(CONTRAST_SD * image.noise / (2 * SMOOTHING_PX), MIN_CONTRAST)
    if float(density.max()) < floor:
        return []
    darkest = _darkest(density, floor, min_px)
    usual = None if darkest is None else FoundObject(darkest, _outlined_in_box(density, darkest, pixel_um))
    found: list[FoundObject] = []
    for piece in _pieces(density, floor, min_px, pixel_um):
        bounded = _bounded_in_box(density, piece)
        seen = _outlined_in_box(density, bounded, pixel_um)
        if bounded.sum() < min_px or at_border(bounded) or not seen.is_tissue or _overlaps(bounded, found):
            continue
        if usual is None or not _overlaps(bounded, [usual]) or _clearer(seen, usual):
            found.append(
                FoundObject(bounded, seen, usual.mask if usual is not None and _overlaps(bounded, [usual]) else None)
            )
    if usual is not None and usual.outline.is_tissue and not at_border(usual.mask) and not _overlaps(usual.mask, found):
        found.append(usual)
    if not found:
        return [] if usual is None else [usual]
    return sorted(found, key=lambda each: -each.area_px)


def _overlaps(mask: Mask, others: Sequence[FoundObject]) -> bool:
    return any((mask & other.mask).any() for other in others)


def _clearer(inner: Outlined, dark: FoundObject) -> bool:
    """Return whether an outline within the largest dark object is that of the tissue, and the object what is around it."""
    outer = dark.outline
    if at_border(dark.mask):
        return outer.step < MIN_STEP or outer.filled < MIN_FILLED
    return not outer.is_tissue or (outer.solidity < RAGGED_SOLIDITY and inner.strength > CLEARER * outer.strength)


def _outlined_in_box(density: F8, mask: Mask, pixel_um: float) -> Outlined:
    """Return what speaks for an outline, from its surroundings alone."""
    box = box_around(mask, margin=round(FAR_UM[1] / pixel_um) + 4)
    return outlined(density[box], mask[box], pixel_um)


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


def _darkest(density: F8, floor: float, min_px: float) -> Mask | None:
    """Return the largest dark object, or the largest compact one within the field where that is a shadow."""
    low = _threshold(density, floor)
    objects = _objects(density > low)
    found = sorted((each for each in regionprops(objects) if each.area >= min_px), key=lambda each: -each.area)
    if not found:
        return None
    chosen = _whole(density, objects, found)
    return _bounded_in_box(density, _sharpest(density, objects == chosen.label, low, min_px))


def _pieces(density: F8, floor: float, min_px: float, pixel_um: float) -> list[Mask]:
    """Return what has the outline of tissue at some level of density, largest first; none within another."""
    step = max(1, min(density.shape) // PIECES_PX)
    whole = tuple(slice(length // step * step) for length in density.shape)
    coarse = -np.log10(downscale_local_mean(10.0 ** -density[whole], (step, step)))
    found: list[tuple[float, Mask]] = []
    for level in PIECE_LEVELS:
        if level < floor:
            continue
        pieces = label(binary_fill_holes(binary_opening(coarse > level, iterations=2)))
        if pieces.max() == 0:
            break
        for region in regionprops(pieces):
            if region.area * step**2 < min_px or region.area > MAX_SHARE * coarse.size:
                continue
            piece = pieces == region.label
            if at_border(piece):
                continue
            seen = _outlined_in_box(coarse, piece, step * pixel_um)
            if seen.is_tissue:
                found.append((seen.strength, piece))
    kept: list[Mask] = []
    while found:
        best, clearest = max(found, key=lambda each: each[0])
        nest = [each for each in found if (each[1] & clearest).any()]
        outermost = max((each[1] for each in nest if each[0] >= CLEAR_SHARE * best), key=lambda mask: int(mask.sum()))
        kept.append(outermost)
        found = [each for each in found if not (each[1] & (clearest | outermost)).any()]
    grown = []
    for piece in kept:
        full = np.zeros(density.shape, dtype=bool)
        full[whole] = np.repeat(np.repeat(piece, step, axis=0), step, axis=1)
        grown.append(full)
    return sorted(grown, key=lambda mask: -int(mask.sum()))


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


def _bounded_in_box(density: F8, seed: Mask) -> Mask:
    box = box_around(seed, margin=round(0.4 * np.sqrt(seed.sum())) + 6)
    tissue = np.zeros(seed.shape, dtype=bool)
    tissue[box] = _bounded(density[box], seed[box])
    return tissue


def _bounded(density: F8, seed: Mask) -> Mask:
    """Return the object around `seed`, with its border at the steepest change of light.

    The lens blurs light, not density: there the steepest change lies further inside.
    """
    radius = np.sqrt(seed.sum() / np.pi)
    inside = distance_transform_edt(seed) > max(3.0, BAND_SHARE * radius)
    outside = distance_transform_edt(~seed) > max(4.0, BAND_SHARE * radius)
    if not inside.any():
        inside = seed
    if not outside.any():
        return seed
    marks = inside.astype(np.int32) + 2 * outside.astype(np.int32)
    grown = binary_fill_holes(watershed(sobel(10.0**-density), marks) == 1)
    cut = isotropic_opening(grown, max(1.0, OPENING_SHARE * radius))
    pieces = label(cut)
    if pieces.max() == 0:
        return np.asarray(grown)
    return np.asarray(pieces == 1 + int(np.argmax(np.bincount(pieces.ravel())[1:])))
