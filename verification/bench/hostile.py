"""Hostile sockets at a web server, from a separate process, for `choroid verify bench estop` and a test.

They are idle, send slowly, send half a request, garbage, or WebSocket upgrades without credentials, or come and go.
Each reconnects when it is closed. The process prints `ready` when all have been opened once, and ends with its
standard input.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import sys
from collections.abc import Awaitable, Callable
from itertools import cycle, islice

BACK_AFTER_S = 0.1
STAY_S = 0.05

Attack = Callable[[asyncio.StreamReader, asyncio.StreamWriter, str], Awaitable[None]]


async def _idle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
    await reader.read()


async def _slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
    for byte in f"POST /api/estop HTTP/1.1\r\nHost: {host}\r\nX-Slow: {'x' * 4000}".encode():
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0.5)


async def _half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
    writer.write(f"POST /api/estop HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5000\r\n\r\n{{".encode())
    await reader.read()


async def _garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
    writer.write(bytes(range(256)) * 16 + b"\r\n\r\n")
    await reader.read()


async def _upgrade(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
    writer.write(
        f"GET /ws HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    while await reader.read(4096):
        pass
    await asyncio.sleep(1.0)


async def _churn(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
    await asyncio.sleep(STAY_S)


ATTACKS: tuple[Attack, ...] = (_idle, _slow, _half, _garbage, _upgrade, _churn)


async def attack(host: str, port: int, count: int) -> None:
    """Open `count` sockets and keep reconnecting, until standard input ends."""
    opened: set[int] = set()
    all_open = asyncio.Event()

    async def one(number: int, how: Attack) -> None:
        while True:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection(host, port)
                opened.add(number)
                if len(opened) == count:
                    all_open.set()
                try:
                    await how(reader, writer, f"{host}:{port}")
                finally:
                    writer.transport.abort()
            await asyncio.sleep(BACK_AFTER_S)

    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), lambda: None if os.read(sys.stdin.fileno(), 1) else over.set())
    sockets = [asyncio.create_task(one(n, how)) for n, how in enumerate(islice(cycle(ATTACKS), count))]
    await all_open.wait()
    print("ready", flush=True)
    await over.wait()
    loop.remove_reader(sys.stdin.fileno())
    for task in sockets:
        task.cancel()
    await asyncio.gather(*sockets, return_exceptions=True)


if __name__ == "__main__":
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(attack(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
