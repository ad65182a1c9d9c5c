"""Figures of the tissue in an image: size, form, rim, opacity."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi, sqrt

import numpy as np
from scipy.ndimage import distance_transform_edt
from skimage.measure import perimeter_crofton, regionprops, shannon_entropy

from controller.imaging.field import F8
from controller.imaging.outlines import Mask
from controller.imaging.segmentation import box_around

RIM_DEPTH_UM = 60.0
"""Depth below the rim at which the density counts as that of the tissue, for the width of the rim."""
RIM_FROM, RIM_TO = 0.1, 0.5
ZONE_SHARE = 0.5
"""The inner zone of the tissue is within this share of its maximum depth."""


@dataclass(frozen=True, slots=True)
class Features:
    """Holds the size and shape of the tissue in one image."""

    area_mm2: float
    area_sd_mm2: float
    """Half the width of the rim along the outline, as a standard deviation."""
    diameter_mm: float
    """Of the disc of equal area."""
    feret_mm: float
    """The maximum length."""
    circularity: float
    """4π·area/perimeter²; 1 for a disc."""
    solidity: float
    """Area over that of the convex hull."""
    rim_width_um: float
    """Distance in which the density rises from 10 to 50 % of that 60 µm inside."""
    opacity: float
    """Mean optical density. It rises with thickness: compare at equal diameter."""
    core_opacity: float
    """Mean optical density of the inner half of the depth over that of the outer half."""
    entropy_bits: float
    """Shannon entropy of the density in 32 steps."""


def features_of(density: F8, tissue: Mask, pixel_um: float) -> Features:
    """Return the figures of the tissue.

    Args:
        density: Optical density, shape (rows, columns).
        tissue: Where the tissue is, of the same shape; at least one pixel.
        pixel_um: Length of a pixel in the plane of the tissue.
    """
    pixel_mm = pixel_um * 1e-3
    box = box_around(tissue, margin=round(RIM_DEPTH_UM / pixel_um) + 2)
    density, tissue = density[box], tissue[box]
    (region,) = regionprops(tissue.astype(np.uint8))
    area = float(region.area)
    perimeter = max(float(perimeter_crofton(tissue)), 1.0)
    depth = distance_transform_edt(tissue)
    rim_um = rim_width(density, tissue, pixel_um)
    inner = tissue & (depth > ZONE_SHARE * depth.max())
    outer = tissue & ~inner
    outer_mean = float(density[outer].mean()) if outer.any() else 0.0
    area_mm2 = area * pixel_mm**2
    steps = np.clip(density[tissue] * 32 / max(float(density[tissue].max()), 1e-6), 0, 31).astype(np.uint8)
    return Features(
        area_mm2=area_mm2,
        area_sd_mm2=perimeter * pixel_mm * max(rim_um, pixel_um) * 1e-3 / 2 / sqrt(3.0),
        diameter_mm=2 * sqrt(area_mm2 / pi),
        feret_mm=float(region.feret_diameter_max) * pixel_mm,
        circularity=min(4 * pi * area / perimeter**2, 1.0),
        solidity=float(region.solidity),
        rim_width_um=rim_um,
        opacity=float(density[tissue].mean()),
        core_opacity=float(density[inner].mean()) / outer_mean if outer_mean > 0.0 else 1.0,
        entropy_bits=float(shannon_entropy(steps)),
    )


def rim_width(density: F8, tissue: Mask, pixel_um: float) -> float:
    """Return the width of the rim (µm) from the mean density along lines of equal distance to the outline."""
    reach = max(4, round(RIM_DEPTH_UM / pixel_um))
    signed = np.where(tissue, distance_transform_edt(tissue) - 0.5, 0.5 - distance_transform_edt(~tissue))
    near = np.abs(signed) < reach + 0.5
    at = np.round(signed[near]).astype(np.int64) + reach
    count = np.bincount(at, minlength=2 * reach + 1)
    profile = np.bincount(at, weights=density[near], minlength=2 * reach + 1) / np.maximum(count, 1)
    known = np.flatnonzero(count > 0)
    places = np.asarray((known - reach) * pixel_um, np.float64)
    values = profile[known]
    level, ground = float(values[-1]), float(np.median(values[: max(2, len(values) // 8)]))
    if level <= ground:
        return float(2 * RIM_DEPTH_UM)
    share: F8 = (values - ground) / (level - ground)
    return max(_crossing(places, share, RIM_TO) - _crossing(places, share, RIM_FROM), 0.0)


def _crossing(places: F8, share: F8, level: float) -> float:
    """Return the place at which the share last rises through the level, from the outside."""
    first = int(np.argmax(share >= level))
    if first == 0:
        return float(places[0])
    before, after = float(share[first - 1]), float(share[first])
    return float(places[first - 1] + (level - before) / (after - before) * (places[first] - places[first - 1]))
