"""Cameras that give an image over HTTP: IP cameras, single-board computers, microscopes with a web server, the simulated lab.

Settings: `url`, the address of one image (PNG, TIFF, JPEG); `bits` of a 16-bit image that uses fewer. The exposure is sent as
`exposure_s` in the query; a server that does not know it ignores it, and then sets its own: switch automatic exposure off
there. Where the answer has them, the headers `X-Camera-Model`, `X-Camera-Serial` and `X-Camera-Bits` say who answers.
Colours are turned into grey. Needs the extra `[imaging]`.
"""

from __future__ import annotations

import io
import urllib.error
import urllib.request
from email.message import Message
from importlib import import_module
from typing import Any
from urllib.parse import urlencode, urlsplit, urlunsplit

import numpy as np

from drivers.cameras.camera import CameraError, CameraIdentity, Greys, Settings, require_exposure, require_open

REPLY_S = 30.0
"""Longest time for an image beyond its exposure."""
FIRST_EXPOSURE_S = 0.005
MAX_BYTES = 64_000_000
MAX_PIXELS = 50_000_000
FORMATS = ("PNG", "TIFF", "JPEG")


class HttpCamera:
    """A camera behind an address."""

    def __init__(self, settings: Settings) -> None:
        """Take a first image, which tells who answers.

        Raises:
            CameraError: The address is missing or wrong, or gives no image.
            ModuleNotFoundError: Pillow is not installed.
        """
        self._pillow: Any = import_module("PIL.Image")
        self._url = str(settings.get("url", ""))
        if urlsplit(self._url).scheme not in ("http", "https"):
            raise CameraError(
                f"“{self._url}” is no address of a camera. Next: write `url: http://…`, the address of one image, into its"
                " settings"
            )
        self._open = True
        image, headers = self._fetched(FIRST_EXPOSURE_S)
        where = urlsplit(self._url)
        self.identity = CameraIdentity(
            headers.get("X-Camera-Model") or f"camera at {where.hostname}", headers.get("X-Camera-Serial") or ""
        )
        self.bits = self._bits(settings, headers, image)

    def capture(self, exposure_s: float) -> Greys:
        """Expose once; see :class:`drivers.cameras.camera.Camera`."""
        require_open(self._open)
        require_exposure(exposure_s)
        image, headers = self._fetched(exposure_s)
        serial = headers.get("X-Camera-Serial") or ""
        if serial != self.identity.serial:
            raise CameraError(
                f"another camera answers at {self._url} (serial number {serial}, before {self.identity.serial}). Next: see"
                " which camera is there; the next image opens it again"
            )
        if int(image.max()) >= 2**self.bits:
            raise CameraError(
                f"a grey level of {int(image.max())} does not fit into {self.bits} bits. Next: correct `bits` in its settings"
            )
        return image

    def close(self) -> None:
        """Release the camera."""
        self._open = False

    def _bits(self, settings: Settings, headers: Message, image: Greys) -> int:
        said = settings.get("bits", headers.get("X-Camera-Bits") or 8 * image.itemsize)
        try:
            bits = int(said)
        except ValueError:
            bits = 0
        if not 1 <= bits <= 8 * image.itemsize:
            raise CameraError(
                f"the camera at {self._url} cannot have {said} bits: its pixels have {8 * image.itemsize}. Next: correct"
                " `bits` in its settings"
            )
        return bits

    def _fetched(self, exposure_s: float) -> tuple[Greys, Message]:
        where = urlsplit(self._url)
        query = "&".join(filter(None, (where.query, urlencode({"exposure_s": exposure_s}))))
        try:
            with urllib.request.urlopen(  # noqa: S310  (http and https only, see above)
                urlunsplit(where._replace(query=query)), timeout=REPLY_S + exposure_s
            ) as reply:
                content, headers = reply.read(MAX_BYTES + 1), reply.headers
        except (OSError, ValueError) as error:  # URLError is an OSError
            if isinstance(error, urllib.error.HTTPError):
                error.close()
            raise CameraError(
                f"no image comes from {self._url} ({error}). Likely cause: the camera or its server is off, or the address is"
                " wrong. Next: open the address in a browser"
            ) from error
        return self._greys(content), headers

    def _greys(self, content: bytes) -> Greys:
        try:
            if len(content) > MAX_BYTES:
                raise ValueError(f"more than {MAX_BYTES // 1_000_000} MB")
            with self._pillow.open(io.BytesIO(content), formats=FORMATS) as image:
                if image.width * image.height > MAX_PIXELS:
                    raise ValueError(f"{image.width} × {image.height} pixels")
                if image.mode.startswith("I"):
                    return np.array(image).astype(np.uint16)
                return np.array(image.convert("L"))
        except Exception as error:  # Pillow raises many kinds for a broken file
            raise CameraError(
                f"what {self._url} gives is no image that can be used ({error}). Next: give the address of one image as PNG,"
                " TIFF or JPEG, not of a page or a video"
            ) from error
