"""The controller's ear at the nerves' door: a :class:`NervesSource` over gRPC.

Two streams are kept open in the background and their latest word is at hand at once, so that a tick of the
controller never waits for the engine, whatever the speed of its loop. When the door is shut there is no
summary; when the array stands still behind an open door, the summary grows old; and nothing else happens.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import grpc
import grpc.aio

from controller.nerves.summary import NervesSummary, StimulationTreatment, life_s
from controller.nerves.wire import nerves_pb2 as pb
from controller.nerves.wire import nerves_pb2_grpc as pb_grpc

logger = logging.getLogger(__name__)

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
        self._spikes: deque[tuple[int, int]] = deque(maxlen=MOST_SPIKES)
        self._frame = 0
        """The array's latest frame, by either stream."""
        self._summed_frame = 0
        """That of the latest summary, which is as fresh as the last change of this."""
        self._frame_s = 0.0
        self.lost_spikes = 0
        """Spikes that came too fast for this reader."""
        self._tasks = [
            asyncio.create_task(self._again(self._follow_summary)),
            asyncio.create_task(self._again(self._follow_spikes)),
        ]

    async def summary(self) -> NervesSummary | None:
        """The latest firing summary, a second or so old while the array goes on; None while the door is shut."""
        return self._summary

    def recent_spikes(self) -> list[tuple[float, int]]:
        """The last 5 s of the array's clock: (seconds, electrode), oldest first; none when it stands or is gone."""
        summary = self._summary
        if summary is None or asyncio.get_running_loop().time() - summary.at_s > life_s(RECENT_S):
            return []
        while self._spikes and (self._frame - self._spikes[0][0]) * self._frame_s > RECENT_S:
            self._spikes.popleft()
        return [(frame * self._frame_s, electrode) for frame, electrode in self._spikes]

    async def close(self) -> None:
        """Disconnect."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._channel.close(None)

    async def _again(self, follow: Callable[[], Awaitable[None]]) -> None:
        """Follow for ever: neither a shut door nor a defect of ours may make the controller deaf for good."""
        said = ""
        while True:
            try:
                await follow()
            except grpc.aio.AioRpcError:
                pass  # the door is shut: no summary tells it
            except Exception as error:
                if repr(error) != said:  # once, not every two seconds
                    said = repr(error)
                    logger.exception("the controller's ear at the nerves' door failed; it goes on listening")
            await asyncio.sleep(RETRY_S)

    async def _follow_summary(self) -> None:
        loop = asyncio.get_running_loop()
        request = pb.StreamSummaryRequest(every_ms=SUMMARY_EVERY_MS)
        try:
            async with _hanging_up(self._stub.StreamSummary(request, metadata=self._metadata)) as call:
                async for reply in call:
                    if reply.frame == self._summed_frame:
                        continue  # the array stands: what was said of it grows old
                    self._summed_frame = self._frame = reply.frame
                    self._summary = NervesSummary(
                        at_s=loop.time(),
                        firing_rate_hz=reply.mean_active_hz,
                        active_electrodes=reply.active_electrodes,
                        electrodes=reply.electrodes,
                        rates_hz=tuple(reply.rates_hz),
                        treatment=_treatment(reply.welfare),
                    )
        finally:
            self._summary = None

    async def _follow_spikes(self) -> None:
        info = await self._stub.Info(pb.InfoRequest(), metadata=self._metadata)
        self._spikes.clear()
        self._frame_s = 1.0 / info.sample_rate_hz
        request = pb.StreamSpikesRequest(min_interval_ms=SPIKES_EVERY_MS)
        async with _hanging_up(self._stub.StreamSpikes(request, metadata=self._metadata)) as call:
            async for reply in call:
                self._frame = reply.next_frame
                self.lost_spikes += reply.lost
                self._spikes.extend(zip(reply.frames, reply.electrodes, strict=True))


def _treatment(said: pb.Welfare) -> StimulationTreatment:
    return StimulationTreatment(
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
