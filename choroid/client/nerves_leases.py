"""Leases that live as long as their client: heartbeats every 10 ms, and an end with the connection.

When the client's process dies its connection ends and the lease with it. When its heartbeats stop for 30 ms, as after a power
cut, no pulse is delivered until they go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator

import grpc
import grpc.aio

from choroid.client.nerves_terms import granted
from choroid.client.wire import nerves_pb2 as pb
from choroid.client.wire import nerves_pb2_grpc as pb_grpc

HEARTBEAT_S = 0.01
GRANTED_WITHIN_S = 10.0
RELEASED_WITHIN_S = 10.0
Metadata = tuple[tuple[str, str], ...]


class HeldLease:
    """Holds a lease with heartbeats from a thread of this process.

    Attributes:
        reply: The lease as granted.
    """

    def __init__(self, stub: pb_grpc.NervesStub, metadata: Metadata, electrodes: list[int], ttl_ms: int) -> None:
        """Acquire it.

        Raises:
            NervesError: It was not granted.
            grpc.RpcError: The engine cannot be reached or refuses the call.
        """
        self._released = threading.Event()
        first = pb.HoldRequest(electrodes=electrodes, ttl_ms=ttl_ms)
        self._call = stub.HoldLease(self._heartbeats(first), metadata=metadata)
        late = threading.Timer(GRANTED_WITHIN_S, self._call.cancel)
        late.start()
        try:
            self.reply = granted(next(iter(self._call)))
        except BaseException:
            self._end()
            raise
        finally:
            late.cancel()

    def release(self) -> None:
        """End the lease; it is over when this returns. Nothing happens to one that the engine has ended."""
        self._released.set()
        late = threading.Timer(RELEASED_WITHIN_S, self._call.cancel)  # a lease ends with its call
        late.start()
        try:
            with contextlib.suppress(grpc.RpcError):
                for _ in self._call:
                    pass
        finally:
            late.cancel()

    def _end(self) -> None:
        self._released.set()
        self._call.cancel()  # type: ignore[no-untyped-call]

    def _heartbeats(self, first: pb.HoldRequest) -> Iterator[pb.HoldRequest]:
        yield first
        beat = pb.HoldRequest()
        while not self._released.wait(HEARTBEAT_S):
            yield beat


class AsyncHeldLease:
    """Holds a lease with heartbeats from the event loop: a blocked loop sends none.

    Attributes:
        reply: The lease as granted, after :meth:`acquire`.
    """

    def __init__(self, stub: pb_grpc.NervesAsyncStub, metadata: Metadata) -> None:
        self._call: grpc.aio.StreamStreamCall[pb.HoldRequest, pb.LeaseReply] = stub.HoldLease(  # type: ignore[call-arg]
            metadata=metadata
        )
        self._beating: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._released = asyncio.Event()
        self.reply = pb.LeaseReply()

    async def acquire(self, electrodes: list[int], ttl_ms: int) -> None:
        """Acquire the lease, and begin its heartbeats.

        Args:
            electrodes: Their indices.
            ttl_ms: The lease ends this long (ms of real time) after the last heartbeat.

        Raises:
            NervesError: It was not granted.
            grpc.RpcError: The engine cannot be reached or refuses the call.
            TimeoutError: The engine has not answered within 10 s.
        """
        try:
            async with asyncio.timeout(GRANTED_WITHIN_S):
                await self._call.write(pb.HoldRequest(electrodes=electrodes, ttl_ms=ttl_ms))
                self.reply = granted(await self._first())
        except BaseException:
            self._call.cancel()
            raise
        self._ending = asyncio.create_task(self._read_to_end(), name="end of a lease")
        self._beating = asyncio.create_task(self._beat(self._ending), name="heartbeats of a lease")

    async def release(self) -> None:
        """End the lease; it is over when this returns. Nothing happens to one that the engine has ended."""
        await self._stop_beating()
        with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError, TimeoutError):
            async with asyncio.timeout(RELEASED_WITHIN_S):
                await self._call.done_writing()
                await self._closed()
        await self.drop()  # a lease ends with its call, also when the engine does not answer

    async def drop(self) -> None:
        """Let the connection end the lease."""
        self._call.cancel()
        await self._stop_beating()
        await self._closed()
        await self._call.code()

    async def _first(self) -> pb.LeaseReply:
        reply = await self._call.read()  # raises the error of a call that was refused
        return reply if isinstance(reply, pb.LeaseReply) else pb.LeaseReply(reason="the engine has ended the call")

    async def _read_to_end(self) -> None:
        """Read what the engine says until it has ended the call: gRPC keeps a call whose last message is not read."""
        with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):
            while isinstance(await self._call.read(), pb.LeaseReply):
                pass

    async def _closed(self) -> None:
        """Wait until the engine has ended the call, or it is cancelled."""
        if self._ending is not None:
            await asyncio.wait([self._ending])

    async def _stop_beating(self) -> None:
        """End the heartbeats between two of them: to cancel one that is being written would cancel the call."""
        self._released.set()
        if self._beating is not None:
            await asyncio.wait([self._beating], timeout=RELEASED_WITHIN_S)

    async def _beat(self, ending: asyncio.Task[None]) -> None:
        beat = pb.HoldRequest()
        with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):
            while not (ending.done() or self._call.done()) and not await self._waited():
                await self._call.write(beat)

    async def _waited(self) -> bool:
        """Wait until the next heartbeat; return whether the lease was released meanwhile."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HEARTBEAT_S):
                await self._released.wait()
        return self._released.is_set()
