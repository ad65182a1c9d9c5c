"""The input card of the Lab Streaming Layer: one stream with a regular rate becomes an array that only records.

LSL has no sample numbers. Frames are counted; a jump of the timestamps is a gap of as many frames.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise

import numpy as np
import pylsl
from numpy.typing import NDArray

from nerves.cards.contract import CardRefused, Frames
from nerves.cards.input_only import input_info
from nerves.cards.replayable import Scaling
from nerves.cards.streamed import BLOCK_S, STALLED_AFTER_S, StreamedCard

FOUND_WITHIN_S = 5.0
BUFFERED_S = 30
GAP_S = 0.02
"""A step of the timestamps that is longer than the frames between by more than this is a gap; less is jitter (s)."""
_UV = {"microvolts": 1.0, "microvolt": 1.0, "uv": 1.0, "µv": 1.0, "millivolts": 1e3, "mv": 1e3, "volts": 1e6, "v": 1e6}
_TYPES = {
    pylsl.cf_float32: np.float32, pylsl.cf_double64: np.float64, pylsl.cf_int16: np.int16, pylsl.cf_int32: np.int32,
    pylsl.cf_int8: np.int8,
}  # fmt: skip


class LslCard(StreamedCard):
    """Reads an LSL stream as an :class:`~nerves.cards.contract.ElectrodeCard` that only records.

    Raises:
        CardRefused: There is no such stream, or it is none of voltages at a regular rate.
    """

    stalled = "no samples come from the LSL stream; see whether its program runs, and the network"

    def __init__(
        self,
        name: str,
        *,
        gain_uv: float | None = None,
        material: str = "Pt",
        diameter_um: float = 30.0,
        simulated: bool = False,
        stalled_after_s: float = STALLED_AFTER_S,
    ) -> None:
        found = pylsl.resolve_byprop("name", name, 1, FOUND_WITHIN_S)
        if not found:
            raise CardRefused(
                f"there is no LSL stream “{name}”. Likely cause: its program does not run, or is on another network. Next:"
                " start it; compare the name"
            )
        self._inlet = pylsl.StreamInlet(found[0], max_buflen=BUFFERED_S, recover=True)
        stream = self._inlet.info(timeout=FOUND_WITHIN_S)
        rate, channels = stream.nominal_srate(), stream.channel_count()
        kind = _TYPES.get(stream.channel_format())
        units = _units(stream)
        scales = {_UV.get(unit) for unit in units}
        scale = gain_uv or (scales.pop() if len(scales) == 1 else None)
        why = ""
        if kind is None or not rate:
            why = "has no regular samples that are numbers. Next: choose another stream"
        elif scale is None:
            named = ", ".join(f"“{unit}”" for unit in sorted(units) if unit)
            said = f"has samples in {named}" if named else "does not say its unit"
            why = f"{said}. Next: write gain: under the options, the voltage of one unit, such as 1 uV"
        if why or kind is None or scale is None:
            self._inlet.close_stream()
            raise CardRefused(f"the LSL stream “{name}” {why}")
        gains = np.full(channels, scale)
        self._scaling = Scaling(np.dtype(kind), gains, 0.0 * gains)
        super().__init__(
            input_info(
                f"LSL stream {name}, {channels} channels", channels, rate, self._scaling.uv_per_unit,
                block_frames=max(1, round(BLOCK_S * rate)), material=material, diameter_um=diameter_um, simulated=simulated,
            ),
            stalled_after_s,
        )  # fmt: skip
        self._buffer = np.empty((self.info.block_frames, channels), kind)
        self._waiting: deque[tuple[int, Frames]] = deque()
        self._counted = 0
        self._last_s: float | None = None
        self._inlet.open_stream(timeout=FOUND_WITHIN_S)

    def _piece(self, within_s: float) -> tuple[int, Frames] | None:
        if not self._waiting:
            _, stamps = self._inlet.pull_chunk(
                timeout=within_s, max_samples=self.info.block_frames, min_samples=1, dest_obj=self._buffer
            )
            if not stamps:
                return None
            self._number(np.asarray(stamps))
        return self._waiting.popleft()

    def _number(self, stamps: NDArray[np.float64]) -> None:
        """Number the frames in the buffer, and part them where their timestamps jump."""
        rate = self.info.sample_rate_hz
        before = np.concatenate([[stamps[0] - 1.0 / rate if self._last_s is None else self._last_s], stamps[:-1]])
        missing_s = stamps - before - 1.0 / rate
        jumps = np.flatnonzero(missing_s > GAP_S).tolist()
        samples = self._scaling.units(self._buffer[: len(stamps)].copy())
        for begin, end in pairwise(sorted({0, *jumps, len(stamps)})):
            self._counted += round(missing_s[begin] * rate) if begin in jumps else 0
            self._waiting.append((self._counted, samples[begin:end]))
            self._counted += end - begin
        self._last_s = float(stamps[-1])

    def close(self) -> None:
        """Let go of the stream."""
        if not self._closed:
            super().close()
            self._inlet.close_stream()


def _units(stream: pylsl.StreamInfo) -> set[str]:
    """Return the units of a stream's channels; an empty one where a channel does not say it."""
    found = set()
    channel = stream.desc().child("channels").child("channel")
    while not channel.empty():
        found.add(channel.child_value("unit").strip().lower())
        channel = channel.next_sibling("channel")
    return found
