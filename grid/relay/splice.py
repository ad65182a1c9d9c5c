"""Copy bytes between two TCP connections, in both directions, with buffers of a fixed size."""

from __future__ import annotations

import asyncio
import socket
from typing import cast

BUFFER_BYTES = 1 << 18
"""What waits for a slow end, in each direction; the system's windows add to it."""
KEEPALIVE_S = 30


def tuned(transport: asyncio.BaseTransport) -> None:
    """Find out about an end that has vanished, and bound what waits for it."""
    found = transport.get_extra_info("socket")
    found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):
        if hasattr(socket, option):
            found.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), KEEPALIVE_S)
    cast(asyncio.WriteTransport, transport).set_write_buffer_limits(BUFFER_BYTES)


async def spliced(one: asyncio.WriteTransport, other: asyncio.WriteTransport) -> None:
    """Copy until both directions have ended, or one connection is lost; then both are closed.

    Nothing may have arrived on either connection that was not read.
    """
    ended, sending = asyncio.get_running_loop().create_future(), {one, other}
    try:
        for source, sink in ((one, other), (other, one)):
            source.set_protocol(_Half(cast(asyncio.Transport, sink), sending, ended))
        await ended
    except asyncio.CancelledError:  # their right has ended: what waits is not sent
        one.abort()
        other.abort()
        raise
    finally:
        one.close()
        other.close()


class _Half(asyncio.Protocol):
    """Writes what one connection receives to the other. `sending` are the connections that still get something to send."""

    def __init__(
        self, sink: asyncio.Transport, sending: set[asyncio.WriteTransport], ended: asyncio.Future[None]
    ) -> None:
        self._sink = sink
        self._sending = sending
        self._ended = ended

    def data_received(self, data: bytes) -> None:
        self._sink.write(data)

    def pause_writing(self) -> None:
        self._sink.pause_reading()

    def resume_writing(self) -> None:
        if not self._sink.is_closing():
            self._sink.resume_reading()

    def eof_received(self) -> bool:
        if not self._sink.is_closing():
            self._sink.write_eof()
        self._sending.discard(self._sink)
        if not self._sending:
            self.connection_lost(None)
        return True

    def connection_lost(self, _: Exception | None) -> None:
        if not self._ended.done():
            self._ended.set_result(None)
