"""The process of a laboratory (`choroid grid lab join`): it joins a rig's electrode engine to the hub.

When the hub is away, leases end by themselves and nothing stimulates through the grid; the rig does not notice.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable
from pathlib import Path

import grpc
import grpc.aio

from grid.challenges import hardware
from grid.errors import GridError
from grid.lab.engine import EngineAccess
from grid.lab.leases import ServedLease, ServedLeases
from grid.member.link import HubLink
from grid.member.membership import Membership
from grid.member.peers import KnownPeers
from grid.member.tissue import MAX_GREETING
from grid.relay.pipe import pipe
from grid.relay.tls import TlsChannel
from grid.wire import grid_pb2 as pb

logger = logging.getLogger(__name__)

STATE_S = 1.0
MAX_ORDERS = 1024


class LabDaemon:
    """A laboratory that offers the array of one rig as one organoid.

    Attributes:
        link: Its connection to the hub.
        leases: What it serves.
    """

    def __init__(
        self,
        membership: Membership,
        engine: EngineAccess,
        organoid: str,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._membership = membership
        self._engine = engine
        self._organoid = organoid
        self._progress = progress
        self._orders: asyncio.Queue[pb.LeaseOrder] = asyncio.Queue(MAX_ORDERS)
        self._offer = pb.TissueOffer(organoid=organoid, reason="the electrode engine was not asked yet")
        self.link = HubLink(membership, self._hello, self._take, on_state=progress)
        self.leases = ServedLeases(engine, KnownPeers(Path(membership.folder)), organoid, self.link.send)
        self._tunnels: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Serve until cancelled.

        Raises:
            GridError: The engine cannot be reached at the start, or the hub has revoked this laboratory.
        """
        await self._engine.open()
        tasks = [
            asyncio.create_task(work, name=name)
            for name, work in (
                ("hub", self.link.run()),
                ("orders", self._obey()),
                ("leases", self.leases.watch()),
                ("engine", self._follow_state()),
                ("events", self._follow_events()),
            )
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (*tasks, *self._tunnels):
                task.cancel()
            await asyncio.gather(*tasks, *self._tunnels, return_exceptions=True)
            with contextlib.suppress(GridError):
                await self.leases.end_all("the laboratory has left the grid")
                await self._engine.close()

    def _hello(self) -> pb.Hello:
        hello = hardware.hello(self._membership.folder)
        hello.leases.extend(self.leases.names())
        return hello

    def _take(self, message: pb.HubMessage) -> None:
        if message.HasField("lease"):
            if self._orders.full():
                raise GridError("the hub sends orders faster than the engine executes them")
            self._orders.put_nowait(message.lease)
        elif message.HasField("tunnel"):
            task = asyncio.create_task(self._tunnel(message.tunnel), name=f"tunnel {message.tunnel.tunnel[:8]}")
            self._tunnels.add(task)
            task.add_done_callback(self._tunnels.discard)
        elif message.HasField("welcome"):
            self.link.send(pb.MemberMessage(tissue=self._offer))

    async def _obey(self) -> None:
        while True:
            await self.leases.take(await self._orders.get())

    async def _follow_state(self) -> None:
        """Offer what the engine allows; end leases for stimulation when it allows none."""
        while True:
            offer = await self._present()
            self.leases.refusal = "" if offer.stimulation else offer.reason
            if not offer.stimulation:
                await self.leases.end_stimulation(offer.reason)
            if offer != self._offer:
                self._offer = offer
                self._progress(f"{offer.organoid}: {offer.reason or 'may be stimulated'}")
                self.link.send(pb.MemberMessage(tissue=offer))
            await asyncio.sleep(STATE_S)

    async def _present(self) -> pb.TissueOffer:
        try:
            state = await self._engine.state()
        except GridError as error:
            return pb.TissueOffer(organoid=self._organoid, electrodes=self._offer.electrodes, reason=str(error)[:300])
        return pb.TissueOffer(
            organoid=self._organoid,
            rig=self._membership.name,
            electrodes=state.electrodes,
            stimulation=state.stimulation,
            reason=state.reason[:300],
            simulated=state.simulated,
            sample_rate_hz=state.sample_rate_hz,
        )

    async def _follow_events(self) -> None:
        """End leases for stimulation at events, and when events may be missed."""
        while True:
            ended = "the electrode engine has ended the connection"
            try:
                async with contextlib.aclosing(self._engine.events()) as events:
                    async for event in events:
                        await self.leases.end_stimulation(f"{event.kind.lower()}: {event.text}")
            except GridError as error:
                self._progress(str(error))
                ended = "the electrode engine does not answer"
            await self.leases.end_stimulation(ended)
            await asyncio.sleep(STATE_S)

    async def _tunnel(self, call: pb.TunnelCall) -> None:
        """Open this end of a tunnel and join it to the engine."""
        served, stub = self.leases.find(call.lease), self.link.stub
        if served is None or stub is None:
            return
        task = asyncio.current_task()
        if task is not None:
            served.tunnels.add(task)
            task.add_done_callback(served.tunnels.discard)
        stream: grpc.aio.StreamStreamCall[pb.RelayFrame, pb.RelayFrame] = stub.Relay()  # type: ignore[call-arg]

        async def send(data: bytes) -> None:
            await stream.write(pb.RelayFrame(data=data))

        async def receive() -> bytes:
            frame = await stream.read()
            return frame.data if isinstance(frame, pb.RelayFrame) else b""

        try:
            await stream.write(pb.RelayFrame(tunnel=call.tunnel))
            await self._join(TlsChannel(send, receive), served)
        except (GridError, grpc.aio.AioRpcError, OSError) as error:
            logger.warning("a tunnel of the lease %s has ended: %s", call.lease, error)
        finally:
            stream.cancel()

    async def _join(self, channel: TlsChannel, served: ServedLease) -> None:
        await channel.open(self._membership.key, served.order.member_key, server_side=True)
        greeting = json.dumps({"agent": served.agent, "token": served.token}).ljust(MAX_GREETING)
        await channel.write(greeting.encode())
        host, _, port = self._engine.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        await pipe(channel, reader, writer)
