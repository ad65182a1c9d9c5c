"""The streams of the gRPC service. Each reads the core's rings at its own pace and receives a report of its losses (N6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import numpy as np
from numpy.typing import NDArray

from choroid.client.wire import nerves_pb2 as pb
from nerves.core import Core
from nerves.detections import Spikes
from nerves.messages import event_message, gap_message
from nerves.ring import Gap


class WakeSignal:
    """Wakes waiting coroutines from the real-time thread, which never waits itself."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: list[asyncio.Future[None]] = []

    def ticket(self) -> asyncio.Future[None]:
        """Return a future that is completed at the next rise. Take it first, then look for data, and wait for it only if
        there are none.
        """
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(future)
        return future

    def rise(self) -> None:
        """Wake those that wait: there is something new. From any thread."""
        if self._waiting:
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)


MAX_SPIKES = 4096
WAVEFORM_BEFORE_S = 0.001
WAVEFORM_AFTER_S = 0.002
LOST_SAMPLE = -32768


class Streams:
    """Frames, spikes and events of one core. The signals wake them; none of them waits for the real-time thread."""

    def __init__(self, core: Core, loop: asyncio.AbstractEventLoop) -> None:
        self._core = core
        self.spike_signal = WakeSignal(loop)
        self.frame_signal = WakeSignal(loop)
        self.event_signal = WakeSignal(loop)

    async def frames(self, position: int, wanted: int) -> AsyncGenerator[pb.FramesReply]:
        """Yield raw frames from `position` on, `wanted` in a message."""
        ring = self._core.frames
        while True:
            ticket = self.frame_signal.ticket()
            if ring.head - position < wanted:
                await ticket
                continue
            gaps, stretch, position = ring.read(position, wanted)
            for gap in gaps:
                yield pb.FramesReply(gap=gap_message(gap))
            if stretch is not None:
                yield pb.FramesReply(
                    frames=pb.Frames(
                        first_frame=stretch.first_frame,
                        count=len(stretch.samples),
                        electrodes=self._core.info.electrodes,
                        samples=stretch.samples.astype("<i2", copy=False).tobytes(),
                    )
                )

    async def spikes(self, request: pb.StreamSpikesRequest) -> AsyncGenerator[pb.SpikesReply]:
        """Yield spikes from now or a frame on, of some or all electrodes, with or without waveforms."""
        ring = self._core.spikes
        number = ring.count
        if request.HasField("from_frame"):
            number, kept_from = ring.find(request.from_frame)
            if request.from_frame < kept_from:
                gap = Gap(request.from_frame, kept_from, "reader")
                yield pb.SpikesReply(gap=gap_message(gap), next_frame=self._core.next_frame)
        wanted = np.asarray(sorted(set(request.electrodes)), np.int64)
        pause_s = min(request.min_interval_ms, 10_000) / 1000
        signal = self.frame_signal if request.waveforms else self.spike_signal
        while True:
            ticket = signal.ticket()
            lost, spikes, following = ring.read(number, MAX_SPIKES)
            if request.waveforms:
                spikes, following = self._complete(spikes, following)
            if not lost and not len(spikes):
                number = following
                await ticket
                continue
            number = following
            spikes = _of(spikes, wanted) if len(wanted) else spikes
            if lost or len(spikes):
                yield self._spikes_reply(lost, spikes, request.waveforms)
                if pause_s:
                    await asyncio.sleep(pause_s)

    def _complete(self, spikes: Spikes, following: int) -> tuple[Spikes, int]:
        """Return the spikes whose waveforms have come whole, and the number of the first that has not."""
        last = self._core.frames.head - round(WAVEFORM_AFTER_S * self._core.info.sample_rate_hz)
        whole = int(np.searchsorted(spikes.frames, last, side="right"))
        rest = len(spikes) - whole
        return Spikes(spikes.frames[:whole], spikes.electrodes[:whole], spikes.uv[:whole]), following - rest

    def _spikes_reply(self, lost: int, spikes: Spikes, waveforms: bool) -> pb.SpikesReply:
        reply = pb.SpikesReply(
            lost=lost,
            frames=spikes.frames.tolist(),
            electrodes=spikes.electrodes.tolist(),
            uv=spikes.uv.tolist(),
            next_frame=self._core.next_frame,
        )
        if waveforms:
            rate = self._core.info.sample_rate_hz
            before, after = round(WAVEFORM_BEFORE_S * rate), round(WAVEFORM_AFTER_S * rate)
            cut = [
                self._waveform(int(frame) - before, before + after, int(electrode))
                for frame, electrode in zip(spikes.frames, spikes.electrodes, strict=True)
            ]
            reply.waveform_frames, reply.waveform_before = before + after, before
            reply.waveforms = b"".join(each.astype("<i2", copy=False).tobytes() for each in cut)
        return reply

    def _waveform(self, first: int, count: int, electrode: int) -> NDArray[np.int16]:
        """Return the raw samples of one electrode; :data:`LOST_SAMPLE` throughout if any of them is lost."""
        gaps, span, _ = self._core.frames.read(max(first, 0), count)
        if first < 0 or gaps or span is None or span.first_frame != first or len(span.samples) != count:
            return np.full(count, LOST_SAMPLE, np.int16)
        return span.samples[:, electrode]

    async def events(self, after: int | None, requester: str | None) -> AsyncGenerator[pb.Event]:
        """Yield the events after a number, or those to come, that `requester` may see."""
        log = self._core.events
        number = log.last if after is None else after
        lost_before = False
        while True:
            ticket = self.event_signal.ticket()
            if log.last <= number:
                await ticket
                continue
            lost, events, number = log.read(number, requester)
            lost_before = lost_before or lost
            for event in events:
                yield event_message(event, lost_before)
                lost_before = False


def _of(spikes: Spikes, wanted: NDArray[np.int64]) -> Spikes:
    """Return the spikes of some electrodes."""
    mine = np.isin(spikes.electrodes, wanted)
    return Spikes(spikes.frames[mine], spikes.electrodes[mine], spikes.uv[mine])
