"""The loopback addresses of a job: each rank has one, and every TCP port on it leads to that rank, through tunnels.

The programs of a job use these addresses as if all ranks were one machine. A rank listens on its own address. Its member asks
the kernel for it and announces the port; the other members then listen on the same address and port, and pass
what they accept into a tunnel. Before any byte of the job leaves a member, every port that is open there by then is open at
the others: an address that one rank sends to another can be dialled when it arrives.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from grid.errors import GridError, GridRefused
from grid.identity.keys import IdentityKey
from grid.relay.lines import STREAM_BYTES, RelayLine, RelayLines
from grid.relay.messages import framed, read_message
from grid.relay.pipe import pipe
from grid.relay.tls import TlsChannel
from grid.wire import grid_pb2 as pb
from grid.work.listeners import Listeners

logger = logging.getLogger(__name__)

BASE = "127.77"
"""First half of the addresses of every job."""
LOOK_S = 0.1
AGAIN_S = 0.5
OPENING_S = 10.0
MAX_PORTS = 1024
"""Ports of one rank that are open at the others, the lowest ones."""
MAX_FAILED = 10
"""So many looks in a row may fail before the job ends here."""
SETTLE_S = 5.0
"""Longest time that bytes wait for a port to be open at the other ranks."""


def addresses(info: pb.WorkInfo, base: str = BASE) -> list[str]:
    """Return the address of each rank of a work lease: it follows from the fence, so all members know the same."""
    return [f"{base}.{1 + info.fence % 254}.{1 + rank}" for rank in range(len(info.ranks))]


class JobNetwork:
    """The tunnels of one work lease at one of its ranks.

    Attributes:
        addresses: Of all ranks.
        ready: Set when the ports of each rank are open at all others for the first time.
    """

    def __init__(self, key: IdentityKey, info: pb.WorkInfo, base: str = BASE) -> None:
        self.addresses = addresses(info, base)
        self.ready = asyncio.Event()
        self._info = info
        self._rank = [rank.member for rank in info.ranks].index(key.id)
        self._lines = RelayLines(key, self._called)
        self._listeners = Listeners(self.addresses[self._rank], info.lease)
        self._peers = {
            rank.member: _Peer(number, rank, address)
            for number, (rank, address) in enumerate(zip(info.ranks, self.addresses, strict=True))
            if number != self._rank
        }
        self._ports: frozenset[int] = frozenset()
        self._number = 1
        self._failed = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def use(self, relays: list[pb.RelayPoint]) -> None:
        """Use these relays from now on."""
        self._lines.use(relays)

    async def run(self) -> None:
        """Keep the network up until cancelled; :meth:`close` follows. Raises OSError when the kernel lists no sockets."""
        for peer in self._peers.values():
            if peer.rank > self._rank:
                self._start(self._keep(peer), f"ports of rank {peer.rank}")
        while True:
            self._look()
            if all(peer.met for peer in self._peers.values()):
                self.ready.set()
            await asyncio.sleep(LOOK_S)

    async def close(self) -> None:
        """End every tunnel and close every port."""
        for peer in self._peers.values():
            peer.close()
        await self._lines.close()
        while self._tasks:  # a connection that was accepted just before begins later
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        self._listeners.close()

    async def settle(self) -> None:
        """Return when every port on which this rank listens is open at the ranks that are there."""
        self._look()
        try:
            async with asyncio.timeout(SETTLE_S):
                for peer in self._peers.values():
                    await peer.has(self._number)
        except TimeoutError:
            logger.warning("a port is not open at all ranks after %g s; bytes go on", SETTLE_S)

    def _look(self) -> None:
        try:
            ports = self._listeners.ports()
        except OSError as error:
            self._failed += 1
            if self._failed >= MAX_FAILED:
                raise
            logger.warning("the kernel did not say which ports are open (%s)", error)
            return
        self._failed = 0
        if ports != self._ports:
            self._ports = ports
            self._number += 1
            for peer in self._peers.values():
                peer.to_send.set()

    async def _keep(self, peer: _Peer) -> None:
        """Exchange ports with a rank of a higher number, over one tunnel after the other."""
        while True:
            try:
                async with self._tunnel(peer, 0) as channel:
                    await self._exchange(peer, channel)
            except (GridError, OSError) as error:
                logger.info("rank %d: %s", peer.rank, error)
            await asyncio.sleep(AGAIN_S)

    @contextlib.asynccontextmanager
    async def _tunnel(self, peer: _Peer, port: int) -> AsyncIterator[TlsChannel]:
        """Open a tunnel to a port of a rank over the nearest relay that joins it."""
        problem = "no relay at which it waits is in reach"
        entry = pb.RelayEntry(grant=self._info.lease, peer=peer.member)
        async with contextlib.AsyncExitStack() as opened:
            for line in self._lines.towards(peer.member):
                try:
                    channel = await opened.enter_async_context(line.channel(entry, peer.key))
                    break
                except GridError as error:
                    problem = str(error)
            else:
                raise GridError(f"no tunnel to rank {peer.rank} ({peer.name}): {problem}")
            await channel.write(framed(pb.WorkOpening(lease=self._info.lease, port=port)))
            yield channel

    def _called(self, line: RelayLine, call: pb.TunnelCall) -> None:
        peer = self._peers.get(call.peer)
        if peer is None or call.lease != self._info.lease:
            logger.warning(
                "a tunnel under %s from %s is not answered: it has no part in this job", call.lease, call.peer
            )
            return
        self._start(self._answer(peer, line, call.tunnel), f"tunnel from rank {peer.rank}")

    async def _answer(self, peer: _Peer, line: RelayLine, tunnel: str) -> None:
        try:
            async with line.channel(pb.RelayEntry(tunnel=tunnel), peer.key) as channel:
                async with asyncio.timeout(OPENING_S):
                    opening = await read_message(channel.read_exactly, pb.WorkOpening)
                if opening.lease != self._info.lease:
                    raise GridRefused("the tunnel is for another lease")
                if opening.port == 0:
                    await self._exchange(peer, channel)
                elif opening.port in self._ports:
                    address = self.addresses[self._rank]
                    local = await asyncio.open_connection(address, opening.port, limit=STREAM_BYTES)
                    await pipe(channel, *local, self.settle)
                else:
                    raise GridRefused(f"the job does not listen on port {opening.port} here")
        except (GridError, OSError) as error:
            logger.info("a tunnel from rank %d has ended: %s", peer.rank, error)

    async def _exchange(self, peer: _Peer, channel: TlsChannel) -> None:
        """Announce ports to a rank and open those that it announces, until the tunnel ends."""
        to_send = peer.begin()
        sending = asyncio.create_task(self._announce(peer, channel, to_send))
        try:
            while True:
                message = await read_message(channel.read_exactly, pb.WorkPorts)
                await peer.take(message, to_send, partial(self._serve, peer))
        except OSError as error:
            raise GridError(f"the tunnel has ended ({type(error).__name__})") from None
        finally:
            peer.ended(to_send)
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _announce(self, peer: _Peer, channel: TlsChannel, to_send: asyncio.Event) -> None:
        while True:
            await to_send.wait()
            to_send.clear()
            await channel.write(
                framed(
                    pb.WorkPorts(number=self._number, listening=sorted(self._ports)[:MAX_PORTS], carried_out=peer.seen)
                )
            )

    async def _serve(self, peer: _Peer, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass a connection that a program here has opened to a port of another rank."""
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            async with self._tunnel(peer, port) as channel:
                await pipe(channel, reader, writer, self.settle)
        except (GridError, OSError) as error:
            logger.info("a connection to port %d of rank %d has ended: %s", port, peer.rank, error)
        except asyncio.CancelledError:
            pass
        finally:
            writer.transport.abort()

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Peer:
    """Another rank: which of its ports are open here, and which ports of this rank are open there.

    `seen` is the number of its last message that was carried out here, `carried_out` the one of this rank there; both count
    within one tunnel, the newest; `to_send` belongs to that one. `met` says that it has had all ports once.
    """

    def __init__(self, rank: int, about: pb.WorkRank, address: str) -> None:
        self.rank = rank
        self.member, self.name, self.key = about.member, about.name, about.key
        self.address = address
        self.here = self.met = False
        self.seen = self.carried_out = 0
        self.to_send = asyncio.Event()
        self.changed = asyncio.Event()
        self._open: dict[int, asyncio.Server] = {}
        self._taking = asyncio.Lock()

    def begin(self) -> asyncio.Event:
        """Begin a tunnel, in place of an older one that may end later; return its `to_send`."""
        self.here = True
        self.seen = self.carried_out = 0
        self.to_send = asyncio.Event()
        self.to_send.set()
        return self.to_send

    def ended(self, to_send: asyncio.Event) -> None:
        """Note the end of a tunnel; nothing changes if a newer one lives."""
        if self.to_send is to_send:
            self.here = False
            self.changed.set()

    async def has(self, number: int) -> None:
        """Return when the other rank has carried out the message with this number, or is not there."""
        while self.here and self.carried_out < number:
            self.changed.clear()
            await self.changed.wait()

    async def take(
        self,
        message: pb.WorkPorts,
        to_send: asyncio.Event,
        serve: Callable[[int, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    ) -> None:
        """Take a message of the other rank; answer one that is new. Raises :class:`GridError` on an older tunnel."""
        async with self._taking:
            if self.to_send is not to_send:
                raise GridError("a newer tunnel has taken its place")
            await self._carry_out(message, serve)
            if self.to_send is to_send and self.seen != message.number:
                self.seen = message.number
                to_send.set()

    async def _carry_out(
        self,
        message: pb.WorkPorts,
        serve: Callable[[int, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    ) -> None:
        if message.carried_out:
            self.met = True
            self.carried_out = message.carried_out
            self.changed.set()
        if message.number == self.seen:
            return
        wanted = {port for port in message.listening[:MAX_PORTS] if 0 < port < 65_536}
        for port in self._open.keys() - wanted:
            self._open.pop(port).close()
        for port in sorted(wanted - self._open.keys()):
            try:
                self._open[port] = await asyncio.start_server(
                    partial(serve, port), self.address, port, limit=STREAM_BYTES
                )
            except OSError as error:
                logger.error(
                    "port %d of rank %d cannot be opened here (%s). Likely cause: a program of this machine listens on it on"
                    " all addresses. Next: give each rank a port of its own",
                    *(port, self.rank, error.strerror),
                )

    def close(self) -> None:
        """Close every port."""
        for server in self._open.values():
            server.close()
        self._open.clear()
