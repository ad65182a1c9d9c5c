"""Cameras in the rig file: which chamber each looks at, how often, and how much its images may take."""

from __future__ import annotations

from pydantic import Field

from controller.rig.part import RigPart
from controller.rig.quantities import LengthUm, SizeGb, TimeS

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
