"""The controller's ear at the nerves' door: a :class:`NervesSource` over gRPC.

Two streams are kept open in the background and their latest word is at hand at once, so that a tick of the
controller never waits for the engine, whatever the speed of its loop. When the door is shut there is no
summary, and nothing else happens.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import grpc
import grpc.aio

from controller.nerves.summary import NervesSummary, Treatment
from controller.nerves.wire import nerves_pb2 as pb
from controller.nerves.wire import nerves_pb2_grpc as pb_grpc

Q = TypeVar("Q")
R = TypeVar("R")

SUMMARY_EVERY_MS = 1000
SPIKES_EVERY_MS = 100
RECENT_S = 5.0
RETRY_S = 2.0
MOST_SPIKES = 50_000


class GatewayNerves:
    """Connects by itself, again and again. Must be made on the loop that uses it."""

    def __init__(self, address: str, token: str) -> None:
        # A connection of its own, that ends with it; a pooled one would outlive us and grumble when the
        # engine ends.
        self._channel = grpc.aio.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)])
        self._stub: pb_grpc.NervesAsyncStub = pb_grpc.NervesStub(self._channel)
        self._metadata = (("authorization", f"Bearer {token}"),)
        self._summary: NervesSummary | None = None
        self._spikes: deque[tuple[float, int]] = deque(maxlen=MOST_SPIKES)
        self._now_s = 0.0
        self._sample_rate_hz = 0.0
        self.lost_spikes = 0
        """Spikes that came too fast for this reader."""
        self._tasks = [
            asyncio.create_task(self._again(self._follow_summary)),
            asyncio.create_task(self._again(self._follow_spikes)),
        ]

    async def summary(self) -> NervesSummary | None:
        """The latest firing summary, at most a second or so old; None while the door is shut."""
        return self._summary

    def recent_spikes(self) -> list[tuple[float, int]]:
        """The last 5 s of the array's clock: (seconds, electrode), oldest first."""
        since = self._now_s - RECENT_S
        while self._spikes and self._spikes[0][0] < since:
            self._spikes.popleft()
        return list(self._spikes)

    async def close(self) -> None:
        """Disconnect."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._channel.close(None)

    async def _again(self, follow: Callable[[], Awaitable[None]]) -> None:
        while True:
            with contextlib.suppress(grpc.aio.AioRpcError):
                await follow()
            self._summary = None
            await asyncio.sleep(RETRY_S)

    async def _follow_summary(self) -> None:
        loop = asyncio.get_running_loop()
        request = pb.StreamSummaryRequest(every_ms=SUMMARY_EVERY_MS)
        async with _hanging_up(self._stub.StreamSummary(request, metadata=self._metadata)) as call:
            async for reply in call:
                self._summary = NervesSummary(
                    at_s=loop.time(),
                    firing_rate_hz=reply.mean_active_hz,
                    active_electrodes=reply.active_electrodes,
                    electrodes=reply.electrodes,
                    rates_hz=tuple(reply.rates_hz),
                    treatment=_treatment(reply.welfare),
                )

    async def _follow_spikes(self) -> None:
        info = await self._stub.Info(pb.InfoRequest(), metadata=self._metadata)
        self._spikes.clear()
        request = pb.StreamSpikesRequest(min_interval_ms=SPIKES_EVERY_MS)
        async with _hanging_up(self._stub.StreamSpikes(request, metadata=self._metadata)) as call:
            async for reply in call:
                self._now_s = reply.next_frame / info.sample_rate_hz
                self.lost_spikes += reply.lost
                self._spikes.extend(
                    (frame / info.sample_rate_hz, electrode)
                    for frame, electrode in zip(reply.frames, reply.electrodes, strict=True)
                )


def _treatment(said: pb.Welfare) -> Treatment:
    return Treatment(
        load=said.load,
        rest_h=said.rest_h,
        evoked_ratio=said.evoked_ratio if said.HasField("evoked_ratio") else None,
        response_lost=said.response_lost,
        tier=said.tier,
        level=said.level,
        reason=said.reason,
    )


@contextlib.asynccontextmanager
async def _hanging_up(call: grpc.aio.UnaryStreamCall[Q, R]) -> AsyncIterator[grpc.aio.UnaryStreamCall[Q, R]]:
    """A stream that is over, on our side too, when the block is left."""
    try:
        yield call
    finally:
        call.cancel()
        await call.code()
