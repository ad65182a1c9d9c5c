"""What a camera is: one exposure at a time, with grey levels as the sensor gave them.

A call of a maker's library may wait, hang or end the process. A camera is therefore opened in a process of its own
(:mod:`controller.imaging.worker`), never in that of the controller, and its methods may block.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Greys = NDArray[np.unsignedinteger]
Settings = Mapping[str, float | bool | str]
MAX_EXPOSURE_S = 60.0


class CameraError(Exception):
    """A camera cannot be opened, or gave no image: what, likely cause, next action."""


@dataclass(frozen=True, slots=True)
class CameraIdentity:
    """What a camera says it is."""

    model: str
    serial: str = ""


class Camera(Protocol):
    """An open camera."""

    identity: CameraIdentity
    bits: int
    """Bits of its range of grey levels."""

    def capture(self, exposure_s: float) -> Greys:
        """Expose once and return the grey levels, shape (rows, columns); each call returns an array of its own.

        Args:
            exposure_s: Exposure time, more than 0 and at most a minute.

        Raises:
            CameraError: The exposure is impossible, the image is lost, or the camera is closed.
        """

    def close(self) -> None:
        """Release the camera; closing it again does nothing."""


def require_exposure(exposure_s: float) -> None:
    """Raise :class:`CameraError` for an exposure time that no camera takes."""
    if not 0.0 < exposure_s <= MAX_EXPOSURE_S:
        raise CameraError(
            f"an exposure of {exposure_s:g} s is impossible. Next: choose more than 0 and at most {MAX_EXPOSURE_S:g} s"
        )


def require_open(opened: object) -> None:
    """Raise :class:`CameraError` for a camera that was closed."""
    if not opened:
        raise CameraError("the camera is closed. Next: open it again")
