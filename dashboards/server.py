"""The web server, on the controller's own event loop.

That loop's time may run faster than life (the demo), so every patience of the server's is given in loop seconds:
`time_scale` real seconds' worth. Signals are the front door's business, not the server's.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

KEEP_ALIVE_S = 30.0
FIRST_REQUEST_S = 10.0
"""A connection that has asked nothing whole for so long is closed, so that idle ones cannot crowd people out."""
GRACE_S = 0.5
MOST_CONNECTIONS = 256
MOST_MESSAGE_BYTES = 16_384


async def serve(app: FastAPI, host: str, port: int, *, time_scale: float = 1.0) -> None:
    """Serve `app` until cancelled; then everything is closed within a second of real time.

    `time_scale`: how many times faster than life the loop's time runs at most. Raises OSError when the port is taken,
    with the port and what to do.
    """
    listening = _listen(host, port)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="off",
        http=_impatient(FIRST_REQUEST_S * time_scale),
        ws="websockets-sansio",
        ws_max_size=MOST_MESSAGE_BYTES,
        ws_ping_interval=None,  # pings in scaled time would cut honest pages off; the feed is its own heartbeat
        ws_per_message_deflate=True,
        timeout_keep_alive=int(KEEP_ALIVE_S * time_scale),
        timeout_graceful_shutdown=max(1, int(GRACE_S * time_scale)),
        limit_concurrency=MOST_CONNECTIONS,
        server_header=False,
        date_header=False,
    )
    server = _Server(config)
    running = asyncio.ensure_future(server.serve(sockets=[listening]))
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        app.state.feed.close()
        server.end()
        await running
        raise
    finally:
        listening.close()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise OSError(
            error.errno,
            f"the page cannot be served on {host}:{port} ({error.strerror}). Likely cause: another program has that"
            " port. Next: choose another with --port, or end the other program",
        ) from None
    return listening


class _Server(uvicorn.Server):
    """Leaves signals to the front door, and waits for its end instead of asking ten times a second."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ending = asyncio.Event()

    def end(self) -> None:
        """Close now."""
        self.should_exit = True
        self._ending.set()

    async def main_loop(self) -> None:
        """Until :meth:`end`."""
        await self._ending.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """None of its own."""
        yield


def _impatient(patience_s: float) -> type[H11Protocol]:
    """uvicorn's HTTP, closing a connection that does not get its first request across in `patience_s` (loop time)."""

    class Impatient(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._giving_up = self.loop.call_later(patience_s, self._give_up)

        def connection_lost(self, exc: Exception | None) -> None:
            self._giving_up.cancel()
            super().connection_lost(exc)

        def _give_up(self) -> None:
            upgraded = self.transport.get_protocol() is not self
            if self.cycle is None and not upgraded and not self.transport.is_closing():
                self.transport.close()

    return Impatient
