"""Serve simulated cameras over HTTP: `GET /NAME?exposure_s=0.02` answers with one image as PNG, 16 bits of grey.

For the served laboratory: a client in another process gets the image as from a camera with a web server of its own.
"""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import Callable, Mapping
from urllib.parse import parse_qs, urlsplit

import numpy as np
from numpy.typing import NDArray

from sim.camera.camera import USUAL_EXPOSURE_S, SimulatedCamera
from sim.camera.scene import BITS, TissueInView

Look = Callable[[], TissueInView | None]
HEAD_S = 10.0
"""Longest time (s) for the head of a request."""


class ServedCamera:
    """A camera whose view is looked up in the laboratory's thread, while it renders in another."""

    def __init__(self, look: Look, settings: Mapping[str, float | bool | str], pixel_um: float) -> None:
        self._look = look
        self._seen: TissueInView | None = None
        self._turn = asyncio.Lock()
        self.camera = SimulatedCamera.with_settings(settings, pixel_um, lambda: self._seen)

    async def image(self, exposure_s: float) -> NDArray[np.uint16]:
        """Expose once. Raises ValueError for no exposure."""
        async with self._turn:
            self._seen = self._look()
            return await asyncio.to_thread(self.camera.capture, exposure_s)


class CameraServer:
    """The web server of some cameras."""

    def __init__(self, cameras: Mapping[str, ServedCamera]) -> None:
        self._cameras = cameras
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> dict[str, str]:
        """Listen (port 0: any that is free). Return the address of each camera's image."""
        self._server = await asyncio.start_server(self._answer, host, port)
        shown = f"[{host}]" if ":" in host else host
        bound = self._server.sockets[0].getsockname()[1]
        return {name: f"http://{shown}:{bound}/{name}" for name in self._cameras}

    async def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(HEAD_S):
                head = await reader.readuntil(b"\r\n\r\n")
            writer.write(await self._reply(head))
            await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a client that says nothing, or has left
        finally:
            writer.close()

    async def _reply(self, head: bytes) -> bytes:
        try:
            method, target, _ = head.split(b"\r\n", 1)[0].decode("ascii").split(" ")
            where = urlsplit(target)
            served = self._cameras[where.path.removeprefix("/")]
            exposure_s = float(parse_qs(where.query).get("exposure_s", [str(USUAL_EXPOSURE_S)])[0])
            if method != "GET":
                raise ValueError(method)
            image = await served.image(exposure_s)
        except KeyError:
            return _message("404 Not Found", f"cameras: {', '.join(self._cameras)}\n".encode(), "text/plain")
        except ValueError as error:
            return _message("400 Bad Request", f"{error}\n".encode(), "text/plain")
        said = served.camera.identity
        return _message(
            "200 OK",
            png(image),
            "image/png",
            {"X-Camera-Model": said.model, "X-Camera-Serial": said.serial, "X-Camera-Bits": str(BITS)},
        )


def png(image: NDArray[np.uint16]) -> bytes:
    """Return grey levels, shape (rows, columns), as PNG of 16 bits (ISO/IEC 15948)."""
    rows, columns = image.shape
    lines = np.zeros((rows, 1 + 2 * columns), dtype=np.uint8)  # each line begins with the number of its filter: none
    lines[:, 1:] = image.astype(">u2").view(np.uint8).reshape(rows, 2 * columns)
    head = struct.pack(">IIBBBBB", columns, rows, 16, 0, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(lines.tobytes(), 1)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )


def _message(status: str, body: bytes, kind: str, headers: Mapping[str, str] | None = None) -> bytes:
    lines = {"Content-Type": kind, "Content-Length": str(len(body)), "Connection": "close", **(headers or {})}
    text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status}\r\n{text}\r\n".encode() + body
