"""A slow line for measurements: a TCP proxy that keeps every byte for a fixed time, in order, in both directions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

READ_BYTES = 1 << 16
MAX_PARTS = 1024


@contextlib.asynccontextmanager
async def slow_line(host: str, port: int, delay_s: float) -> AsyncIterator[int]:
    """Yield a local port whose connections lead to host and port, `delay_s` later in each direction."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(host, port)
        for source, target in ((reader, there_writer), (there_reader, writer)):
            task = asyncio.create_task(_carry(source, target, delay_s))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


async def _carry(source: asyncio.StreamReader, target: asyncio.StreamWriter, delay_s: float) -> None:
    """Copy until the source ends; each part leaves `delay_s` after it came."""
    loop = asyncio.get_running_loop()
    parts: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(MAX_PARTS)

    async def read() -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(READ_BYTES):
                await parts.put((loop.time() + delay_s, data))
        await parts.put((loop.time() + delay_s, b""))

    reading = asyncio.create_task(read())
    try:
        while True:
            due, data = await parts.get()
            await asyncio.sleep(due - loop.time())
            if not data:
                return
            target.write(data)
            await target.drain()
    except OSError:
        return
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        target.close()
