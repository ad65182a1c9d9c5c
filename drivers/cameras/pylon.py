"""Cameras of Basler (extra `[pylon]`): USB3 Vision and GigE Vision over pypylon.

Settings: `serial`, the serial number (left out, the only camera); `pixel_format` (default the first of Mono12, Mono10 and
Mono8 that it has). Automatic exposure and gain are switched off: figures of two images must compare. With the variable
PYLON_CAMEMU=1 in the environment the maker's emulator is found as a camera.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from drivers.cameras.camera import CameraError, CameraIdentity, Greys, Settings, require_exposure, require_open

FORMATS = ("Mono12", "Mono10", "Mono8")
REPLY_MS = 5000


class PylonCamera:
    """A Basler camera."""

    def __init__(self, settings: Settings) -> None:
        """Open the camera.

        Raises:
            CameraError: It is missing, in use, or not the only one.
            ModuleNotFoundError: pypylon is not installed.
        """
        self._pylon: Any = import_module("pypylon.pylon")
        self._camera: Any = None
        try:
            self._camera = self._find(str(settings.get("serial", "")))
            self._camera.Open()
            self.bits = self._set_format(str(settings.get("pixel_format", "")))
            for name in ("ExposureAuto", "GainAuto"):
                if (node := self._node(name)) is not None:
                    node.SetValue("Off")
        except CameraError:
            raise
        except Exception as error:  # pypylon's exceptions have no common class of their own
            self.close()
            raise CameraError(
                f"the Basler camera cannot be opened ({error}). Likely cause: another program uses it. Next: close that"
            ) from error
        info = self._camera.GetDeviceInfo()
        self.identity = CameraIdentity(str(info.GetModelName()), str(info.GetSerialNumber()))

    def capture(self, exposure_s: float) -> Greys:
        """Expose once; see :class:`drivers.cameras.camera.Camera`."""
        require_open(self._camera)
        require_exposure(exposure_s)
        try:
            node = self._node("ExposureTime") or self._node("ExposureTimeAbs")
            if node is not None:
                node.SetValue(exposure_s * 1e6)
            with self._camera.GrabOne(REPLY_MS + int(exposure_s * 1e3)) as result:
                lost = "" if result.GrabSucceeded() else str(result.GetErrorDescription())
                image = None if lost else np.array(result.Array)
        except Exception as error:
            raise CameraError(
                f"{self.identity.model} {self.identity.serial} gave no image ({error}). Likely cause: it is unplugged, or the"
                " exposure is outside its range. Next: check cable and exposure"
            ) from error
        if image is None:
            raise CameraError(
                f"{self.identity.model} {self.identity.serial} lost an image ({lost}). Likely cause: a bad cable or a busy"
                " bus. Next: check the cable; the next image is taken as planned"
            )
        return image

    def close(self) -> None:
        """Release the camera."""
        camera, self._camera = self._camera, None
        if camera is not None:
            camera.Close()

    def _find(self, serial: str) -> Any:
        factory = self._pylon.TlFactory.GetInstance()
        found = [each for each in factory.EnumerateDevices() if serial in ("", each.GetSerialNumber())]
        if len(found) != 1:
            what = (
                f"no Basler camera {serial} answers".replace("  ", " ") if not found else f"{len(found)} cameras answer"
            )
            cause = (
                "it has no power, or the serial number is wrong" if not found else "the rig file names no serial number"
            )
            raise CameraError(f"{what}. Likely cause: {cause}. Next: write its `serial` as printed on it")
        return self._pylon.InstantCamera(factory.CreateDevice(found[0]))

    def _set_format(self, wanted: str) -> int:
        known = self._camera.PixelFormat.GetSymbolics()
        name = next((each for each in ((wanted,) if wanted else FORMATS) if each in known), None)
        if name is None or not name.removeprefix("Mono").isdigit():
            raise CameraError(f"the camera has no grey format {wanted}. Next: choose among {', '.join(known)}")
        self._camera.PixelFormat.SetValue(name)
        return int(name.removeprefix("Mono"))

    def _node(self, name: str) -> Any:
        """Return a setting of the camera that can be written now, or None."""
        node = self._camera.GetNodeMap().GetNode(name)
        return node if node is not None and import_module("pypylon.genicam").IsWritable(node) else None
