"""Bubbles of air in a brightfield image.

Light that meets the outer part of a bubble is reflected totally, so a bubble is a complete dark ring with a bright centre and
bright surroundings, wherever it lies. Tissue is darkest in its middle. The search compares, at each place and for each
radius, the mean density of a ring with those of the disc within and the ring around it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.signal import fftconvolve
from skimage.transform import downscale_local_mean

from controller.imaging.field import F8

COARSE_PX = 128
RADII_PX = tuple(float(radius) for radius in np.geomspace(3.5, 36.0, 14))
"""Radii that are searched, in pixels of the coarse image."""
RING = (0.78, 0.98)
DISC = 0.55
AROUND = (1.15, 1.4)
MIN_DEPTH = 0.11
"""Minimum density of the ring over that of disc and surroundings."""


@dataclass(frozen=True, slots=True)
class FoundBubble:
    """A bubble: place and radius in pixels of the image."""

    row: float
    column: float
    radius: float


def find_bubble(density: F8) -> FoundBubble | None:
    """Return the clearest bubble of an image, or None."""
    step = max(1, min(density.shape) // COARSE_PX)
    rows, columns = (length // step * step for length in density.shape)
    coarse = downscale_local_mean(np.minimum(density[:rows, :columns], 1.5), (step, step))
    best, found = MIN_DEPTH, None
    for radius in RADII_PX:
        score = _score(coarse, radius)
        at = np.unravel_index(int(np.argmax(score)), score.shape)
        if score[at] > best:
            best = float(score[at])
            found = FoundBubble((at[0] + 0.5) * step, (at[1] + 0.5) * step, radius * step)
    return found


def _score(coarse: F8, radius: float) -> F8:
    """Return, for a bubble at each place, how much darker its ring is, less the scatter along the ring."""
    reach = int(np.ceil(AROUND[1] * radius)) + 1
    offset = np.arange(-reach, reach + 1)
    away = np.hypot(offset[:, None], offset[None, :]) / radius
    half = 0.5 / radius
    parts = {
        "ring": (away > RING[0] - half) & (away < RING[1]),
        "disc": away < max(DISC, half),
        "around": (away > AROUND[0]) & (away < AROUND[1] + half),
    }
    padded = np.pad(coarse, reach, mode="edge")
    mean = {name: fftconvolve(padded, part / part.sum(), mode="valid") for name, part in parts.items()}
    square = fftconvolve(padded**2, parts["ring"] / parts["ring"].sum(), mode="valid")
    scatter = np.sqrt(np.maximum(square - mean["ring"] ** 2, 0.0))
    return np.asarray(mean["ring"] - 0.7 * scatter - np.maximum(mean["disc"], mean["around"]))
