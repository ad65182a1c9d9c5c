"""The far end of a link for a test, in memory: exact bytes in, scripted bytes out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from drivers.transport.opener import Streams
from drivers.transport.url import LineSettings, LinkUrl

Say = bytes | tuple[float, bytes]
"""Bytes to answer with: at once (after `Peer.delay_s`), or after a delay (s)."""
Answers = Callable[[bytes], Iterable[Say] | bytes | None]


class Peer:
    """Answers each write by `answers`; `sent` holds all requests in order."""

    def __init__(self, answers: Answers, *, delay_s: float = 0.01) -> None:
        self.answers = answers
        self.delay_s = delay_s
        self.sent: list[bytes] = []
        self.openings = 0
        self.refuse_to_open = False
        self.fail_on_write: Exception | None = None
        self.lines: list[LineSettings] = []
        self._reader: asyncio.StreamReader | None = None
        self._transport: _Transport | None = None

    async def open(self, _url: LinkUrl, line: LineSettings) -> Streams:
        """Open the peer's end of the line; give this method to a link as its opener.

        Args:
            line: The line settings that the link asks for; they are kept in `lines`.

        Returns:
            Streams of the driver's end of the line.

        Raises:
            ConnectionRefusedError: `refuse_to_open` is set.
        """
        if self.refuse_to_open:
            raise ConnectionRefusedError("the far end refuses")
        self.openings += 1
        self.lines.append(line)
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport = _Transport(self, protocol)
        protocol.connection_made(transport)
        self._reader, self._transport = reader, transport
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    def receive(self, data: bytes) -> None:
        """Record a request, and answer it.

        Args:
            data: Bytes that the driver wrote.
        """
        self.sent.append(data)
        said = self.answers(data)
        for n, say in enumerate(() if said is None else (said,) if isinstance(said, bytes) else said):
            delay_s, reply = say if isinstance(say, tuple) else (self.delay_s + 1e-6 * n, say)
            asyncio.get_running_loop().call_later(delay_s, self.say, reply)  # equal times would have no order

    def say(self, data: bytes) -> None:
        """Send bytes to the driver now, whether or not it has asked.

        Args:
            data: The bytes; a closed line drops them.
        """
        if self._transport is not None and not self._transport.is_closing() and self._reader is not None:
            self._reader.feed_data(data)

    def hang_up(self) -> None:
        """Close the line, as if the cable were pulled."""
        if self._transport is not None:
            self._transport.close()


class _Transport(asyncio.Transport):
    def __init__(self, peer: Peer, protocol: asyncio.StreamReaderProtocol) -> None:
        super().__init__()
        self._peer = peer
        self._protocol = protocol
        self._closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._peer.fail_on_write is not None:
            raise self._peer.fail_on_write
        if not self._closing:
            self._peer.receive(bytes(data))

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)
