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
        """See :meth:`CulturedNeurons.read`."""
        return await asyncio.to_thread(self.now.read, frame_count, from_ts, analysis=analysis)

    async def loop(self, ticks_per_second: float, **options: Any) -> AsyncIterator[LoopTick]:
        """Yield the ticks of a loop; options and errors as :meth:`CulturedNeurons.loop`."""
        ticks = iter(self.now.loop(ticks_per_second, **options))
        while (tick := await asyncio.to_thread(next, ticks, None)) is not None:
            yield tick

    async def wait_for_stims(self, timeout_seconds: float = 75.0) -> list[Stim]:
        """See :meth:`CulturedNeurons.wait_for_stims`."""
        return await asyncio.to_thread(self.now.wait_for_stims, timeout_seconds)

    async def wait_until_stopped(self, recording: NeuronsRecording) -> None:
        """Wait until a recording has ended and is written."""
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
    """Connect to the tissue for the length of an `async with` block; arguments and errors as :func:`open_neurons`."""
    neurons = await asyncio.to_thread(
        open_neurons, take_control, wait_until_recordable, source=source, channels=channels, purpose=purpose
    )
    try:
        yield AsyncCulturedNeurons(neurons)
    finally:
        await asyncio.to_thread(neurons.close)
