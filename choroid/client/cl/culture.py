"""What loops, plans and recordings use of the culture that they belong to."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from choroid.client.cl.designs import Channels
from choroid.client.cl.feed import EngineFeed, Sample
from choroid.client.cl.queues import StimOperation
from choroid.client.cl.readings import DetectionResult
from choroid.client.nerves import NervesClient


class CultureSession(Protocol):
    """Declares the methods of :class:`choroid.client.cl.neurons.CulturedNeurons` that loops, plans and recordings call."""

    nerves: NervesClient
    uv_per_unit: float
    system_id: str
    feed: EngineFeed

    def timestamp(self) -> int: ...  # noqa: D102 (documented in CulturedNeurons)
    def get_channel_count(self) -> int: ...  # noqa: D102
    def get_frames_per_second(self) -> int: ...  # noqa: D102
    def interrupt_from(self, channels: Channels, frame: int) -> None: ...  # noqa: D102
    def margin_frames(self) -> int: ...  # noqa: D102
    def queue(self, step: StimOperation, begin: int = 0) -> None: ...  # noqa: D102
    def detection(self, first: int, end: int, spikes: list[Sample], stims: list[Sample]) -> DetectionResult: ...  # noqa: D102
    def read_frames(self, count: int, first: int) -> NDArray[np.int16]: ...  # noqa: D102
