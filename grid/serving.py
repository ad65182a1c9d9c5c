"""Serve HTTP. Idle and slow connections cannot stop it: their number and their time are bounded."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from grid.errors import GridError

MAX_CONNECTIONS = 128
"""When one more comes, the oldest ends."""
HEAD_WITHIN_S = 10
"""A connection without a complete request ends after this time."""
QUEUE = 1024


async def serve(app: ASGIApp, listening: socket.socket) -> None:
    """Serve `app` on `listening` until cancelled."""
    config = uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        lifespan="off",
        http=_bounded(),
        ws="none",
        backlog=QUEUE,
        timeout_keep_alive=HEAD_WITHIN_S,
        timeout_graceful_shutdown=1,
        server_header=False,
        date_header=False,
    )
    server = _Server(config)
    running = asyncio.ensure_future(server.serve(sockets=[listening]))
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        server.should_exit = True
        await running
        raise


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on `port` of `host`. Raises :class:`GridError` when that is not possible."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(QUEUE)
    except OSError as error:
        listening.close()
        raise GridError(
            f"nothing can be served on {host}:{port} ({error.strerror}). Likely cause: another program has that port."
            " Next: choose another with --port where the command has it, or end it"
        ) from None
    return listening


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no signal handlers: the command has its own."""
        yield


def _bounded() -> type[H11Protocol]:
    """Return uvicorn's HTTP with a bound on the number of connections and on the time without a request."""
    open_ones: OrderedDict[H11Protocol, None] = OrderedDict()

    class Http(H11Protocol):
        def __init__(self, *options: Any, **more: Any) -> None:
            super().__init__(*options, **more)
            self._waiting: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            open_ones[self] = None
            self._waiting = self.loop.call_later(HEAD_WITHIN_S, self._end_silent)
            if len(open_ones) > MAX_CONNECTIONS:
                oldest, _ = open_ones.popitem(last=False)
                oldest.transport.abort()

        def connection_lost(self, exc: Exception | None) -> None:
            open_ones.pop(self, None)
            if self._waiting is not None:
                self._waiting.cancel()
            super().connection_lost(exc)

        def _end_silent(self) -> None:
            if self.cycle is None:
                self.transport.abort()

    return Http
