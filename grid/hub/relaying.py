"""The hub's part of tunnels: join the streams of two parties of a grant. It sees only encrypted bytes."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator

from grid.errors import GridError, GridRefused
from grid.hub.sessions import Sessions
from grid.wire import grid_pb2 as pb

OPEN_WITHIN_S = 10.0
MAX_WAITING = 16
"""Frames that wait in one direction; then the sender has to wait."""
MAX_TUNNELS = 4096


class Tunnel:
    """One tunnel: a bounded queue in each direction."""

    def __init__(self, grant: str, peer: str) -> None:
        self.id = secrets.token_hex(16)
        self.grant = grant
        self.peer = peer
        self.to_peer: asyncio.Queue[bytes] = asyncio.Queue(MAX_WAITING)
        self.to_caller: asyncio.Queue[bytes] = asyncio.Queue(MAX_WAITING)
        self.joined = asyncio.Event()
        self.closed = asyncio.Event()


class Tunnels:
    """The open tunnels of one hub."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._open: dict[str, Tunnel] = {}

    def __len__(self) -> int:
        return len(self._open)

    async def call(self, grant: str, caller: str, peer: str) -> Tunnel:
        """Open a tunnel under a grant that runs. Raises :class:`GridError` when the peer does not come."""
        session = self._sessions.find(peer)
        if session is None or len(self._open) >= MAX_TUNNELS:
            raise GridError("the other end is not connected, or too many tunnels are open. Next: try again later")
        tunnel = Tunnel(grant, peer)
        self._open[tunnel.id] = tunnel
        session.send(pb.HubMessage(tunnel=pb.TunnelCall(tunnel=tunnel.id, lease=grant, peer=caller)))
        try:
            async with asyncio.timeout(OPEN_WITHIN_S):
                await tunnel.joined.wait()
        except BaseException as error:
            self.close(tunnel)
            if isinstance(error, TimeoutError):
                raise GridError(f"{session.name} did not open the tunnel within {OPEN_WITHIN_S:g} s") from None
            raise
        return tunnel

    def answer(self, tunnel_id: str, peer: str) -> Tunnel:
        """Join the end that was called. Raises :class:`GridRefused` when no such tunnel waits."""
        tunnel = self._open.get(tunnel_id)
        if tunnel is None or tunnel.peer != peer or tunnel.joined.is_set():
            raise GridRefused("no such tunnel waits for this end")
        tunnel.joined.set()
        return tunnel

    def close(self, tunnel: Tunnel) -> None:
        """Close a tunnel; both streams end."""
        tunnel.closed.set()
        self._open.pop(tunnel.id, None)

    def close_grant(self, grant: str) -> None:
        """Close the tunnels of a grant that has ended."""
        for tunnel in [each for each in self._open.values() if each.grant == grant]:
            self.close(tunnel)

    async def copy(
        self, tunnel: Tunnel, requests: AsyncIterator[pb.RelayFrame], *, called: bool
    ) -> AsyncGenerator[pb.RelayFrame]:
        """Yield the frames for one end, and pass on what it sends, until either end closes."""
        into, out = (tunnel.to_caller, tunnel.to_peer) if called else (tunnel.to_peer, tunnel.to_caller)
        feeding = asyncio.create_task(self._feed(tunnel, requests, into))
        closing = asyncio.create_task(tunnel.closed.wait())
        getting = asyncio.create_task(out.get())
        try:
            while True:
                await asyncio.wait([getting, closing], return_when=asyncio.FIRST_COMPLETED)
                if not getting.done():
                    while not out.empty():
                        yield pb.RelayFrame(data=out.get_nowait())
                    return
                data = getting.result()
                getting = asyncio.create_task(out.get())
                yield pb.RelayFrame(data=data)
        finally:
            self.close(tunnel)
            for task in (feeding, closing, getting):
                task.cancel()
            await asyncio.gather(feeding, closing, getting, return_exceptions=True)

    async def _feed(self, tunnel: Tunnel, requests: AsyncIterator[pb.RelayFrame], into: asyncio.Queue[bytes]) -> None:
        try:
            async for frame in requests:
                await into.put(frame.data)
        finally:
            self.close(tunnel)
