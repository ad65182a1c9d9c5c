"""A member's lines to relays: where it can be called, how far away each relay is, and over which one a tunnel goes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from statistics import median

from grid.errors import GridError, GridRefused
from grid.identity.keys import IdentityKey
from grid.relay.messages import framed, read_message, signed_entry
from grid.relay.splice import tuned
from grid.relay.tls import TlsChannel
from grid.wire import grid_pb2 as pb

logger = logging.getLogger(__name__)

PING_S = 1.0
SILENT_S = 3.0
"""A relay that does not answer a ping within this time is given up, and dialled again."""
GONE_S = 10.0
"""After this time without an answer, new dials included, tunnels through a relay end: its host may have vanished."""
AGAIN_S = 0.5
DIAL_S = 5.0
JOIN_S = 15.0
SAMPLES = 5
STREAM_BYTES = 1 << 18
"""What is read at once, and waits in a connection of a tunnel."""


class RelayLine:
    """The line to one relay.

    Attributes:
        point: The relay.
        round_trips_s: Sum of both ends' round trips to this relay (s), by peer that waits there; empty while it is away.
    """

    def __init__(
        self, key: IdentityKey, point: pb.RelayPoint, called: Callable[[RelayLine, pb.TunnelCall], None]
    ) -> None:
        self._key = key
        self.point = point
        self._called = called
        self._samples: deque[float] = deque(maxlen=SAMPLES)
        self._sent_at: dict[int, float] = {}
        self._answered_at = asyncio.get_running_loop().time()
        self._channels: set[asyncio.StreamWriter] = set()
        self.round_trips_s: dict[str, float] = {}

    async def run(self) -> None:
        """Keep the line until cancelled."""
        said = ""
        while True:
            try:
                async with self.entered(pb.RelayEntry()) as (reader, writer):
                    said = ""
                    await self._wait(reader, writer)
            except (GridError, OSError, TimeoutError) as error:
                if str(error) != said:
                    said = str(error)
                    logger.info("no line to the relay at %s:%d: %s", self.point.host, self.point.port, error)
            finally:
                self.round_trips_s = {}
            if asyncio.get_running_loop().time() > self._answered_at + GONE_S:
                for writer in self._channels:
                    writer.transport.abort()
            await asyncio.sleep(AGAIN_S)

    @contextlib.asynccontextmanager
    async def entered(self, entry: pb.RelayEntry) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Yield a connection to the relay after it has let this member in.

        Raises:
            GridRefused: The relay refuses.
            GridError: It cannot be reached, or has ended the connection.
        """
        try:
            async with asyncio.timeout(DIAL_S):
                reader, writer = await asyncio.open_connection(self.point.host, self.point.port, limit=STREAM_BYTES)
        except (OSError, TimeoutError) as error:
            raise GridError(f"the relay cannot be reached ({type(error).__name__})") from None
        self._answered_at = asyncio.get_running_loop().time()
        try:
            tuned(writer.transport)
            try:
                async with asyncio.timeout(JOIN_S):
                    nonce = (await read_message(reader.readexactly, pb.RelayMessage)).nonce
                    signed = signed_entry(self._key, self.point.key, nonce, entry)
                    writer.write(framed(pb.RelayMessage(entry=signed)))
                    answer = (await read_message(reader.readexactly, pb.RelayMessage)).answer
            except TimeoutError:
                raise GridError(f"the relay did not answer within {JOIN_S:g} s") from None
            if answer.refusal:
                raise GridRefused(f"the relay at {self.point.host}:{self.point.port} refuses: {answer.refusal}")
            yield reader, writer
        finally:
            writer.close()

    @contextlib.asynccontextmanager
    async def channel(self, entry: pb.RelayEntry, peer_key: bytes) -> AsyncIterator[TlsChannel]:
        """Yield the encrypted channel of a tunnel through this relay; who answers a call is the server of its TLS.

        Raises:
            GridError: It does not open, or its other end has another key.
        """
        async with self.entered(entry) as (reader, writer):
            self._channels.add(writer)

            async def send(data: bytes) -> None:
                try:
                    writer.write(data)
                    await writer.drain()
                except OSError as error:
                    raise GridError(f"the tunnel has ended ({type(error).__name__})") from None

            async def receive() -> bytes:
                try:
                    return await reader.read(STREAM_BYTES)
                except OSError as error:
                    raise GridError(f"the tunnel has ended ({type(error).__name__})") from None

            channel = TlsChannel(send, receive)
            try:
                await channel.open(self._key, peer_key, server_side=bool(entry.tunnel))
                yield channel
            finally:
                self._channels.discard(writer)

    async def _wait(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Ping the relay, and take its calls, until it is silent."""
        loop = asyncio.get_running_loop()
        number, due = 0, loop.time()
        reading = asyncio.create_task(read_message(reader.readexactly, pb.RelayMessage))
        answered_at = due
        try:
            while loop.time() < answered_at + SILENT_S:
                if loop.time() >= due:
                    number, due = number + 1, loop.time() + PING_S
                    known_s = median(self._samples) if self._samples else 0.0
                    self._sent_at = {number: loop.time()}
                    writer.write(framed(pb.RelayMessage(ping=pb.RelayPing(number=number, round_trip_s=known_s))))
                await asyncio.wait([reading], timeout=max(due - loop.time(), 0.0))
                if reading.done():
                    message = reading.result()
                    answered_at = self._answered_at = loop.time()
                    reading = asyncio.create_task(read_message(reader.readexactly, pb.RelayMessage))
                    self._take(message, answered_at)
            raise GridError("it is silent")
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    def _take(self, message: pb.RelayMessage, now: float) -> None:
        if message.HasField("call"):
            self._called(self, message.call)
        elif message.HasField("pong") and message.pong.number in self._sent_at:
            self._samples.append(now - self._sent_at[message.pong.number])
            own_s = median(self._samples)
            self.round_trips_s = {peer: own_s + other_s for peer, other_s in message.pong.round_trips_s.items()}


class RelayLines:
    """The lines of a member to all relays of its grid."""

    def __init__(self, key: IdentityKey, called: Callable[[RelayLine, pb.TunnelCall], None]) -> None:
        """Prepare them.

        Args:
            key: The member's identity.
            called: Takes calls, with the line over which they are answered.
        """
        self._key = key
        self._called = called
        self._lines: dict[tuple[str, str, int], tuple[RelayLine, asyncio.Task[None]]] = {}

    def use(self, points: Iterable[pb.RelayPoint]) -> None:
        """Keep lines to these relays, and to no others."""
        wanted = {(each.member, each.host, each.port): each for each in points}
        for name in self._lines.keys() - wanted.keys():
            self._lines.pop(name)[1].cancel()
        for name in wanted.keys() - self._lines.keys():
            line = RelayLine(self._key, wanted[name], self._called)
            self._lines[name] = line, asyncio.create_task(line.run(), name=f"line to {name[1]}:{name[2]}")

    def towards(self, peer: str) -> list[RelayLine]:
        """Return the lines to relays at which a peer waits, the shortest measured way first."""
        found = [line for line, _ in self._lines.values() if peer in line.round_trips_s]
        return sorted(found, key=lambda line: line.round_trips_s[peer])

    async def close(self) -> None:
        """End every line."""
        tasks = [task for _, task in self._lines.values()]
        self._lines.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
