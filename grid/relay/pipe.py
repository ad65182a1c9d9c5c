"""Copy bytes between an encrypted tunnel and a local TCP connection, in both directions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from grid.relay.tls import TlsChannel

READ_BYTES = 1 << 18


async def _at_once() -> None:
    """Wait for nothing."""


async def pipe(
    channel: TlsChannel,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    before: Callable[[], Awaitable[None]] = _at_once,
) -> None:
    """Copy until one side ends; then end the other.

    Args:
        channel: The tunnel.
        reader: What the local connection receives.
        writer: What the local connection sends.
        before: Is awaited after something was received locally, before it goes into the tunnel.
    """

    async def outward() -> None:
        while data := await reader.read(READ_BYTES):
            await before()
            await channel.write(data)
        await channel.close()

    async def inward() -> None:
        while data := await channel.read():
            writer.write(data)
            await writer.drain()

    tasks = [asyncio.create_task(outward()), asyncio.create_task(inward())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        writer.close()  # what has arrived is handed over first
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    finally:
        writer.transport.abort()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
