"""An outlet of the Lab Streaming Layer before an array, in microvolts and with the timestamps of the array's crystal."""

from __future__ import annotations

import numpy as np
import pylsl
from numpy.typing import NDArray

from sim.neurons.array import UV_PER_UNIT
from sim.streaming import Sampled, StreamingBoard

CHUNK_FRAMES = 250


class LslOutlet:
    """Offers an array as the stream `name` until :meth:`close`; with `unit` "" it does not say what its numbers are."""

    def __init__(self, array: Sampled, sample_rate_hz: float, name: str, *, unit: str = "microvolts") -> None:
        info = pylsl.StreamInfo(name, "Ephys", array.electrodes, sample_rate_hz, pylsl.cf_float32, f"choroid {name}")
        channels = info.desc().append_child("channels")
        for number in range(array.electrodes):
            channel = channels.append_child("channel")
            channel.append_child_value("label", str(number))
            if unit:
                channel.append_child_value("unit", unit)
        self._outlet = pylsl.StreamOutlet(info, CHUNK_FRAMES, 60)
        self._rate = sample_rate_hz
        self._zero_s = pylsl.local_clock()
        self.board = StreamingBoard(array, sample_rate_hz, CHUNK_FRAMES, self._push)

    def _push(self, first: int, samples: NDArray[np.int16]) -> None:
        last_s = self._zero_s + (first + len(samples) - 1) / self._rate
        self._outlet.push_chunk(np.ascontiguousarray(samples * np.float32(UV_PER_UNIT)), last_s)

    def close(self) -> None:
        """Withdraw the stream."""
        self.board.close()
        del self._outlet
