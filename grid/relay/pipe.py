"""Copy bytes between an encrypted tunnel and a local TCP connection, in both directions."""

from __future__ import annotations

import asyncio
import contextlib

from grid.relay.tls import TlsChannel

READ_BYTES = 1 << 16


async def pipe(channel: TlsChannel, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until one side ends; then end the other."""

    async def outward() -> None:
        while data := await reader.read(READ_BYTES):
            await channel.write(data)
        await channel.close()

    async def inward() -> None:
        while data := await channel.read():
            writer.write(data)
            await writer.drain()

    tasks = [asyncio.create_task(outward()), asyncio.create_task(inward())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        writer.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(OSError):
            await writer.wait_closed()
