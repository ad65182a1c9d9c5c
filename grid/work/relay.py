"""The process of a relay (`choroid grid relay`): a member with the role relay that joins tunnels between others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from grid.errors import GridError
from grid.member.daemon import MemberDaemon
from grid.member.membership import Membership
from grid.relay.server import RelayServer
from grid.relay.splice import BUFFER_BYTES
from grid.wire import grid_pb2 as pb


class RelayDaemon(MemberDaemon):
    """A relay. It listens after :meth:`open`.

    Attributes:
        server: Its tunnels.
    """

    def __init__(self, membership: Membership, progress: Callable[[str], None] = lambda _: None) -> None:
        super().__init__(membership, progress)
        self.server = RelayServer(membership.key.public, self._refused)
        self._point = pb.RelayPoint(key=membership.key.public)
        self._listening: asyncio.Server | None = None

    async def open(self, listen: str, port: int, address: str = "") -> int:
        """Listen; return the port.

        Args:
            listen: Address to listen on.
            port: Its port; 0 takes any free one.
            address: Host that members dial; empty: where the hub sees this relay.

        Raises:
            GridError: The port is taken.
        """
        try:
            self._listening = await asyncio.start_server(self.server.serve, listen, port, limit=BUFFER_BYTES)
        except OSError as error:
            raise GridError(
                f"the relay cannot listen on {listen}:{port} ({error.strerror}). Next: choose another port"
            ) from None
        self._point.host = address
        self._point.port = self._listening.sockets[0].getsockname()[1]
        return self._point.port

    async def run(self) -> None:
        """Serve until cancelled. Raises :class:`GridRefused` when the identity was revoked."""
        watching = asyncio.create_task(self.server.watch(), name="grants")
        try:
            await super().run()
        finally:
            if self._listening is not None:
                self._listening.close()
            watching.cancel()
            await asyncio.gather(watching, self.server.close(), return_exceptions=True)

    def _hello(self) -> pb.Hello:
        hello = super()._hello()
        hello.leases.extend(self.server.grants())
        hello.relay.CopyFrom(self._point)
        return hello

    def _take(self, message: pb.HubMessage) -> None:
        if message.HasField("grant"):
            self.server.granted(message.grant)
        else:
            super()._take(message)

    def _refused(self, refusal: pb.RelayRefusal) -> None:
        self._progress(f"refused {refusal.member[:16]}… a tunnel to {refusal.peer[:16]}…: {refusal.reason}")
        self.link.send(pb.MemberMessage(refusal=refusal))
