"""The models of cameras; each driver is imported only when a rig has such a camera."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import cast

from drivers.cameras.camera import Camera, CameraError, Settings


@dataclass(frozen=True, slots=True)
class CameraModel:
    """Catalogue entry of a camera driver."""

    id: str
    name: str
    factory: str
    """Module and class, `module:class`."""
    extra: str
    """The extra of Choroid that installs what it needs."""


CAMERAS = {
    each.id: each
    for each in (
        CameraModel("micromanager", "Micro-Manager", "drivers.cameras.micromanager:MicroManagerCamera", "micromanager"),
        CameraModel("http", "Camera with a web server", "drivers.cameras.http:HttpCamera", "imaging"),
        CameraModel("pylon", "Basler pylon", "drivers.cameras.pylon:PylonCamera", "pylon"),
    )
}


def open_camera(model: str, settings: Settings) -> Camera:
    """Open a camera of the catalogue.

    Raises:
        CameraError: The model is unknown, its package is missing, or it does not open.
    """
    if model == "simulated":
        raise CameraError(
            "the camera is simulated, and a real run has no simulated tissue. Next: have `choroid lab serve RIG --write"
            f" serve it, or name the driver of a real one: {', '.join(sorted(CAMERAS))}"
        )
    if model not in CAMERAS:
        raise CameraError(f"no driver of cameras is called {model}. Next: choose among {', '.join(sorted(CAMERAS))}")
    module, _, name = CAMERAS[model].factory.partition(":")
    try:
        made = getattr(import_module(module), name)(settings)
    except ModuleNotFoundError as error:
        raise CameraError(
            f"the camera model {model} needs the package {error.name}, which is not installed."
            f' Next: pip install "choroid[{CAMERAS[model].extra}]"'
        ) from None
    return cast(Camera, made)
