"""The time-lapse of each camera: its last images with what was seen in them, from the rows of the journal."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any, TypeVar

from controller.journal.terms import Entry

MAX_FRAMES = 500
"""Images of one camera that are kept in memory."""
GROWTH_D = 7.0
"""Growth is measured over the images of this many days."""
GROWTH_IMAGES = 200
DAY_S = 86_400.0
APART_S = GROWTH_D * DAY_S / GROWTH_IMAGES
"""Images closer together than this do not count for the growth."""
MAX_ROWS = 20_000
"""Rows of the journal that are read at the start."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ImageFrame:
    """One image."""

    utc: str
    """When it was taken."""
    preview: str
    """Name of the file of its preview; empty for an image that was not kept."""
    defects: tuple[str, ...]
    features: Mapping[str, float] | None
    growth: Mapping[str, float] | None
    """The growth up to this image (:class:`controller.imaging.growth.Growth`)."""
    outline: str
    """Points “x,y x,y …” in thousandths of width and height."""
    objects: int = 0
    """Number of objects with the outline of tissue."""
    place_mm: tuple[float, float] | None = None
    """Centre of the tissue from the left upper corner of the image, x and y."""
    note: str = ""
    """What was left out, and what the earlier images say of this one, in words."""
    changed: bool = False
    """Whether it is the first image of a changed culture."""

    @property
    def usable(self) -> bool:
        """Whether its figures may be used."""
        return not self.defects and self.features is not None

    @property
    def verdict(self) -> str:
        """Whether it can be used, in words."""
        named = ", ".join(defect.replace("_", " ") for defect in self.defects)
        return named or ("usable" if self.usable else "no tissue")

    @property
    def at_s(self) -> float:
        """When it was taken (UTC seconds)."""
        return datetime.fromisoformat(self.utc).timestamp()

    @classmethod
    def of_row(cls, body: Mapping[str, Any], utc: str) -> ImageFrame:
        """Return the image of a row `image.taken` that was written at `utc`."""
        return cls(
            body.get("taken", utc),
            PurePosixPath(body.get("preview", "")).name,
            tuple(body["defects"]),
            body["features"],
            body.get("growth"),
            body.get("outline", ""),
            body.get("objects", 0),
            None if body.get("place_mm") is None else (body["place_mm"][0], body["place_mm"][1]),
            body.get("note", ""),
            body.get("changed", False),
        )


class TimeLapse:
    """The last images of every camera, and the areas of a week."""

    def __init__(self, cameras: Iterable[str]) -> None:
        self._frames: dict[str, deque[ImageFrame]] = {name: deque(maxlen=MAX_FRAMES) for name in cameras}
        self._areas: dict[str, deque[tuple[float, float]]] = {
            name: deque(maxlen=GROWTH_IMAGES) for name in self._frames
        }
        """Time (UTC s) and area (mm²) of usable images, at least :data:`APART_S` apart."""

    def restore(self, newest_first: Iterable[Entry], now_s: float) -> None:
        """Take in the rows of the journal, until every camera has as many images as are kept and the week is over."""
        missing = set(self._frames)
        for row in newest_first:
            camera = row.body.get("camera", "")
            if camera not in self._frames:
                continue
            frame, frames, areas = ImageFrame.of_row(row.body, row.utc), self._frames[camera], self._areas[camera]
            if len(frames) < MAX_FRAMES:
                frames.appendleft(frame)
            if len(areas) < GROWTH_IMAGES and _counts(frame, areas[0][0] if areas else None):
                areas.appendleft((frame.at_s, _area(frame)))
            if len(frames) == MAX_FRAMES and now_s - frame.at_s > GROWTH_D * DAY_S:
                missing.discard(camera)
                if not missing:
                    return

    def add(self, camera: str, frame: ImageFrame) -> None:
        """Add the newest image of a camera."""
        self._frames[camera].append(frame)
        areas = self._areas[camera]
        if _counts(frame, areas[-1][0] if areas else None):
            areas.append((frame.at_s, _area(frame)))

    def newest(self, camera: str) -> ImageFrame | None:
        """Return the last image of a camera; None before the first."""
        frames = self._frames[camera]
        return frames[-1] if frames else None

    def frames(self, camera: str) -> Sequence[ImageFrame]:
        """Return the images of a camera, oldest first."""
        return tuple(self._frames[camera])

    def areas(self, camera: str, now_s: float, since_s: float) -> list[tuple[float, float]]:
        """Return day before now (negative) and area (mm²) of the usable images since `since_s` and of the last week."""
        begin_s = max(since_s, now_s - GROWTH_D * DAY_S)
        return [((at_s - now_s) / DAY_S, area) for at_s, area in self._areas[camera] if at_s >= begin_s]


def _counts(frame: ImageFrame, other_s: float | None) -> bool:
    return frame.usable and (other_s is None or abs(frame.at_s - other_s) >= APART_S)


def _area(frame: ImageFrame) -> float:
    return 0.0 if frame.features is None else float(frame.features["area_mm2"])


def thinned(every: Sequence[T], most: int) -> list[T]:
    """Return at most `most` of a sequence at equal distances, the first and the last among them."""
    if len(every) <= most:
        return list(every)
    last = len(every) - 1
    return [every[round(k * last / (most - 1))] for k in range(most)]
