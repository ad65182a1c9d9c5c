"""Take one image: expose, keep, analyse. What is sent to it and comes back is plain data, for a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from skimage.measure import approximate_polygon, find_contours

from controller.imaging.growth import growth_of
from controller.imaging.outlines import Mask
from controller.imaging.quality import ANALYSIS_VERSION, Analysis, Known, analyse
from controller.imaging.store import ImageFacts, ImageStore, NotKept
from drivers.cameras.camera import Camera, CameraError, Settings

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


def _place_mm(tissue: Mask | None, pixel_um: float) -> list[float] | None:
    """Return the centre of the tissue from the left upper corner: x and y."""
    if tissue is None:
        return None
    rows, columns = np.nonzero(tissue)
    return [round(float(np.mean(at) + 0.5) * pixel_um * 1e-3, 4) for at in (columns, rows)]


Opener = Callable[[str, Settings, Mapping[str, Any]], Camera]
"""Opens a camera by its model and settings; the third argument is the whole request."""


class Taker:
    """Takes images with cameras that stay open."""

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._open: dict[str, Camera] = {}

    def take(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Take the image of a request (:func:`controller.imaging.imaging.request_of`).

        Returns:
            `error` alone, or `file`, `preview`, `bytes`, `defects`, `features`, `growth`, `outline`, `objects`,
            `left_out_mm2`, `place_mm`, `version`; `unkept` instead of the first three for an image that was analysed and
            could not be kept.
        """
        facts = ImageFacts(**request["facts"])
        try:
            camera = self._camera(request)
            image = camera.capture(facts.exposure_s)
        except CameraError as error:
            self._drop(facts.camera)
            return {"error": str(error)}
        seen = {"model": camera.identity.model, "serial": camera.identity.serial, "bits": camera.bits}
        answer: dict[str, Any] = {"unkept": ""}
        store = ImageStore(
            Path(request["folder"]), quota_bytes=request["quota_bytes"], min_free_bytes=request["min_free_bytes"]
        )
        try:
            answer |= asdict(store.keep(image, facts, seen))
        except NotKept as error:
            answer["unkept"] = str(error)
        known = request.get("known")
        analysis = analyse(
            image,
            camera.bits,
            facts.pixel_um,
            known=None if known is None else Known(known["area_mm2"], known["place_mm"]),
            expected=int(facts.tissue.get("count", 1)),
        )
        features = None if analysis.features is None else asdict(analysis.features)
        defects = [defect.value for defect in analysis.defects]
        return answer | {
            "defects": defects,
            "features": features,
            "growth": _growth(analysis, request.get("earlier", ())),
            "outline": "" if analysis.tissue is None else outline_text(analysis.tissue),
            "objects": analysis.objects,
            "left_out_mm2": list(analysis.left_out),
            "place_mm": None if analysis.features is None else _place_mm(analysis.tissue, facts.pixel_um),
            "version": ANALYSIS_VERSION,
        }

    def close(self) -> None:
        """Release the cameras."""
        for name in list(self._open):
            self._drop(name)

    def _camera(self, request: Mapping[str, Any]) -> Camera:
        name = request["facts"]["camera"]
        if name not in self._open:
            self._open[name] = self._opener(request["model"], request["settings"], request)
        return self._open[name]

    def _drop(self, name: str) -> None:
        """Release a camera; the next image opens it again."""
        camera = self._open.pop(name, None)
        if camera is not None:
            camera.close()


def _growth(analysis: Analysis, earlier: Sequence[Sequence[float]]) -> dict[str, float] | None:
    """Return the growth from earlier images, each with its day before this one (negative) and its area (mm²)."""
    if analysis.features is None or not analysis.usable:
        return None
    days, areas = [day for day, _ in earlier], [area for _, area in earlier]
    found = growth_of([*days, 0.0], [*areas, analysis.features.area_mm2])
    return None if found is None else asdict(found)
