"""Simulated cameras as drivers, and as a process: `python -m choroid.cameras.simulated`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from controller.imaging.take import Taker
from controller.imaging.worker import serve
from drivers.cameras.camera import Camera, CameraError, CameraIdentity, Greys, Settings
from sim.camera.camera import SimulatedCamera
from sim.camera.scene import TissueInView

IMAGE_S = 60.0
"""What happens by chance differs from one such interval of time to the next (s)."""


class SimulatedDriver:
    """A simulated camera with the interface of :class:`drivers.cameras.camera.Camera`."""

    def __init__(self, camera: SimulatedCamera) -> None:
        self.identity = CameraIdentity(camera.identity.model, camera.identity.serial)
        self.bits = camera.bits
        self.camera = camera

    def capture(self, exposure_s: float) -> Greys:
        """Expose once."""
        try:
            return self.camera.capture(exposure_s)
        except ValueError as error:
            raise CameraError(f"{error}. Next: open it again, or choose another exposure") from None

    def close(self) -> None:
        """Switch it off."""
        self.camera.close()


class SimulatedTaker:
    """Takes images of the tissue that each request describes under `scene` (None: an empty chamber)."""

    def __init__(self) -> None:
        self._scenes: dict[str, TissueInView | None] = {}
        self._drivers: dict[str, SimulatedDriver] = {}
        self._taker = Taker(self._open)

    def take(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Take an image; the moment and the seed of the camera decide what happens by chance."""
        name, scene = request["facts"]["camera"], request["scene"]
        self._scenes[name] = None if scene is None else TissueInView(**scene)
        if name in self._drivers:
            self._set_moment(name, request)
        return self._taker.take(request)

    def close(self) -> None:
        """Switch the cameras off."""
        self._taker.close()

    def _open(self, model: str, settings: Settings, request: Mapping[str, Any]) -> Camera:
        if model != "simulated":
            raise CameraError(f"a simulated lab has no camera of model {model}. Next: write `model: simulated`")
        name = request["facts"]["camera"]
        camera = SimulatedCamera.with_settings(settings, request["facts"]["pixel_um"], lambda: self._scenes[name])
        self._drivers[name] = SimulatedDriver(camera)
        self._set_moment(name, request)
        return self._drivers[name]

    def _set_moment(self, name: str, request: Mapping[str, Any]) -> None:
        moment = datetime.fromisoformat(request["facts"]["utc"]).timestamp()
        self._drivers[name].camera.images = int(moment // IMAGE_S) % 1_000_000


if __name__ == "__main__":
    serve(SimulatedTaker())
