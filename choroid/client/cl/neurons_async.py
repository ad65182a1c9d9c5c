"""The same connection for asyncio: what waits runs in a thread, the rest is called at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from choroid.client.cl.neurons import CulturedNeurons, open_neurons
from choroid.client.cl.readings import LoopTick, Stim
from choroid.client.cl.records import NeuronsRecording
from choroid.client.nerves import NervesClient


class AsyncCulturedNeurons:
    """Reads and stimulates. Names are those of :class:`CulturedNeurons`; what does not wait is reached as `neurons.now`.

    Attributes:
        now: The connection for what does not wait: `stim`, `interrupt`, `sync`, `create_stim_plan`, `timestamp`, `record`.
    """

    def __init__(self, neurons: CulturedNeurons) -> None:
        """Wrap a connection."""
        self.now = neurons

    async def read(self, frame_count: int, from_ts: int | None = None, *, analysis: bool = False) -> Any:
        """Read frames, or what was detected in them.

        Args:
            frame_count: How many.
            from_ts: The first one; up to 5 s ago. None means from now on.
            analysis: Whether to return spikes and pulses instead of samples.

        Returns:
            As :meth:`CulturedNeurons.read`.

        Raises:
            NervesError: Frames are lost, or are not kept any more.
        """
        return await asyncio.to_thread(self.now.read, frame_count, from_ts, analysis=analysis)

    async def loop(self, ticks_per_second: float, **options: Any) -> AsyncIterator[LoopTick]:
        """Yield the ticks of a loop.

        Args:
            ticks_per_second: At most the frames in a second. Spikes come in blocks of 1 ms, however short a turn is.
            options: The other arguments of :meth:`CulturedNeurons.loop`.

        Yields:
            Each tick, when its frames have passed.

        Raises:
            TimeoutError: A turn began too late.
        """
        ticks = iter(self.now.loop(ticks_per_second, **options))
        while (tick := await asyncio.to_thread(next, ticks, None)) is not None:
            yield tick

    async def wait_for_stims(self, timeout_seconds: float = 75.0) -> list[Stim]:
        """Wait until every stimulation is delivered or refused.

        Args:
            timeout_seconds: Longest wait (s); after it this returns as well.

        Returns:
            The pulses that were delivered since the last such call, by their frames.
        """
        return await asyncio.to_thread(self.now.wait_for_stims, timeout_seconds)

    async def wait_until_stopped(self, recording: NeuronsRecording) -> None:
        """Wait until a recording has ended and is written.

        Args:
            recording: A recording of this connection, as `now.record` has returned it.

        Raises:
            RecordingFailedError: It is not whole.
        """
        await asyncio.to_thread(recording.wait_until_stopped)


@asynccontextmanager
async def open_async(
    take_control: bool = True,
    wait_until_recordable: bool = True,
    *,
    source: NervesClient | Path | str | None = None,
    channels: Iterable[int] | None = None,
    purpose: str = "CL program",
) -> AsyncIterator[AsyncCulturedNeurons]:
    """Connect to the tissue for the length of an `async with` block.

    Args:
        take_control: Lease the channels; without it the program only reads.
        wait_until_recordable: Wait until frames come.
        source: A client, or the path of `nerves.json`; by default the environment variable CHOROID_NERVES names it.
        channels: Which channels to lease; None means all.
        purpose: What the program is for; kept in the stimulation ledger.

    Yields:
        The connection, which is closed at the end of the block.

    Raises:
        NervesError: The engine cannot be reached.
        ControlRequestError: Another agent has a channel, or this one may not stimulate it.
        TimeoutError: No frame came within 15 s.
    """
    neurons = await asyncio.to_thread(
        open_neurons, take_control, wait_until_recordable, source=source, channels=channels, purpose=purpose
    )
    try:
        yield AsyncCulturedNeurons(neurons)
    finally:
        await asyncio.to_thread(neurons.close)
