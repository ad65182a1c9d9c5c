"""An agent's side of tissue: ask for a lease, keep it alive, reach the electrode engine through the tunnel."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Self

import grpc
import grpc.aio

from choroid.client.nerves import AsyncNervesClient
from grid.errors import GridError, LeaseEnded
from grid.member.held import RenewedLease
from grid.member.membership import CALL_S, Membership, call_error, explained
from grid.member.peers import KnownPeers
from grid.relay.pipe import pipe
from grid.relay.tls import TlsChannel
from grid.wire import grid_pb2 as pb
from grid.wire import grid_pb2_grpc as pb_grpc

LONGEST_CALL_S = 24 * 3600.0
"""A tunnel on a former connection lasts at most this long; that of a lost connection ends by gRPC's keepalive."""
MAX_GREETING = 4096


class GridClient:
    """Calls of the hub for agents. It needs the data folder of a member whose `choroid grid join` keeps the certificate.

    Every method raises :class:`GridRefused` with the hub's reason, or :class:`GridError` when the hub cannot be reached.
    """

    def __init__(self, folder: Path | str) -> None:
        self.membership = Membership.load(Path(folder))
        self._channel: grpc.aio.Channel | None = None
        self._former: dict[grpc.aio.Channel, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Self:
        """Return the client."""
        await self.membership.require_certificate()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connection, and former ones that are still in use."""
        await self.reconnect()
        former = dict(self._former)
        for closing in former.values():
            closing.cancel()
        await asyncio.gather(*former.values(), return_exceptions=True)
        await asyncio.gather(*(channel.close(None) for channel in former))

    async def reconnect(self) -> None:
        """Open a new connection for the next call, with the present certificate.

        Calls and tunnels that are under way keep the former connection, which is closed when the last of them has ended. gRPC
        would otherwise cancel them, and a task that waits for one could not tell this from its own cancellation.
        """
        channel, self._channel = self._channel, None
        if channel is not None:
            closing = asyncio.create_task(channel.close(LONGEST_CALL_S), name="closing a former connection to the hub")
            self._former[channel] = closing
            closing.add_done_callback(lambda _: self._former.pop(channel, None))

    async def again(self) -> None:
        """Connect again after a call has failed, with a new certificate if it is time for one."""
        await self.reconnect()
        with contextlib.suppress(GridError):
            await self.membership.require_certificate()

    @property
    def stub(self) -> pb_grpc.HubAsyncStub:
        """Return the calls of the service."""
        if self._channel is None:
            self._channel = self.membership.channel()
        stub: pb_grpc.HubAsyncStub = pb_grpc.HubStub(self._channel)
        return stub

    async def tissues(self) -> list[pb.Tissue]:
        """Return the tissue that laboratories offer."""
        with explained("the hub"):
            return list((await self.stub.Tissues(pb.TissuesRequest(), timeout=CALL_S)).tissues)

    async def members(self) -> list[pb.Member]:
        """Return members with their roles and figures."""
        with explained("the hub"):
            return list((await self.stub.Members(pb.MembersRequest(), timeout=CALL_S)).members)

    async def leases(self, ended: int = 20) -> list[pb.LeaseInfo]:
        """Return living leases and the last ones that ended."""
        with explained("the hub"):
            return list((await self.stub.Leases(pb.LeasesRequest(ended=ended), timeout=CALL_S)).leases)

    @contextlib.asynccontextmanager
    async def lease(
        self,
        lab: str,
        organoid: str,
        electrodes: Iterable[int] = (),
        *,
        mode: str = "read",
        purpose: str,
        duration_s: float = 0.0,
        wait_s: float | None = 60.0,
        on_wait: Callable[[str], None] = lambda _: None,
    ) -> AsyncIterator[TissueLease]:
        """Hold a lease while the block lasts.

        Args:
            lab: Name of the laboratory.
            organoid: Name of the organoid.
            electrodes: Their indices; none means all.
            mode: read or stimulate.
            purpose: What it is for; kept in the log.
            duration_s: Longest time (s); 0 takes the policy's.
            wait_s: Longest wait in the queue (s); None waits as long as the hub keeps the request.
            on_wait: Takes what the request waits for, whenever that changes.

        Raises:
            LeaseEnded: It was not granted.
            GridRefused: The request was refused, or the wait was too long.
        """
        request = pb.LeaseRequest(
            key=secrets.token_hex(16),
            lab=lab,
            organoid=organoid,
            electrodes=list(electrodes),
            mode=mode,
            purpose=purpose,
            duration_s=duration_s,
        )
        with explained("the hub"):
            info = await self.stub.RequestLease(request, timeout=CALL_S)
        async with TissueLease(self, info).held(wait_s, on_wait) as held:
            yield held

    @contextlib.asynccontextmanager
    async def work(
        self,
        job: str,
        ranks: Iterable[str],
        *,
        role: str = "compute",
        manifest: bytes = b"",
        duration_s: float = 0.0,
        wait_s: float | None = 60.0,
        on_wait: Callable[[str], None] = lambda _: None,
    ) -> AsyncIterator[WorkLease]:
        """Hold a work lease while the block lasts: tunnels between the members of a job.

        Args:
            job: What it is for; kept in the log.
            ranks: Names or identities of the members, in the order of their ranks.
            role: That each of them needs: compute, or storage, which this member itself does not need.
            manifest: Of a training job (:func:`grid.jobs.signing.signed`); empty: tunnels only.
            duration_s: Longest time (s); 0 takes the policy's.
            wait_s: Longest wait for the members (s); None waits as long as the hub keeps the request.
            on_wait: Takes what the request waits for, whenever that changes.

        Raises:
            LeaseEnded: It was not granted.
            GridRefused: The request was refused, or the wait was too long.
        """
        request = pb.WorkRequest(
            key=secrets.token_hex(16),
            job=job,
            ranks=list(ranks),
            duration_s=duration_s,
            role=role,
            manifest=manifest,
        )
        with explained("the hub"):
            info = await self.stub.RequestWork(request, timeout=CALL_S)
        async with WorkLease(self, info).held(wait_s, on_wait) as held:
            yield held


class TissueLease(RenewedLease[pb.LeaseInfo]):
    """A lease of this member on tissue."""

    def __init__(self, client: GridClient, info: pb.LeaseInfo) -> None:
        super().__init__(info)
        self._client = client

    @property
    def _waits_for(self) -> str:
        if self.info.state == pb.LeaseInfo.OFFERED:
            return "the laboratory decides on the lease"
        return f"the lease on {self.info.organoid} is at position {self.info.position} of the queue"

    async def _renewed(self) -> pb.LeaseInfo | None:
        request = pb.RenewRequest(leases=[self.info.lease])
        reply = await self._client.stub.RenewLeases(request, timeout=CALL_S)
        return reply.leases[0] if reply.leases else None

    async def _released(self) -> pb.LeaseInfo:
        return await self._client.stub.ReleaseLease(pb.ReleaseRequest(lease=self.info.lease), timeout=CALL_S)

    async def _again(self) -> None:
        await self._client.again()

    @contextlib.asynccontextmanager
    async def engine(self) -> AsyncIterator[AsyncNervesClient]:
        """Yield a client of the laboratory's electrode engine, through an encrypted tunnel.

        Raises:
            LeaseEnded: It does not run any more.
            GridError: The tunnel does not open, or its other end is not the laboratory.
        """
        port = TunnelPort(self._client, self.info)
        server = await asyncio.start_server(port.serve, "127.0.0.1", 0)
        try:
            host, number = server.sockets[0].getsockname()[:2]
            token = await port.token()
            nerves = AsyncNervesClient(f"{host}:{number}", token)
            try:
                yield nerves
            finally:
                await nerves.close()
        finally:
            server.close()
            await port.close()
            await server.wait_closed()


class WorkLease(RenewedLease[pb.WorkInfo]):
    """A work lease of this member."""

    def __init__(self, client: GridClient, info: pb.WorkInfo) -> None:
        super().__init__(info)
        self._client = client

    @property
    def _waits_for(self) -> str:
        offered = self.info.state == pb.LeaseInfo.OFFERED
        return "the members decide on the work lease" if offered else "the work lease waits until its members are free"

    async def look(self) -> pb.WorkInfo:
        """Return its present state with the reports of its ranks; the last known one while the hub is away."""
        try:
            self.info = await self._renewed() or self.info
        except (grpc.aio.AioRpcError, GridError):
            await self._again()  # the connection would wait before it dials
        return self.info

    async def _renewed(self) -> pb.WorkInfo | None:
        request = pb.RenewRequest(leases=[self.info.lease])
        reply = await self._client.stub.RenewWork(request, timeout=CALL_S)
        return reply.work[0] if reply.work else None

    async def _released(self) -> pb.WorkInfo:
        return await self._client.stub.ReleaseWork(pb.ReleaseRequest(lease=self.info.lease), timeout=CALL_S)

    async def _again(self) -> None:
        await self._client.again()


class TunnelPort:
    """A local port whose connections go through tunnels to the laboratory of a lease."""

    def __init__(self, client: GridClient, info: pb.LeaseInfo) -> None:
        self._client = client
        self._info = info
        self._tasks: set[asyncio.Task[None]] = set()

    async def token(self) -> str:
        """Return the token for the electrode engine, which the laboratory sends through the tunnel."""
        async with self._tunnel() as (_, greeting):
            return str(greeting["token"])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one local connection."""
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            async with self._tunnel() as (channel, _):
                await pipe(channel, reader, writer)
        except (GridError, grpc.aio.AioRpcError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def close(self) -> None:
        """End every connection."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def _tunnel(self) -> AsyncIterator[tuple[TlsChannel, dict[str, str]]]:
        KnownPeers(self._client.membership.folder).require(self._info.lab, self._info.lab_key)
        call: grpc.aio.StreamStreamCall[pb.RelayFrame, pb.RelayFrame]
        call = self._client.stub.Relay()  # type: ignore[call-arg]

        async def send(data: bytes) -> None:
            await call.write(pb.RelayFrame(data=data))

        async def receive() -> bytes:
            frame = await call.read()
            return frame.data if isinstance(frame, pb.RelayFrame) else b""

        channel = TlsChannel(send, receive)
        try:
            try:
                await call.write(pb.RelayFrame(lease=self._info.lease))
                await channel.open(self._client.membership.key, self._info.lab_key, server_side=False)
                greeting = await _greeting(channel)
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.FAILED_PRECONDITION:
                    raise LeaseEnded(str(error.details())) from None
                raise call_error(error, "the tunnel") from None
            yield channel, greeting
        finally:
            call.cancel()


async def _greeting(channel: TlsChannel) -> dict[str, str]:
    """Return the first line that the laboratory sends, of a fixed length with blanks at its end."""
    data = b""
    while len(data) < MAX_GREETING:
        more = await channel.read(MAX_GREETING - len(data))
        if not more:
            raise LeaseEnded("the laboratory has closed the tunnel: the lease does not run there any more")
        data += more
    found: dict[str, str] = json.loads(data)
    return found
