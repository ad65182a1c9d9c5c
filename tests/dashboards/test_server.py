"""The server on a real socket: bad clients get an answer or are disconnected, and it ends on request."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx
import pytest
import websockets

from dashboards.admission import UNKNOWN_IDLE_S
from dashboards.auth import Role
from dashboards.server import serve
from sim.virtual_time import ScaledLoop, run_scaled
from tests.dashboards.world import World, world

SCALE = 60.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def serving(*, scale: float = 1.0) -> AsyncIterator[tuple[World, int]]:
    async with world() as w:
        if scale != 1.0:
            w.app.state.speed.set_speed(scale)
        port = free_port()
        task = asyncio.create_task(serve(w.app, "127.0.0.1", port, time_scale=scale))
        try:
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    await asyncio.sleep(0.01)
                    continue
                writer.close()
                await writer.wait_closed()
                break
            yield w, port
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def spoken(port: int, data: bytes) -> bytes:
    """Send bytes, and return all that is answered before the far end closes (nothing, if it hangs up on us)."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def request(headers: str, path: str = "/api/estop", verb: str = "POST") -> bytes:
    return f"{verb} {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n".encode()


async def test_S3_malformed_and_oversized_requests_get_an_answer_and_change_nothing() -> None:
    async with serving() as (w, port):
        token = f"Authorization: Bearer {w.tokens[Role.ADMIN]}\r\nHost: 127.0.0.1:{port}\r\n"
        before = w.changes()
        for data, status in (
            (b"\x00\x01\x02\x03\r\n\r\n", b"400"),
            (b"GET / HTTP/x\r\n\r\n", b"400"),
            (b"GET / HTTP/1.0\r\n\r\n", b"403"),
            (b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n", b"400"),
            (request(token + "X: " + "y" * 200_000 + "\r\n"), b"400"),
            (request(token + "Content-Length: 99999999999\r\n"), b"413"),
            (request(token + "Content-Length: 3\r\n") + b"{{{", b"422"),
            (request(token + "Content-Length: -1\r\n"), b"400"),
            (request("Host: a\r\nHost: b\r\n"), b"400"),
        ):
            answer = await spoken(port, data)
            hung_up = answer == b"" and len(data) > 100_000
            assert hung_up or answer.startswith(b"HTTP/1.1 " + status), (data[:40], answer[:200])
        assert w.changes() == before
        async with httpx.AsyncClient() as client:
            assert (await client.get(f"http://127.0.0.1:{port}/health")).status_code == 200


async def test_S3_a_body_without_end_is_cut_off_at_its_limit() -> None:
    async with serving() as (w, port):
        token = f"Authorization: Bearer {w.tokens[Role.ADMIN]}\r\nHost: 127.0.0.1:{port}\r\n"
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request(token + "Transfer-Encoding: chunked\r\n"))
        sent = 0
        with contextlib.suppress(OSError):  # reset or broken pipe, as the system likes
            while sent < 50_000_000:
                writer.write(b"1000\r\n" + b"z" * 4096 + b"\r\n")
                await writer.drain()
                sent += 4096
        writer.close()
        assert sent < 20_000_000
        assert w.controller.gate.emergency is None


def scaled(test: Callable[[], Awaitable[None]]) -> None:
    """Run on a loop sixty times as fast as life, as the demo does."""

    async def whole() -> None:
        assert isinstance(asyncio.get_running_loop(), ScaledLoop)
        await test()

    run_scaled(whole(), SCALE)


def test_S3_a_slow_request_is_given_up_and_an_idle_connection_closed() -> None:
    async def test() -> None:
        async with serving(scale=1.0) as (w, port):
            token = f"Authorization: Bearer {w.tokens[Role.ADMIN]}\r\nHost: 127.0.0.1:{port}\r\n"
            loop = asyncio.get_running_loop()
            begin_s = loop.time()
            idle = asyncio.create_task(spoken(port, b"POST /api/es"))
            slow = asyncio.create_task(spoken(port, request(token + "Content-Length: 50\r\n") + b"{"))
            assert await idle == b""
            assert (await slow).startswith(b"HTTP/1.1 408")
            assert UNKNOWN_IDLE_S * 0.9 < loop.time() - begin_s < UNKNOWN_IDLE_S * 3
            assert w.controller.gate.emergency is None

    scaled(test)


def test_a_page_stays_connected_in_scaled_time_and_is_told_when_the_controller_ends() -> None:
    async def test() -> None:
        async with serving(scale=SCALE) as (w, port):
            headers = {"Authorization": f"Bearer {w.tokens[Role.VIEWER]}"}
            uri = f"ws://127.0.0.1:{port}/ws"
            async with websockets.connect(
                uri, additional_headers=headers, open_timeout=600, ping_interval=None, close_timeout=600
            ) as page:
                begin = time.monotonic()
                for _ in range(5):
                    await page.recv()
                assert 0.5 < time.monotonic() - begin < 10  # four a second of real time, not of the loop's
                ending = time.monotonic()
                w.app.state.feed.close()
                with contextlib.suppress(websockets.ConnectionClosed):
                    while True:
                        await page.recv()
                assert page.close_code == 1012
                assert time.monotonic() - ending < 5

    scaled(test)


async def test_cancelling_ends_the_server_within_a_second() -> None:
    async with world() as w:
        port = free_port()
        task = asyncio.create_task(serve(w.app, "127.0.0.1", port))
        await asyncio.sleep(0.3)
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {w.tokens[Role.VIEWER]}"}) as client:
            assert (await client.get(f"http://127.0.0.1:{port}/api/rig")).status_code == 200
            async with websockets.connect(
                f"ws://127.0.0.1:{port}/ws", additional_headers={"Authorization": f"Bearer {w.tokens[Role.VIEWER]}"}
            ) as page:
                await page.recv()
                task.cancel()
                async with asyncio.timeout(3):
                    with pytest.raises(asyncio.CancelledError):
                        await task
        with pytest.raises(OSError):  # noqa: PT011
            await asyncio.open_connection("127.0.0.1", port)


async def test_a_taken_port_is_said_with_a_next_step() -> None:
    async with world() as w:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            with pytest.raises(OSError, match="--port"):
                await serve(w.app, "127.0.0.1", taken.getsockname()[1])


async def test_who_is_given_the_port_may_connect_at_once() -> None:
    connected: list[bool] = []

    def connect(port: int) -> None:
        with socket.create_connection(("127.0.0.1", port), timeout=5.0):
            connected.append(True)

    async with world() as w:
        serving = asyncio.create_task(serve(w.app, "127.0.0.1", 0, opened=connect))
        while not connected and not serving.done():
            await asyncio.sleep(0.01)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
    assert connected
