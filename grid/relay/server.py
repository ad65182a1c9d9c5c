"""A relay: it joins two connections when the hub has granted their tunnel, and copies bytes that it cannot read.

It keeps no more than its buffers of each tunnel; the TCP windows slow the faster end. It needs the hub for new grants
only: what was granted goes on until its time is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import secrets
from collections import Counter, deque
from collections.abc import Callable

from controller.signed_log.public import fingerprint
from grid.errors import GridError, GridRefused
from grid.relay.grants import TunnelGrant
from grid.relay.messages import NONCE_BYTES, check_entry, framed, read_message
from grid.relay.splice import spliced, tuned
from grid.wire import grid_pb2 as pb

logger = logging.getLogger(__name__)

ENTRY_WITHIN_S = 10.0
OPEN_WITHIN_S = 10.0
SILENT_S = 10.0
"""A line without a ping for this long has ended."""
MAX_CONNECTIONS = 2048
MAX_ENTERING = 64
"""Connections from one address that have not entered yet."""
RESERVED_FILES = 128
"""What the rest of the process may open."""
REPORT_S = 60.0
MAX_UNKNOWN = 10
"""Reports in this time of refusals to keys that have no lease here: they may be anyone's. A member with one gets one."""
TICK_S = 0.2
Refused = Callable[[pb.RelayRefusal], None]


class RelayServer:
    """The tunnels of one relay."""

    def __init__(self, key: bytes, refused: Refused) -> None:
        """Prepare it.

        Args:
            key: Public key of the relay, for which entries are signed.
            refused: Takes whom it refuses a tunnel.
        """
        self._key = key
        self._refused = refused
        self._reported: deque[tuple[float, str]] = deque()
        """When a refusal was reported, and to which party of a grant (empty: another key)."""
        self._unreported = 0
        self._max_connections = _room_for(MAX_CONNECTIONS)
        self._entering: Counter[str] = Counter()
        self._grants: dict[str, tuple[TunnelGrant, float]] = {}
        self._lines: dict[str, _Line] = {}
        self._called: dict[str, _Called] = {}
        self._tasks: dict[asyncio.Task[None], tuple[str, str]] = {}
        """Every connection, with its grant (empty for lines) and the identity of its member."""

    def grants(self) -> list[str]:
        """Return the names of the grants that run here."""
        return list(self._grants)

    def granted(self, message: pb.RelayGrant) -> None:
        """Take a grant of the hub, its renewal or its end."""
        if message.left_s <= 0:
            self._end(message.grant)
            return
        until = asyncio.get_running_loop().time() + message.left_s
        self._grants[message.grant] = TunnelGrant(message.grant, tuple(message.parties)), until

    async def watch(self) -> None:
        """End grants whose time is over, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(TICK_S)
            for grant, until in tuple(self._grants.values()):
                if loop.time() >= until:
                    self._end(grant.id)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        task = asyncio.current_task()
        address = str((writer.get_extra_info("peername") or ("",))[0])
        if task is None or len(self._tasks) >= self._max_connections or self._entering[address] >= MAX_ENTERING:
            writer.transport.abort()
            return
        self._tasks[task] = ("", "")
        try:
            tuned(writer.transport)
            self._entering[address] += 1
            try:
                entry = await self._entry(reader, writer)
            finally:
                self._entering[address] -= 1
                self._entering += Counter()  # without those at 0
            await self._enter(entry, task, reader, writer)
        except GridError as error:
            logger.info("a connection from %s was ended: %s", writer.get_extra_info("peername"), error)
            with contextlib.suppress(OSError):
                writer.write(framed(pb.RelayMessage(answer=pb.RelayAnswer(refusal=str(error)))))
        except (asyncio.CancelledError, TimeoutError, OSError):
            pass
        finally:
            del self._tasks[task]
            writer.close()

    async def close(self) -> None:
        """End every connection."""
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _entry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> pb.RelayEntry:
        """Return what a client asks for, with its signature checked."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        writer.write(framed(pb.RelayMessage(nonce=nonce)))
        async with asyncio.timeout(ENTRY_WITHIN_S):
            entry = (await read_message(reader.readexactly, pb.RelayMessage)).entry
        check_entry(self._key, nonce, entry)
        text = entry.grant + entry.peer + entry.tunnel
        if not text.isascii() or not text.isprintable():
            raise GridRefused("the entry names a lease, peer or tunnel that is no name")
        return entry

    async def _enter(
        self,
        entry: pb.RelayEntry,
        task: asyncio.Task[None],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        member = fingerprint(entry.key)
        if entry.tunnel:
            called = self._called.get(entry.tunnel)
            if called is None or called.peer != member:
                raise GridRefused("no such tunnel waits for this end")
            del self._called[entry.tunnel]
            self._tasks[task] = (called.grant, member)
            called.joined.set_result(writer.transport)
            await called.ended.wait()
        elif entry.grant:
            grant = self._checked(entry, member)
            self._tasks[task] = (grant.id, member)
            await self._call(grant, member, entry.peer, writer.transport)
        else:
            self._tasks[task] = ("", member)
            await self._hold(member, reader, writer)

    def _checked(self, entry: pb.RelayEntry, member: str) -> TunnelGrant:
        try:
            found = self._grants.get(entry.grant)
            if found is None:
                raise GridRefused(f"the lease {entry.grant[:40]} does not run here")
            found[0].peer(member, entry.peer)
        except GridRefused as refused:
            said = pb.RelayRefusal(grant=entry.grant[:40], member=member, peer=entry.peer[:64], reason=str(refused))
            self._report(said)
            raise
        return found[0]

    def _report(self, refusal: pb.RelayRefusal) -> None:
        """Pass a refusal on, unless there are too many."""
        now, who = asyncio.get_running_loop().time(), refusal.member if self._known(refusal.member) else ""
        while self._reported and self._reported[0][0] <= now - REPORT_S:
            self._reported.popleft()
        if sum(each == who for _, each in self._reported) >= (1 if who else MAX_UNKNOWN):
            self._unreported += 1
            return
        if self._unreported:
            logger.warning("%d refusals were not reported: too many came", self._unreported)
            self._unreported = 0
        self._reported.append((now, who))
        self._refused(refusal)

    async def _call(self, grant: TunnelGrant, member: str, wanted: str, transport: asyncio.WriteTransport) -> None:
        """Call a peer, and copy between both ends until one has ended."""
        peer = grant.peer(member, wanted)
        line = self._lines.get(peer)
        if line is None:
            raise GridError(f"{peer[:16]}… does not wait at this relay. Next: try another one")
        name = secrets.token_hex(16)
        called = self._called[name] = _Called(grant.id, peer)
        try:
            line.send(pb.RelayMessage(call=pb.TunnelCall(tunnel=name, lease=grant.id, peer=member)))
            try:
                async with asyncio.timeout(OPEN_WITHIN_S):
                    other = await called.joined
            except TimeoutError:
                raise GridError(f"{peer[:16]}… did not answer within {OPEN_WITHIN_S:g} s") from None
            for end in (transport, other):
                end.write(framed(pb.RelayMessage(answer=pb.RelayAnswer())))
            await spliced(transport, other)
        finally:
            self._called.pop(name, None)
            called.ended.set()

    async def _hold(self, member: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Keep the line of a member: answer its pings, so that it knows who waits here and how far away."""
        if not self._known(member):
            raise GridRefused("no lease that runs here names you. Next: wait for one")
        former = self._lines.get(member)
        if former is not None:
            former.writer.close()
        line = self._lines[member] = _Line(writer)
        line.send(pb.RelayMessage(answer=pb.RelayAnswer()))
        try:
            while True:
                async with asyncio.timeout(SILENT_S):
                    await writer.drain()
                    ping = (await read_message(reader.readexactly, pb.RelayMessage)).ping
                line.round_trip_s = ping.round_trip_s
                pong = pb.RelayPong(number=ping.number)
                for peer in self._peers(member):
                    pong.round_trips_s[peer] = self._lines[peer].round_trip_s
                line.send(pb.RelayMessage(pong=pong))
        finally:
            if self._lines.get(member) is line:
                del self._lines[member]

    def _peers(self, member: str) -> set[str]:
        """Return who waits here and shares a grant with a member."""
        shared = {each for grant, _ in self._grants.values() if member in grant.parties for each in grant.parties}
        return (shared & self._lines.keys()) - {member}

    def _known(self, member: str) -> bool:
        return any(member in grant.parties for grant, _ in self._grants.values())

    def _end(self, name: str) -> None:
        """End a grant: its tunnels, and the lines of members that have no other."""
        if self._grants.pop(name, None) is None:
            return
        for task, (grant, member) in tuple(self._tasks.items()):
            if grant == name or (not grant and member and not self._known(member)):
                task.cancel()


def _room_for(connections: int) -> int:
    """Let this process open as many files as connections need, as far as the system allows; return how many it may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + RESERVED_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return connections if soft == resource.RLIM_INFINITY else max(min(connections, soft - RESERVED_FILES), 1)


class _Called:
    """A tunnel that waits for the end that was called."""

    def __init__(self, grant: str, peer: str) -> None:
        self.grant = grant
        self.peer = peer
        self.joined: asyncio.Future[asyncio.WriteTransport] = asyncio.get_running_loop().create_future()
        self.ended = asyncio.Event()


class _Line:
    """The connection over which a member is called; `round_trip_s` is what it has measured, 0 before."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.round_trip_s = 0.0

    def send(self, message: pb.RelayMessage) -> None:
        if not self.writer.is_closing():
            self.writer.write(framed(message))
