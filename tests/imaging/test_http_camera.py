"""Cameras over HTTP: the served laboratory's, and servers that give no image."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from controller.rig.loading import load_rig
from drivers.cameras.camera import CameraError, Settings
from drivers.cameras.conformance import examine
from drivers.cameras.http import HttpCamera
from drivers.cameras.registry import open_camera
from sim.camera.scene import BITS, TissueInView
from sim.camera.serving import CameraServer, ServedCamera, png
from sim.lab import SimulatedLab

RIGS = Path(__file__).resolve().parents[2] / "examples" / "rigs"
QUIET = {"bubble": 0.0, "out_of_focus": 0.0, "seed": 7}


@asynccontextmanager
async def served(**looks: TissueInView | None) -> AsyncIterator[Mapping[str, str]]:
    cameras = {name: ServedCamera(partial(dict.__getitem__, looks, name), QUIET, 8.0) for name in looks}
    server = CameraServer(cameras)
    try:
        yield await server.start("127.0.0.1", 0)
    finally:
        await server.close()


@asynccontextmanager
async def answering(content: bytes, status: str = "200 OK", headers: str = "") -> AsyncIterator[str]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(content)}\r\n{headers}\r\n".encode() + content)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/image?channel=1"
    finally:
        server.close()
        await server.wait_closed()


def encoded(image: Image.Image, form: str) -> bytes:
    written = io.BytesIO()
    image.save(written, form)
    return written.getvalue()


async def test_the_served_camera_conforms() -> None:
    async with served(scope=TissueInView(2.5)) as addresses:
        opened = partial(open_camera, "http", {"url": addresses["scope"]})
        assert await asyncio.to_thread(examine, opened) == []
        camera = await asyncio.to_thread(opened)
        assert camera.identity.model == "simulated camera"
        assert camera.identity.serial == "0007"
        assert camera.bits == BITS


async def test_the_served_laboratory_shows_the_tissue_of_its_chamber() -> None:
    lab = SimulatedLab(load_rig(RIGS / "bench_camera.yaml"), seed=1)
    try:
        addresses = await lab.serve_cameras()
        assert set(addresses) == {"scope"}
        camera = await asyncio.to_thread(HttpCamera, {"url": addresses["scope"]})
        image = await asyncio.to_thread(camera.capture, 0.02)
        assert image.shape == (640, 640)
        assert image.dtype == np.uint16
        assert image.min() < 0.8 * np.median(image), "tissue is dark before the light"
        with pytest.raises(CameraError, match="404"):
            await asyncio.to_thread(HttpCamera, {"url": f"{addresses['scope']}s"})
    finally:
        await lab.close()


@pytest.mark.parametrize("seed", range(5))
def test_the_PNG_that_is_served_is_read_as_it_was(seed: int) -> None:
    random = np.random.default_rng(seed)
    image = random.integers(0, 65_536, size=tuple(random.integers(1, 90, 2)), dtype=np.uint16)
    read = np.array(Image.open(io.BytesIO(png(image))))
    assert np.array_equal(read.astype(np.uint16), image)


@pytest.mark.parametrize("form", ["PNG", "JPEG", "TIFF"])
async def test_a_camera_that_knows_no_header_gives_grey_levels_of_8_bits(form: str) -> None:
    picture = Image.new("RGB", (32, 16), (200, 200, 200))
    async with answering(encoded(picture, form)) as url:
        camera = await asyncio.to_thread(HttpCamera, {"url": url})
        image = await asyncio.to_thread(camera.capture, 0.02)
        assert image.shape == (16, 32)
        assert image.dtype == np.uint8
        assert int(image.mean()) == 200
        assert camera.bits == 8
        assert camera.identity.model == "camera at 127.0.0.1"


REFUSED: dict[str, tuple[bytes, str, Settings, str]] = {
    "a page": (b"<html>video</html>", "200 OK", {}, "not of a page"),
    "half an image": (encoded(Image.new("L", (64, 64), 9), "PNG")[:60], "200 OK", {}, "no image that can be used"),
    "an error": (b"", "503 Service Unavailable", {}, "503"),
    "too many bits": (encoded(Image.new("L", (4, 4), 9), "PNG"), "200 OK", {"bits": 12}, "cannot have 12 bits"),
    "no number of bits": (encoded(Image.new("L", (4, 4), 9), "PNG"), "200 OK", {"bits": "x"}, "cannot have x bits"),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_what_is_no_image_is_refused_with_the_next_action(case: str) -> None:
    content, status, settings, said = REFUSED[case]
    async with answering(content, status) as url:
        with pytest.raises(CameraError, match=said) as refused:
            await asyncio.to_thread(HttpCamera, {"url": url, **settings})
        assert "Next: " in str(refused.value)


async def test_an_image_too_bright_for_its_bits_and_another_camera_at_the_address_are_refused() -> None:
    async with answering(encoded(Image.new("L", (4, 4), 200), "PNG")) as url:
        camera = await asyncio.to_thread(HttpCamera, {"url": url, "bits": 7})
        with pytest.raises(CameraError, match="does not fit into 7 bits"):
            await asyncio.to_thread(camera.capture, 0.02)
    async with answering(encoded(Image.new("L", (4, 4), 9), "PNG"), headers="X-Camera-Serial: 1\r\n") as url:
        camera = await asyncio.to_thread(HttpCamera, {"url": url})
        camera.identity = camera.identity.__class__(camera.identity.model, "2")
        with pytest.raises(CameraError, match="another camera answers"):
            await asyncio.to_thread(camera.capture, 0.02)


@pytest.mark.parametrize("url", ["", "file:///etc/hostname", "scope.local/image", "ftp://scope/image"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(CameraError, match="no address of a camera"):
        HttpCamera({"url": url})


def test_a_simulated_camera_in_a_real_run_says_how_to_have_it_served() -> None:
    with pytest.raises(CameraError, match="choroid lab serve"):
        open_camera("simulated", {})
