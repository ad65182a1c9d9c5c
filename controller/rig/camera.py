"""Cameras in the rig file: which chamber each looks at, how often, and how much its images may take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pydantic import Field

from controller.rig.part import RigPart
from controller.rig.problems import Finding, nearest
from controller.rig.quantities import LengthUm, SizeGb, TimeS

if TYPE_CHECKING:
    from controller.rig.description import Rig

DAY_S = 86_400.0


class CameraSpec(RigPart):
    """One camera over one chamber. It moves nothing, so that no interlock depends on it."""

    model: str = Field(min_length=1, max_length=40)
    """`http`, `micromanager`, `pylon` or `simulated` (docs/imaging.md)."""
    chamber: str
    pixel_um: LengthUm = Field(alias="pixel", gt=0, le=1000)
    """Length of a pixel in the plane of the tissue."""
    exposure_s: TimeS = Field(default=0.02, alias="exposure", gt=0, le=60)
    every_s: TimeS = Field(default=6 * 3600.0, alias="every", ge=60, le=30 * DAY_S)
    quota_gb: SizeGb = Field(default=20.0, alias="quota", gt=0, le=1e6)
    """Maximum size of its images."""
    min_free_gb: SizeGb = Field(default=5.0, alias="min_free", ge=0, le=1e6)
    """What the disk keeps free for everything else."""
    settings: dict[str, float | bool | str] = Field(default_factory=dict)
    """Of the driver."""


def cameras_see_chambers(rig: Rig) -> Iterator[Finding]:
    """Each camera looks at a chamber of the rig."""
    chambers = [name for name, vessel in rig.vessels.items() if vessel.kind == "chamber"]
    for name, camera in rig.cameras.items():
        if camera.chamber not in chambers:
            what = f"“{camera.chamber}” is no chamber of this rig"
            yield Finding(("cameras", name, "chamber"), what, nearest(camera.chamber, chambers, "chambers"))


def camera_names_are_free(rig: Rig) -> Iterator[Finding]:
    """No camera has the name of a device: both become points."""
    for name in rig.cameras.keys() & rig.devices.keys():
        yield Finding(("cameras", name), f"“{name}” is a device as well", "Give the camera another name")


CAMERA_RULES = (cameras_see_chambers, camera_names_are_free)
