"""What the cameras saw in a period: first and last image that can be used, and the areas."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from controller.imaging.previews import preview_file
from controller.imaging.time_lapse import ImageFrame
from controller.journal.terms import Entry
from controller.tissue.record import MOVED, PLACED

TAKEN = "image.taken"
IMAGE_ROWS = (TAKEN, PLACED, MOVED)
"""The rows that :func:`image_records` reads."""


@dataclass(frozen=True, slots=True)
class Picture:
    """An image with its preview; without one the content is empty."""

    frame: ImageFrame
    media_type: str
    content: bytes


@dataclass(slots=True)
class ImageRecord:
    """The images of one camera in a period."""

    camera: str
    chamber: str
    taken: int = 0
    spoilt: Counter[str] = field(default_factory=Counter)
    """Number of images by verdict, of those that cannot be used."""
    areas: list[tuple[float, float, float]] = field(default_factory=list)
    """Time (UTC s), area and its standard deviation (mm²) of the images that can be used."""
    placed_s: float | None = None
    """When the tissue came into the chamber (UTC s); None if that was before the period."""
    first: Picture | None = None
    last: Picture | None = None

    @property
    def of_the_present_tissue(self) -> list[tuple[float, float, float]]:
        """The areas since the last tissue of the period was placed: the growth is of one tissue."""
        return [each for each in self.areas if self.placed_s is None or each[0] >= self.placed_s]

    def to_json(self) -> dict[str, Any]:
        """Return plain data, without the images."""
        ends = {"first": self.first, "last": self.last}
        return {
            "camera": self.camera,
            "chamber": self.chamber,
            "taken": self.taken,
            "usable": len(self.areas),
            "unusable": dict(self.spoilt),
            **{
                name: None if end is None else {"utc": end.frame.utc, "features": end.frame.features}
                for name, end in ends.items()
            },
        }


def image_records(rows: Iterable[Entry], data: Path) -> list[ImageRecord]:
    """Return the records of the cameras that took images, from :data:`IMAGE_ROWS` in order."""
    found: dict[str, ImageRecord] = {}
    ends: dict[str, list[ImageFrame]] = {}
    placed: dict[str, float] = {}
    for row in rows:
        if row.kind != TAKEN:
            placed[row.body["target" if row.kind == MOVED else "chamber"]] = datetime.fromisoformat(row.utc).timestamp()
            continue
        frame, camera = ImageFrame.of_row(row.body, row.utc), row.body["camera"]
        record = found.setdefault(camera, ImageRecord(camera, row.body["chamber"]))
        record.taken += 1
        if not frame.usable or frame.features is None:
            record.spoilt[frame.verdict] += 1
            continue
        record.areas.append((frame.at_s, frame.features["area_mm2"], _sd(frame.features)))
        if frame.preview:
            ends[camera] = [*ends.get(camera, ())[:1], frame]
    for record in found.values():
        record.placed_s = placed.get(record.chamber)
    for camera, frames in ends.items():
        found[camera].first = _picture(data, camera, frames[0])
        found[camera].last = _picture(data, camera, frames[-1])
    return list(found.values())


def _sd(features: Mapping[str, float]) -> float:
    return features.get("area_sd_mm2", 0.0)


def _picture(data: Path, camera: str, frame: ImageFrame) -> Picture:
    path, content = preview_file(data, camera, frame.preview), b""
    with contextlib.suppress(OSError):  # the report tells that there is no image
        content = b"" if path is None else path.read_bytes()
    return Picture(frame, f"image/{frame.preview.rpartition('.')[2]}", content)
