"""Whether an outline is that of tissue: dark within, all round, and sharply so.

A cloud in the medium has no sharp outline, a sheet of gel has one on one side only, a clump of debris has gaps, a drop on the
lid is brighter in its middle. Each is darker than the empty field somewhere, which tissue is as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt
from skimage.filters import sobel
from skimage.measure import regionprops

from controller.imaging.field import F8

Mask = NDArray[np.bool_]
NEAR_UM, FAR_UM = (8.0, 36.0), (36.0, 75.0)
"""Distances from the outline, within and without, between which the density is compared."""
SECTORS = 40
FAINT_SHARE = 0.3
"""A sector whose step is smaller than this share of the usual one has no outline."""
MIN_STEP = 0.04
MIN_SUPPORT = 0.9
MIN_FILLED = 0.95
MIN_SHARPNESS = 0.45
MIN_SOLIDITY = 0.85
MAX_ROUGHNESS, CLUMP_SOLIDITY, CLUMP_SHARPNESS = 0.3, 0.96, 0.5
"""A clump of debris is rough within, ragged, and sharp."""


@dataclass(frozen=True, slots=True)
class Outlined:
    """What speaks for an outline."""

    step: float
    """Optical density just within over that just without: the median of the sectors within the image."""
    support: float
    """Share of the sectors with a clear step."""
    sharpness: float
    """The step over that between points twice as far apart."""
    filled: float
    """Share of the inside that is darker than the surroundings by a third of the step."""
    roughness: float
    """Mean slope of the light within over that along the outline."""
    solidity: float
    """Area over that of the convex hull."""

    @property
    def is_soft_tissue(self) -> bool:
        """Whether this is the outline of tissue, in focus or not."""
        ragged = self.roughness > MAX_ROUGHNESS and self.solidity < CLUMP_SOLIDITY
        clump = ragged and self.sharpness >= CLUMP_SHARPNESS
        return (
            self.step >= MIN_STEP / 2
            and self.support >= MIN_SUPPORT
            and self.filled >= MIN_FILLED
            and self.solidity >= MIN_SOLIDITY
            and not clump
        )

    @property
    def is_tissue(self) -> bool:
        """Whether this is the outline of tissue, in focus or not far from it."""
        return self.is_soft_tissue and self.step >= MIN_STEP and self.sharpness >= MIN_SHARPNESS

    @property
    def strength(self) -> float:
        """How clear the outline is, to choose among outlines of the same thing."""
        return self.step * self.support * min(self.sharpness, 1.0)


def outlined(density: F8, mask: Mask, pixel_um: float) -> Outlined:
    """Return what speaks for an outline.

    Args:
        density: Optical density, shape (rows, columns).
        mask: What is within the outline, at least one pixel.
        pixel_um: Length of a pixel in the plane of the tissue.
    """
    signed = np.where(mask, distance_transform_edt(mask) - 0.5, 0.5 - distance_transform_edt(~mask)) * pixel_um
    rows, columns = np.nonzero(mask)
    down = np.arange(mask.shape[0])[:, None] - rows.mean()
    right = np.arange(mask.shape[1])[None, :] - columns.mean()
    sector = ((np.arctan2(down, right) / (2 * pi) + 0.5) * SECTORS).astype(np.int64) % SECTORS
    away = np.abs(signed)
    near_to = max(NEAR_UM[1], NEAR_UM[0] + 2 * pixel_um)
    near = (away >= NEAR_UM[0]) & (away < near_to)
    far = (away >= near_to) & (away < near_to + FAR_UM[1] - FAR_UM[0])
    steps, wide = (_steps(density, sector, mask, band) for band in (near, far))
    step = float(np.nanmedian(steps)) if np.isfinite(steps).any() else 0.0
    around = float(np.median(density[near & ~mask])) if (near & ~mask).any() else 0.0
    core = mask & (signed >= NEAR_UM[0])
    filled = float(np.mean(density[core] > around + step / 3)) if core.any() else 0.0
    slope = sobel(10.0**-density)
    edge, deep = mask & (signed < 2 * pixel_um), mask & (signed >= NEAR_UM[1])
    roughness = float(slope[deep].mean() / max(float(slope[edge].mean()), 1e-9)) if deep.any() else 1.0
    (region,) = regionprops(mask.astype(np.uint8))
    return Outlined(
        step=step,
        support=float(np.mean(np.nan_to_num(steps) >= max(FAINT_SHARE * step, MIN_STEP / 3))),
        sharpness=step / max(float(np.nanmedian(wide)), 1e-6) if np.isfinite(wide).any() else 0.0,
        filled=filled,
        roughness=roughness,
        solidity=float(region.solidity),
    )


def _steps(density: F8, sector: NDArray[np.int64], mask: Mask, band: Mask) -> F8:
    """Return the step in each sector; NaN where the image ends."""
    means = []
    for side in (band & mask, band & ~mask):
        count = np.bincount(sector[side], minlength=SECTORS)
        total = np.bincount(sector[side], weights=density[side], minlength=SECTORS)
        means.append(np.where(count > 0, total / np.maximum(count, 1), np.nan))
    return np.asarray(means[0] - means[1])
