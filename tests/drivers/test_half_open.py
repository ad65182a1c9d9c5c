"""A TCP peer that vanishes silently, over real sockets: it is detected by its silence, and the link is opened again (C1)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from drivers.conformance.wire import HALF_OPEN_S
from drivers.device import DeviceConfig
from drivers.errors import DeviceError
from drivers.mettler_sics import MettlerSics
from drivers.transport.link import Link
from drivers.transport.opener import open_real
from drivers.transport.url import LinkUrl
from sim.devices.mettler_sics import MettlerSics as Balance
from sim.devices.wire import Bus
from sim.serving import TcpClient
from sim.virtual_time import run_scaled
from tests.sim.bench import RecordingPlant, device_on_a_line


class Proxy:
    """Carries bytes between clients and a server until told to keep its connections and carry nothing."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._carrying: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self.connections = 0

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers += [writer, far_writer]
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            self._carrying.add(asyncio.create_task(self._carry(source, sink)))

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await source.read(4096):
                sink.write(data)

    def die(self) -> None:
        """All connections of now stay open and carry nothing; later ones work."""
        for task in self._carrying:
            task.cancel()
        self._carrying.clear()

    async def close(self) -> None:
        self.die()
        for writer in self._writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


@asynccontextmanager
async def balance_behind_a_proxy() -> AsyncIterator[tuple[Proxy, int]]:
    device = device_on_a_line(Balance, RecordingPlant(d__mass=100.0))
    line = device.line
    assert isinstance(line, Bus)
    server = await asyncio.get_running_loop().create_server(lambda: TcpClient(line), "127.0.0.1", 0)
    proxy = Proxy(server.sockets[0].getsockname()[1])
    front = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
    try:
        yield proxy, front.sockets[0].getsockname()[1]
    finally:
        await asyncio.sleep(0.1)  # who has just come is let in first
        front.close()
        server.close()
        await proxy.close()
        line.unplug()
        device.power_off()
        await asyncio.sleep(0.1)


async def _half_open() -> tuple[float, int]:
    """How long until a reading is had again after the peer has vanished (s), and how often the proxy was dialled."""
    loop = asyncio.get_running_loop()
    async with balance_behind_a_proxy() as (proxy, port):
        link = Link(LinkUrl.parse(f"tcp://127.0.0.1:{port}"), open_real, line=MettlerSics.line)
        scale = MettlerSics(link, DeviceConfig("d"))
        assert await link.start() == {}
        assert await scale.sensors["mass"].read() == pytest.approx(100.0)
        proxy.die()
        died_s = loop.time()
        while loop.time() < died_s + 2 * HALF_OPEN_S:
            try:
                await scale.sensors["mass"].read()
                break
            except DeviceError:
                await asyncio.sleep(1.0)
        lasted_s = loop.time() - died_s
        await link.close()
        return lasted_s, proxy.connections


def test_C1_a_peer_that_vanished_silently_is_connected_again() -> None:
    lasted_s, connections = run_scaled(_half_open(), 10.0)
    assert lasted_s < HALF_OPEN_S
    assert connections == 2


async def test_C1_the_system_is_told_to_notice_a_dead_machine_within_ten_seconds() -> None:
    async with balance_behind_a_proxy() as (_, port):
        _, writer = await open_real(LinkUrl.parse(f"tcp://127.0.0.1:{port}"), MettlerSics.line)
        sock = writer.get_extra_info("socket")
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        idle_s, every_s, times = (
            sock.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        )
        assert idle_s + every_s * times <= 10
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) <= 10_000
        writer.close()
        await writer.wait_closed()
