"""The lasting connection to the hub: it is dialled again, after growing pauses, until it is closed."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable

import grpc
import grpc.aio

from grid.clock import as_text, utc_s
from grid.errors import GridError, GridRefused
from grid.identity.authority import CERTIFICATE_S
from grid.identity.requests import MAX_CLOCK_ERROR_S, PROCESS_KEY
from grid.member import waiting
from grid.member.membership import Membership, call_error
from grid.wire import grid_pb2 as pb
from grid.wire import grid_pb2_grpc as pb_grpc

logger = logging.getLogger(__name__)

STEADY_S = 20.0
"""A connection that lasted this long makes the next pause short again."""
RENEW_S = CERTIFICATE_S / 3
MAX_WAITING = 1024
SessionCall = grpc.aio.StreamStreamCall[pb.MemberMessage, pb.HubMessage]


class HubLink:
    """The connection of one member or laboratory.

    Attributes:
        connected: Whether it is open at present.
        stub: Calls of the hub's service while it is connected.
        working_on: What heartbeats say.
    """

    def __init__(
        self,
        membership: Membership,
        hello: Callable[[], pb.Hello],
        take: Callable[[pb.HubMessage], None],
        *,
        on_state: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Prepare it; :meth:`run` connects.

        Args:
            membership: Who connects where.
            hello: Makes the first message of each connection.
            take: Is called with each message of the hub.
            on_state: Is called with a text when the state of the connection changes.
        """
        self.membership = membership
        self.connected = asyncio.Event()
        self.stub: pb_grpc.HubAsyncStub | None = None
        self.working_on = ""
        self._hello = hello
        self._take = take
        self._on_state = on_state
        self._heartbeat_s = 5.0
        self._process = secrets.token_hex(16)
        self._outgoing: asyncio.Queue[pb.MemberMessage] = asyncio.Queue(MAX_WAITING)

    def send(self, message: pb.MemberMessage) -> None:
        """Queue a message; it is dropped while there is no connection, because :attr:`hello` starts from the present."""
        if self.connected.is_set() and not self._outgoing.full():
            self._outgoing.put_nowait(message)

    async def run(self) -> None:
        """Stay connected.

        Raises:
            GridRefused: The hub refuses this identity: it was revoked.
        """
        pause_s, loop = waiting.FIRST_PAUSE_S, asyncio.get_running_loop()
        while True:
            start = loop.time()
            try:
                await self.membership.require_certificate(RENEW_S)
                await self._connection()
                self._on_state("the hub has ended the connection")
            except grpc.aio.AioRpcError as error:
                await self._examine(error)
            except GridRefused:
                raise
            except GridError as error:
                self._on_state(str(error))
            finally:
                self.connected.clear()
                self.stub = None
            if loop.time() - start > STEADY_S:
                pause_s = waiting.FIRST_PAUSE_S
            await asyncio.sleep(waiting.spread(pause_s))
            pause_s = min(2 * pause_s, waiting.LONGEST_PAUSE_S)

    async def _examine(self, error: grpc.aio.AioRpcError) -> None:
        """Find out why a call was refused; the hub tells an identity its state at the enrolment port."""
        reason = call_error(error, f"the hub at {self.membership.hub.host}")
        self._on_state(str(reason))
        if isinstance(reason, GridRefused):
            try:
                await self.membership.require_certificate(CERTIFICATE_S)
            except GridRefused:
                raise
            except GridError as failed:
                self._on_state(str(failed))

    async def _connection(self) -> None:
        channel = self.membership.channel()
        try:
            stub: pb_grpc.HubAsyncStub = pb_grpc.HubStub(channel)
            while not self._outgoing.empty():
                self._outgoing.get_nowait()
            call: SessionCall = stub.Session(metadata=((PROCESS_KEY, self._process),))  # type: ignore[call-arg]
            sending = asyncio.create_task(self._send_all(call), name="messages to the hub")
            try:
                async with asyncio.timeout(_until_renewal_s(self.membership.certificate_left_s())):
                    async for message in call:
                        if message.HasField("welcome"):
                            self._welcomed(stub, message.welcome)
                        self._take(message)
            except TimeoutError:
                self._on_state("the certificate is renewed")
            finally:
                sending.cancel()
                call.cancel()
                await asyncio.gather(sending, return_exceptions=True)
        finally:
            self.connected.clear()
            await channel.close(None)

    def _welcomed(self, stub: pb_grpc.HubAsyncStub, welcome: pb.Welcome) -> None:
        off_s = utc_s() - welcome.utc_s
        if abs(off_s) > MAX_CLOCK_ERROR_S:
            self._on_state(
                f"the clock of this machine differs by {off_s:+.0f} s from the hub's ({as_text(welcome.utc_s)})"
            )
        self.stub = stub
        self._heartbeat_s = welcome.heartbeat_s
        self.connected.set()
        self._on_state(f"connected to {welcome.hub}")

    async def _send_all(self, call: SessionCall) -> None:
        await call.write(pb.MemberMessage(hello=self._hello()))
        while True:
            try:
                async with asyncio.timeout(self._heartbeat_s):
                    message = await self._outgoing.get()
            except TimeoutError:
                message = pb.MemberMessage(heartbeat=pb.Heartbeat(utc_s=utc_s(), working_on=self.working_on))
            await call.write(message)


def _until_renewal_s(left_s: float) -> float:
    """Return how long a connection lasts until the certificate is renewed: to half of what is left of it, if that failed."""
    return max(left_s - RENEW_S / 2, left_s / 2, 1.0)
