"""The empty field of a brightfield image, and what stands out from it.

Optical density is −log10 of the light over that of the empty field at the same place. The empty field is a smooth surface
through the logarithm of the image, fitted without what is darker. Nothing is assumed of lamp, exposure or sensor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from skimage.filters import gaussian, threshold_otsu
from skimage.transform import downscale_local_mean

F8 = NDArray[np.float64]
Greys = NDArray[np.unsignedinteger]
ROUNDS = 8
COARSE_PX = 96
"""Pixels across the coarse image to which the surface is fitted."""
OUTLIER_SD = 3.0
STRICT_ROUNDS, STRICT_SD = 4, 1.5
"""A second fit leaves out more of what is darker in its first rounds."""
FLATTER = 0.25
"""It is taken if its field scatters by less than this share of the usual one: there a thin rim had counted as empty."""


@dataclass(frozen=True, slots=True)
class OpticalDensity:
    """An image as optical density over its empty field."""

    density: F8
    noise: float
    """Standard deviation in the empty field."""
    level: float
    """Median of the empty field, as a share of the sensor's range."""
    saturated: float
    """Share of pixels at the upper end of the sensor's range."""


def optical_density(image: Greys, bits: int) -> OpticalDensity:
    """Return the optical density of an image.

    Args:
        image: Grey levels, shape (rows, columns).
        bits: Bits of the sensor's range.
    """
    top = 2**bits - 1
    grey = np.maximum(image.astype(np.float64), 0.5) / top
    log = np.log10(grey)
    step = max(1, min(image.shape) // COARSE_PX)
    whole = tuple(slice(length // step * step) for length in image.shape)
    coarse = downscale_local_mean(log[whole], (step, step))
    rows, columns = (np.linspace(-1.0, 1.0, length) for length in coarse.shape)
    terms = _terms(rows[:, None], columns[None, :])
    fitted, empty = _fit(coarse, terms)
    full_rows = (np.arange(image.shape[0]) + 0.5) / step - 0.5
    full_columns = (np.arange(image.shape[1]) + 0.5) / step - 0.5
    full = _terms(
        (full_rows / (coarse.shape[0] - 1) * 2 - 1)[:, None], (full_columns / (coarse.shape[1] - 1) * 2 - 1)[None, :]
    )
    surface = np.tensordot(fitted, full, axes=1)
    density = surface - log
    residual = density[whole][np.repeat(np.repeat(empty, step, axis=0), step, axis=1).nonzero()]
    noise = 1.4826 * float(np.median(np.abs(residual - np.median(residual)))) if residual.size else 1.0
    level = float(10 ** np.median(surface))
    return OpticalDensity(density, noise, level, float(np.mean(image >= top)))


def smoothed(density: F8, sd_px: float) -> F8:
    """Return the density under a Gaussian filter."""
    return np.asarray(gaussian(density, sd_px, mode="nearest"), dtype=np.float64)


def _terms(rows: F8, columns: F8) -> F8:
    """Return the terms of a surface of the second order, shape (6, rows, columns)."""
    shape = np.broadcast_shapes(rows.shape, columns.shape)
    parts = (np.ones(shape), rows, columns, rows * columns, rows**2, columns**2)
    return np.stack([np.broadcast_to(part, shape) for part in parts])


def _fit(coarse: F8, terms: F8) -> tuple[F8, NDArray[np.bool_]]:
    """Return the coefficients of the surface through the empty field, and which coarse pixels that is.

    Around a dense core a thin rim can pass for empty field, if it takes a fifth of the image. Only a fit that begins more
    strictly finds the field then; it is not the usual one, because the shadow of a well is no plane.
    """
    usual, strict = _fitted(coarse, terms, strict_rounds=0), _fitted(coarse, terms, strict_rounds=STRICT_ROUNDS)
    fitted, empty, _ = strict if strict[2] < FLATTER * usual[2] else usual
    return fitted, empty.reshape(coarse.shape)


def _fitted(coarse: F8, terms: F8, strict_rounds: int) -> tuple[F8, NDArray[np.bool_], float]:
    """Return the coefficients, the empty pixels and their scatter."""
    flat = terms.reshape(len(terms), -1).T
    values = coarse.ravel()
    low, high = float(values.min()), float(values.max())
    empty = values > threshold_otsu(values) if high - low > 1e-6 else np.ones(values.shape, dtype=bool)
    fitted, spread = np.zeros(len(terms)), 0.0
    for number in range(ROUNDS):
        fitted, *_ = np.linalg.lstsq(flat[empty], values[empty], rcond=None)
        away = values - flat @ fitted
        spread = 1.4826 * float(np.median(np.abs(away[empty]))) + 1e-4
        strict = number < strict_rounds
        after = (away < OUTLIER_SD * spread) & (away > -(STRICT_SD if strict else OUTLIER_SD) * spread)
        if after.sum() < 4 * len(terms) or (np.array_equal(after, empty) and not strict):
            break
        empty = after
    return np.asarray(fitted), empty, spread
