"""A lease that this member holds: wait until it runs, keep it alive with heartbeats, release it."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from typing import Generic, Self, TypeVar

import grpc
import grpc.aio

from grid.errors import GridError, GridRefused, LeaseEnded
from grid.wire import grid_pb2 as pb

BEAT_SHARE = 1 / 4
"""Time between two heartbeats, as a share of the time that the lease has left after one."""
RETRY_S = 0.5
Info = TypeVar("Info", pb.LeaseInfo, pb.WorkInfo)


class RenewedLease(ABC, Generic[Info]):
    """A lease of this member.

    Attributes:
        info: Its last known state.
    """

    def __init__(self, info: Info) -> None:
        self.info: Info = info
        self._changed = asyncio.Event()

    @contextlib.asynccontextmanager
    async def held(self, wait_s: float | None, on_wait: Callable[[str], None] = lambda _: None) -> AsyncIterator[Self]:
        """Wait until it runs, and hold it while the block lasts.

        Args:
            wait_s: Longest wait (s); None waits as long as the hub keeps the request.
            on_wait: Takes what it waits for, whenever that changes.

        Raises:
            LeaseEnded: It was not granted.
            GridRefused: The wait was too long.
        """
        beating = asyncio.create_task(self.beat(), name=f"heartbeats of {self.info.lease}")
        try:
            await self._granted(wait_s, on_wait)
            yield self
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)
            await self._release()

    async def _granted(self, wait_s: float | None, on_wait: Callable[[str], None]) -> None:
        said = ""
        try:
            async with asyncio.timeout(wait_s):
                while self.info.state not in (pb.LeaseInfo.ACTIVE, pb.LeaseInfo.ENDED):
                    if self._waits_for != said:
                        said = self._waits_for
                        on_wait(said)
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise GridRefused(f"still waiting after {wait_s:g} s: {said}") from None
        if self.info.state == pb.LeaseInfo.ENDED:
            raise LeaseEnded(f"no lease: {self.info.reason}")

    async def beat(self) -> None:
        """Send heartbeats until the lease has ended. The hub may be away for a while: the lease may survive that."""
        pause_s = RETRY_S / 5
        while self.info.state != pb.LeaseInfo.ENDED:
            await asyncio.sleep(pause_s)
            pause_s = RETRY_S
            try:
                info = await self._renewed()
                if info is None:
                    self._end("unknown")
                    return
                self.info = info
                self._changed.set()
                if self.info.state == pb.LeaseInfo.ACTIVE:
                    pause_s = max(self.info.left_s, 2.0) * BEAT_SHARE
            except (grpc.aio.AioRpcError, GridError) as error:
                if isinstance(error, grpc.aio.AioRpcError) and error.code() is grpc.StatusCode.PERMISSION_DENIED:
                    self._end(str(error.details()))
                    return
                await self._again()

    async def _release(self) -> None:
        """End it at the hub; when the hub is away, it ends by itself.

        A connection from before the hub was away may still wait before it dials: then a new one is tried.
        """
        for is_last in (False, True):
            if self.info.state == pb.LeaseInfo.ENDED:
                return
            with contextlib.suppress(grpc.aio.AioRpcError, GridError):
                self.info = await self._released()
                return
            if not is_last:
                await self._again()

    def _end(self, reason: str) -> None:
        self.info = type(self.info)(lease=self.info.lease, state=pb.LeaseInfo.ENDED, reason=reason)
        self._changed.set()

    @property
    @abstractmethod
    def _waits_for(self) -> str:
        """Return what it waits for."""

    @abstractmethod
    async def _renewed(self) -> Info | None:
        """Send a heartbeat; return the lease, None when the hub does not know it."""

    @abstractmethod
    async def _released(self) -> Info:
        """End it at the hub."""

    @abstractmethod
    async def _again(self) -> None:
        """Connect to the hub again."""
