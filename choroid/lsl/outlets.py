"""`choroid array stream`: offer frames, spikes and events of a running electrode engine as LSL streams, read-only.

It is a client of the engine as any other, in a process of its own: nothing that happens to it or to its readers concerns the
engine. LSL has no authentication: every program on the network can read.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from contextlib import aclosing
from pathlib import Path

import numpy as np
import pylsl

from choroid.client.nerves import AsyncNervesClient
from choroid.client.nerves_terms import FrameGap
from choroid.client.wire import nerves_pb2 as pb
from choroid.common.signals import stop_on_signals
from choroid.running.local_agent import ENDPOINT
from controller.memory.identity import read_identity
from nerves.cards.arrival_clock import ArrivalClock

BATCH_S = 0.01
BUFFERED_S = 30


class Outlets:
    """Three streams: `NAME` (µV, float32), `NAME spikes` (electrode and µV, irregular), `NAME events` (text, irregular)."""

    def __init__(self, client: AsyncNervesClient, info: pb.InfoReply, name: str, rig_id: str) -> None:
        """`rig_id` is the identity of the data folder: streams of two rigs with one name have different sources."""
        self._client = client
        self._rate, self._uv = info.sample_rate_hz, np.float32(info.uv_per_unit)
        self._clock = ArrivalClock(info.sample_rate_hz, pylsl.local_clock)
        self._frames = pylsl.StreamOutlet(_frames_info(name, info, rig_id), 0, BUFFERED_S)
        spikes = pylsl.StreamInfo(
            f"{name} spikes", "Spikes", 2, pylsl.IRREGULAR_RATE, pylsl.cf_float32, f"choroid {rig_id} {name} spikes"
        )
        _describe(spikes, (("electrode", ""), ("amplitude", "microvolts")))
        self._spikes = pylsl.StreamOutlet(spikes, 0, BUFFERED_S)
        events = pylsl.StreamInfo(
            f"{name} events", "Markers", 1, pylsl.IRREGULAR_RATE, pylsl.cf_string, f"choroid {rig_id} {name} events"
        )
        self._events = pylsl.StreamOutlet(events, 0, BUFFERED_S)

    async def serve(self) -> None:
        """Offer the streams until cancelled, or until the engine ends (ClientError)."""
        async with asyncio.TaskGroup() as group:
            for follow in (self._follow_frames, self._follow_spikes, self._follow_events):
                group.create_task(follow())

    async def _follow_frames(self) -> None:
        size = max(25, round(BATCH_S * self._rate))
        async with aclosing(self._client.frames(frames=size)) as batches:
            async for batch in batches:
                if isinstance(batch, FrameGap):
                    continue  # the timestamps say so
                end = batch.first_frame + len(batch.samples)
                self._clock.arrived(end)
                self._frames.push_chunk(np.ascontiguousarray(batch.samples * self._uv), self._clock.time_s(end - 1))

    async def _follow_spikes(self) -> None:
        async with aclosing(self._client.spikes(round(BATCH_S * 1000))) as batches:
            async for batch in batches:
                for frame, electrode, uv in zip(batch.frames, batch.electrodes, batch.amplitudes_uv, strict=True):
                    self._spikes.push_sample([float(electrode), float(uv)], self._clock.time_s(int(frame)))

    async def _follow_events(self) -> None:
        async with aclosing(self._client.events()) as events:
            async for event in events:
                self._events.push_sample([f"{event.kind}: {event.text}"], self._clock.time_s(event.frame))


def _frames_info(name: str, info: pb.InfoReply, rig_id: str) -> pylsl.StreamInfo:
    stream = pylsl.StreamInfo(
        name, "Ephys", info.electrodes, info.sample_rate_hz, pylsl.cf_float32, f"choroid {rig_id} {name} frames"
    )
    _describe(stream, ((str(number), "microvolts") for number in range(info.electrodes)))
    source = stream.desc().append_child("acquisition")
    source.append_child_value("rig_id", rig_id)
    source.append_child_value("array", info.array)
    source.append_child_value("simulated", str(info.simulated).lower())
    source.append_child_value("replay", str(info.replay).lower())
    return stream


def _describe(stream: pylsl.StreamInfo, channels: Iterable[tuple[str, str]]) -> None:
    """Name the channels of a stream, with the unit of each."""
    described = stream.desc().append_child("channels")
    for label, unit in channels:
        channel = described.append_child("channel")
        channel.append_child_value("label", label)
        if unit:
            channel.append_child_value("unit", unit)


def offer(data: Path, name: str, duration_s: float | None) -> int:
    """Offer the streams of the rig whose data folder is `data`, until interrupted; return the exit status.

    Raises:
        ClientError: The engine cannot be reached, or has ended.
    """
    asyncio.run(_offer(data, name, duration_s))
    return 0


async def _offer(data: Path, name: str, duration_s: float | None) -> None:
    stop = asyncio.Event()
    stop_on_signals(stop, duration_s)
    async with AsyncNervesClient.from_file(data / ENDPOINT) as client:
        outlets = Outlets(client, await client.info(), name, read_identity(data))
        print(f"LSL streams: {name}, {name} spikes, {name} events (Ctrl-C ends)", file=sys.stderr, flush=True)
        serving = asyncio.create_task(outlets.serve())
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait((serving, stopped), return_when=asyncio.FIRST_COMPLETED)
        failed = serving.done()
        for task in (serving, stopped):
            task.cancel()
        await asyncio.gather(serving, stopped, return_exceptions=not failed)
