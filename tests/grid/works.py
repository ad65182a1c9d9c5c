"""Relays and members with work leases in the test's own process. Each member has a network of its own on loopback."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import MappingProxyType

from grid.hub.hub import Hub
from grid.work.relay import RelayDaemon
from grid.work.served import Service, WorkingMember
from tests.grid.addresses import loopback_bases
from tests.grid.world import approved, running, until


@contextlib.asynccontextmanager
async def a_relay(folder: Path, hub: Hub, name: str) -> AsyncIterator[RelayDaemon]:
    """A relay that the hub uses."""
    daemon = RelayDaemon(await approved(folder, hub, name))
    await daemon.open("127.0.0.1", 0)
    async with running(daemon.run()):
        await until(lambda: any(point.member == daemon.link.membership.key.id for point in hub.work._relays))
        yield daemon


@contextlib.asynccontextmanager
async def workers(
    folder: Path, hub: Hub, *names: str, services: Mapping[str, Service] = MappingProxyType({})
) -> AsyncIterator[list[WorkingMember]]:
    """Members that take work, each with loopback addresses of its own."""
    async with contextlib.AsyncExitStack() as opened:
        found = []
        for name, base in zip(names, opened.enter_context(loopback_bases(len(names))), strict=True):
            known = await approved(folder, hub, name)
            member = WorkingMember(known, base=base, service=services.get(name))
            await opened.enter_async_context(running(member.run()))
            found.append(member)
        await until(lambda: all(each.standing.roles for each in found))
        yield found


async def ready(members: list[WorkingMember]) -> None:
    """Wait until all ranks of a job are joined."""
    await until(lambda: all(each.network is not None and each.network.ready.is_set() for each in members))


@contextlib.asynccontextmanager
async def echo(address: str, port: int = 0) -> AsyncIterator[int]:
    """A server that returns what it is sent; yields its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, address, port) as server:
        yield server.sockets[0].getsockname()[1]


async def echoed(address: str, port: int, data: bytes) -> bytes:
    """Send bytes to a server and return as many from it."""
    reader, writer = await asyncio.open_connection(address, port)
    writer.write(data)
    try:
        return await reader.readexactly(len(data))
    finally:
        writer.close()
