"""Health on a port of its own (D6, A9)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from controller.process.health import ControllerHealth
from dashboards.health import serve_health
from dashboards.server import listen
from tests.dashboards.test_admission import idle_connections


class Controlled:
    """A controller whose loop ticks, or does not."""

    found = ControllerHealth(True, (), 0.4)

    def health(self) -> ControllerHealth:
        return self.found


@asynccontextmanager
async def answering() -> AsyncIterator[tuple[Controlled, int]]:
    controlled = Controlled()
    listening = listen("127.0.0.1", 0)
    port = int(listening.getsockname()[1])
    task = asyncio.create_task(serve_health(controlled, listening))
    await asyncio.sleep(0)
    try:
        yield controlled, port
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0, "it is closed with its task"


async def test_D6_health_fails_when_the_control_loop_has_not_ticked() -> None:
    async with answering() as (controlled, port), httpx.AsyncClient() as client:
        well = await client.get(f"http://127.0.0.1:{port}/health")
        assert (well.status_code, well.json()) == (200, {"ok": True, "reasons": [], "tick_age_s": 0.4})
        controlled.found = ControllerHealth(False, ("the control loop has not ticked yet",), float("inf"))
        ill = await client.get(f"http://127.0.0.1:{port}/health")
        assert ill.status_code == 503
        assert ill.json() == {"ok": False, "reasons": ["the control loop has not ticked yet"], "tick_age_s": None}


async def test_A9_health_answers_among_many_connections_and_to_garbage() -> None:
    async with answering() as (_, port):
        for sends in (b"", b"GET /hea", bytes(range(256))):
            async with idle_connections(port, 300, sends):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET /health HTTP/1.0\n\n")
                async with asyncio.timeout(5):
                    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 200")
                assert json.loads(body)["ok"] is True
                writer.close()
