"""The test that every camera driver passes: `examine` tries an open camera and says what is wrong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from drivers.cameras.camera import Camera, CameraError

SHORT_S, LONG_S = 0.005, 0.02


def examine(open_one: Callable[[], Camera], *, follows_exposure: bool = True) -> list[str]:
    """Return what a camera does wrong; empty if it conforms.

    Args:
        open_one: Opens the camera; called twice.
        follows_exposure: Whether a longer exposure must be brighter; a test pattern need not be.
    """
    wrong: list[str] = []
    camera = open_one()
    if not camera.identity.model:
        wrong.append("it does not say its model")
    if not 1 <= camera.bits <= 16:
        wrong.append(f"{camera.bits} bits are not 1 to 16")
    first, second = camera.capture(SHORT_S), camera.capture(SHORT_S)
    for image in (first, second):
        if image.ndim != 2 or image.dtype not in (np.dtype(np.uint8), np.dtype(np.uint16)):
            wrong.append(
                f"an image has shape {image.shape} and type {image.dtype}, not rows × columns of uint8 or uint16"
            )
        elif int(image.max()) >= 2**camera.bits:
            wrong.append(f"a grey level of {image.max()} does not fit into {camera.bits} bits")
    kept = first.copy()
    camera.capture(LONG_S)
    if np.shares_memory(first, second) or not np.array_equal(first, kept):
        wrong.append("a later exposure overwrites an earlier image")
    if follows_exposure and float(camera.capture(LONG_S).mean()) <= float(first.mean()):
        wrong.append("a longer exposure is not brighter")
    for impossible in (0.0, -1.0, float("nan"), 1e6):
        if not _refuses(camera, impossible):
            wrong.append(f"it takes an exposure of {impossible} s")
    camera.close()
    camera.close()
    if not _refuses(camera, SHORT_S):
        wrong.append("it gives an image after it was closed")
    again = open_one()
    if again.identity != camera.identity or again.capture(SHORT_S).shape != first.shape:
        wrong.append("opened again it is another camera")
    again.close()
    return wrong


def _refuses(camera: Camera, exposure_s: float) -> bool:
    try:
        camera.capture(exposure_s)
    except CameraError:
        return True
    return False
