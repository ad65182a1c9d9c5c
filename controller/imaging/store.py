"""The folder of images: OME-TIFF with its metadata, a preview for people, a quota.

An image is on the disk under its name as a whole or not at all. Nothing is deleted: when the quota or the disk is full no
more images are kept, and an alarm says so.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
from PIL import Image

from controller.core.disk import remedy
from controller.imaging.field import Greys

NAMESPACE = "choroid/image/1"
PREVIEW_PX = 480
PREVIEW_QUALITY = 80
LOW_PCT, HIGH_PCT = 0.5, 99.5
"""Grey levels that become black and white in a preview."""


class NotKept(Exception):
    """An image could not be kept: what, likely cause, next action."""


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """Holds the facts that are stored with an image when it is taken."""

    utc: str
    rig: str
    camera: str
    chamber: str
    pixel_um: float
    exposure_s: float
    tissue: Mapping[str, Any]
    """The tissue record of the chamber."""

    @property
    def name(self) -> str:
        """The name of its file without ending: the moment in UTC."""
        return datetime.fromisoformat(self.utc).strftime("%Y%m%dT%H%M%S%f")[:-3] + "Z"


@dataclass(frozen=True, slots=True)
class KeptImage:
    """A file of an image, relative to the folder of images, and its size."""

    file: str
    preview: str
    bytes: int


class ImageStore:
    """The images of one camera."""

    def __init__(self, folder: Path, *, quota_bytes: float, min_free_bytes: float) -> None:
        self._folder = folder
        self._quota_bytes = quota_bytes
        self._min_free_bytes = min_free_bytes

    def keep(self, image: Greys, facts: ImageFacts, camera: Mapping[str, Any]) -> KeptImage:
        """Write an image and its preview.

        Args:
            image: Grey levels, shape (rows, columns).
            facts: What is known of it.
            camera: Model, serial number and bits of the camera.

        Raises:
            NotKept: The quota or the disk is full, or cannot be written.
        """
        folder = self._folder / facts.camera
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._require_room(folder, image.nbytes)
            path = folder / f"{facts.name}.ome.tif"
            _whole(path, lambda part: _write_ome(part, image, facts, camera))
            preview = folder / f"{facts.name}.webp"
            _whole(preview, lambda part: _preview(image).save(part, "WEBP", quality=PREVIEW_QUALITY))
        except OSError as error:
            raise NotKept(
                f"the image of {facts.camera} cannot be kept in {folder} ({error.strerror or error}). {remedy(error)};"
                " the next image is taken as planned"
            ) from error
        size = path.stat().st_size + preview.stat().st_size
        return KeptImage(f"{facts.camera}/{path.name}", f"{facts.camera}/{preview.name}", size)

    def _require_room(self, folder: Path, size: int) -> None:
        used = sum(entry.stat().st_size for entry in os.scandir(folder) if entry.is_file(follow_symlinks=False))
        if used + size > self._quota_bytes:
            raise NotKept(
                f"the images of {folder.name} take {used / 1e9:.2f} GB, and at most {self._quota_bytes / 1e9:g} GB are kept."
                f" Next: move old images out of {folder}, or raise `quota` in the rig file"
            )
        free = shutil.disk_usage(folder).free
        if free - size < self._min_free_bytes:
            raise NotKept(
                f"only {free / 1e9:.2f} GB are free on the disk of {folder}, and {self._min_free_bytes / 1e9:g} GB are kept"
                " for everything else. Next: free some space"
            )


def _whole(path: Path, write: Any) -> None:
    """Write a file under another name, and give it its own when it is on the disk."""
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    try:
        write(part)
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _write_ome(path: Path, image: Greys, facts: ImageFacts, camera: Mapping[str, Any]) -> None:
    told = {"Namespace": NAMESPACE, "rig": facts.rig, "camera": facts.camera, "chamber": facts.chamber}
    told |= {f"camera.{key}": str(value) for key, value in camera.items()}
    told["tissue"] = json.dumps(dict(facts.tissue), sort_keys=True)
    metadata = {
        "axes": "YX",
        "Name": f"{facts.rig} {facts.chamber}",
        "AcquisitionDate": datetime.fromisoformat(facts.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z",
        "SignificantBits": int(camera["bits"]),
        "PhysicalSizeX": facts.pixel_um,
        "PhysicalSizeXUnit": "µm",
        "PhysicalSizeY": facts.pixel_um,
        "PhysicalSizeYUnit": "µm",
        "Channel": {"Name": ["brightfield"], "IlluminationType": ["Transmitted"]},
        "Plane": {"ExposureTime": [facts.exposure_s], "ExposureTimeUnit": ["s"]},
        "MapAnnotation": told,
    }
    with path.open("wb") as file:
        tifffile.imwrite(file, image, ome=True, photometric="minisblack", compression="zlib", metadata=metadata)


def _preview(image: Greys) -> Image.Image:
    low, high = (float(np.percentile(image, share)) for share in (LOW_PCT, HIGH_PCT))
    grey = np.clip((image.astype(np.float64) - low) / max(high - low, 1.0) * 255.0, 0, 255).astype(np.uint8)
    small = Image.fromarray(grey)
    small.thumbnail((PREVIEW_PX, PREVIEW_PX))
    return small
