"""The outline of the tissue as a short text, for the page and the report."""

from __future__ import annotations

import numpy as np
from skimage.measure import approximate_polygon, find_contours

from controller.imaging.segmentation import Mask

SCALE = 1000
"""Coordinates are thousandths of the width and of the height of the image."""
MAX_POINTS = 64


def outline_text(tissue: Mask) -> str:
    """Return the points “x,y x,y …” of the outline, at most :data:`MAX_POINTS`, as SVG polygons have them.

    Args:
        tissue: Where the tissue is, shape (rows, columns); without any, the text is empty.
    """
    rows, columns = tissue.shape
    padded = np.pad(tissue.astype(np.float64), 1)
    contours = find_contours(padded, 0.5)
    if not contours:
        return ""
    line = max(contours, key=len) - 1.0 + 0.5
    tolerance = 0.5
    while len(simple := approximate_polygon(line, tolerance)) > MAX_POINTS + 1:
        tolerance *= 1.5
    share = np.clip(simple[:-1] / (rows, columns), 0.0, 1.0) * SCALE
    return " ".join(f"{x:.0f},{y:.0f}" for y, x in share)
