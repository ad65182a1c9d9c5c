"""Cameras of Micro-Manager (extra `[micromanager]`): any camera with a device adapter, over pymmcore-plus.

Settings: `config`, a configuration file of Micro-Manager; or `library` and `device` of one adapter (`DemoCamera`, `DCam`).
`adapters` is the folder of the device adapters; left out, that of `mmcore install`. Every other setting is a property of the
camera, such as `PixelType: 16bit`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from drivers.cameras.camera import CameraError, CameraIdentity, Greys, Settings, require_exposure, require_open

LABEL = "choroid-camera"
OWN_SETTINGS = frozenset({"config", "library", "device", "adapters"})


class MicroManagerCamera:
    """The camera of a Micro-Manager core that this object owns."""

    def __init__(self, settings: Settings) -> None:
        """Open the camera.

        Raises:
            CameraError: It is missing or does not start.
            ModuleNotFoundError: pymmcore-plus is not installed.
        """
        core_class = import_module("pymmcore_plus").CMMCorePlus
        adapters = settings.get("adapters")
        try:
            self._core: Any = core_class() if adapters is None else core_class(mm_path=str(adapters))
            self._camera = self._load(settings)
            for name, value in settings.items():
                if name not in OWN_SETTINGS:
                    self._core.setProperty(self._camera, name, value)
            self.bits = int(self._core.getImageBitDepth())
            model = f"{self._core.getDeviceLibrary(self._camera)} {self._core.getDeviceName(self._camera)}"
        except Exception as error:  # the core raises RuntimeError, and others for paths and types
            raise CameraError(
                f"Micro-Manager cannot open the camera ({error}). Likely cause: the adapter is missing, or its interface"
                " version is another than that of pymmcore. Next: check `adapters`, `library` and `device`"
            ) from error
        self.identity = CameraIdentity(model)

    def capture(self, exposure_s: float) -> Greys:
        """Expose once; see :class:`drivers.cameras.camera.Camera`."""
        require_open(self._core)
        require_exposure(exposure_s)
        try:
            self._core.setExposure(self._camera, exposure_s * 1e3)
            self._core.snapImage()
            image = np.array(self._core.getImage())
        except Exception as error:
            raise CameraError(
                f"{self.identity.model} gave no image ({error}). Likely cause: it is unplugged or in use. Next: check its"
                " cable"
            ) from error
        if image.ndim != 2 or image.dtype.kind != "u":
            raise CameraError(
                f"{self.identity.model} gave an image of shape {image.shape} and type {image.dtype}. Likely cause: it is set"
                " to colours. Next: set its PixelType to 8bit or 16bit"
            )
        return image

    def close(self) -> None:
        """Unload the camera."""
        core, self._core = self._core, None
        if core is not None:
            core.reset()

    def _load(self, settings: Settings) -> str:
        if "config" in settings:
            self._core.loadSystemConfiguration(str(settings["config"]))
            return str(self._core.getCameraDevice())
        self._core.loadDevice(LABEL, str(settings["library"]), str(settings["device"]))
        self._core.initializeDevice(LABEL)
        self._core.setCameraDevice(LABEL)
        return LABEL
