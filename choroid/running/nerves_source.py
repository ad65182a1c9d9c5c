"""The controller's source of firing summaries: the electrode engine, over the client that remote agents use.

Two streams are kept open in the background and their latest messages are at hand at once, so that a tick of the controller
never waits for the engine, whatever the speed of its loop. While the engine cannot be reached there is no summary; while the
array stands still, the summary grows old.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import aclosing

from choroid.client.errors import NervesError
from choroid.client.nerves import AsyncNervesClient
from choroid.client.wire import nerves_pb2 as pb
from controller.nerves.summary import NervesSummary, StimulationTreatment, life_s

logger = logging.getLogger(__name__)

SUMMARY_EVERY_MS = 1000
SPIKES_EVERY_MS = 100
RECENT_S = 5.0
RETRY_S = 2.0
MAX_SPIKES = 50_000


class GatewayNerves:
    """A `NervesSource` that connects by itself, again and again. Make it on the loop that uses it."""

    def __init__(self, address: str, token: str) -> None:
        self._client = AsyncNervesClient(address, token)
        self._summary: NervesSummary | None = None
        self._spikes: deque[tuple[int, int]] = deque(maxlen=MAX_SPIKES)
        self._frame = 0
        """The array's latest frame, by either stream."""
        self._summed_frame = 0
        """That of the latest summary, which is as fresh as the last change of this."""
        self._frame_s = 0.0
        self.lost_spikes = 0
        """Spikes that came too fast for this reader."""
        self._tasks = [
            asyncio.create_task(self._repeat(self._follow_summary)),
            asyncio.create_task(self._repeat(self._follow_spikes)),
        ]

    async def summary(self) -> NervesSummary | None:
        """Return the latest firing summary, a second or so old while the array goes on; None while there is none."""
        return self._summary

    def recent_spikes(self) -> list[tuple[float, int]]:
        """Return the last 5 s of the array's clock: (seconds, electrode), oldest first; none while it stands."""
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
        await self._client.close()

    async def _repeat(self, follow: Callable[[], Awaitable[None]]) -> None:
        """Follow without end: neither an engine that is gone nor a defect here may end it."""
        logged = ""
        while True:
            try:
                await follow()
            except NervesError:
                pass  # the engine is gone: that there is no summary tells it
            except Exception as error:
                if repr(error) != logged:  # once, not every two seconds
                    logged = repr(error)
                    logger.exception("the connection to the electrode engine failed; it is tried again")
            await asyncio.sleep(RETRY_S)

    async def _follow_summary(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with aclosing(self._client.summaries(SUMMARY_EVERY_MS)) as summaries:
                async for reply in summaries:
                    if reply.frame == self._summed_frame:
                        continue  # the array stands: its last figures grow old
                    self._summed_frame = self._frame = reply.frame
                    self._summary = NervesSummary(
                        at_s=loop.time(),
                        firing_rate_hz=reply.mean_active_hz,
                        active_electrodes=reply.active_electrodes,
                        electrodes=reply.electrodes,
                        rates_hz=tuple(reply.rates_hz),
                        treatment=_treatment(reply.welfare),
                        observed_electrodes=reply.observed_electrodes if reply.states else None,
                        states=tuple(_STATE_NAMES.get(state, "unknown") for state in reply.states),
                    )
        finally:
            self._summary = None

    async def _follow_spikes(self) -> None:
        info = await self._client.info()
        self._spikes.clear()
        self._frame_s = 1.0 / info.sample_rate_hz
        async with aclosing(self._client.spikes(SPIKES_EVERY_MS)) as batches:
            async for batch in batches:
                self._frame = batch.next_frame
                self.lost_spikes += batch.lost
                self._spikes.extend(zip(batch.frames.tolist(), batch.electrodes.tolist(), strict=True))


_STATE_NAMES = {
    pb.ELECTRODE_OK: "ok",
    pb.ELECTRODE_DEAD: "dead",
    pb.ELECTRODE_NOISY: "noisy",
    pb.ELECTRODE_SATURATED: "saturated",
    pb.ELECTRODE_BLANKED: "blanked",
}


def _treatment(welfare: pb.Welfare) -> StimulationTreatment:
    return StimulationTreatment(
        load=welfare.load,
        rest_h=welfare.rest_h,
        evoked_ratio=welfare.evoked_ratio if welfare.HasField("evoked_ratio") else None,
        response_lost=welfare.response_lost,
        tier=welfare.tier,
        level=welfare.level,
        reason=welfare.reason,
    )
