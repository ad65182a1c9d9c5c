"""Open recordings of Intan (.rhd, .rhs) and SpikeGLX (.bin with .meta) for a replay, through neo."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from neo.rawio import IntanRawIO, SpikeGLXRawIO

from nerves.cards.contract import CardRefused, Frames
from nerves.cards.playback import ReplayStretch
from nerves.cards.replayable import Scaling, unreadable, without_frames

_UV = {"uv": 1.0, "mv": 1e3, "v": 1e6}
"""Microvolts of a unit of neo."""


class NeoRecording:
    """Reads one stream of a recording through neo; each of its segments follows the one before, as their times say.

    Raises:
        CardRefused: It cannot be read, or has no such stream.
    """

    simulated = False
    geometry = None
    deliveries = ()

    def __init__(self, path: Path, stream: str = "") -> None:
        self.name = path.name
        try:
            self._raw = _reader(path)
            self._raw.parse_header()
        except Exception as error:  # neo has no error of its own: damaged files raise whatever they cause
            raise unreadable(path, error) from error
        self._stream = _stream(path, self._raw.header["signal_streams"], stream)
        channels = self._raw.header["signal_channels"]
        channels = channels[channels["stream_id"] == self._raw.header["signal_streams"]["id"][self._stream]]
        self.electrodes = len(channels)
        self.sample_rate_hz = float(channels["sampling_rate"][0])
        to_uv = np.array([_UV.get(str(unit).lower(), np.nan) for unit in channels["units"]])
        if np.isnan(to_uv).any():
            raise CardRefused(f"the stream {stream} of {path} is no voltage. Next: choose another stream")
        gains = channels["gain"].astype(np.float64) * to_uv
        self._scaling = Scaling(np.dtype(channels["dtype"][0]), gains, channels["offset"].astype(np.float64) * to_uv)
        self.uv_per_unit = self._scaling.uv_per_unit
        self.stretches = tuple(self._stretches())
        if not self.stretches:
            raise without_frames(path)

    def _stretches(self) -> list[ReplayStretch]:
        found: list[ReplayStretch] = []
        for segment in range(self._raw.segment_count(0)):
            frames = self._raw.get_signal_size(0, segment, self._stream)
            begin = round(self._raw.get_signal_t_start(0, segment, self._stream) * self.sample_rate_hz)
            first = max(begin, found[-1].end_frame if found else begin)
            if frames:
                found.append(ReplayStretch(first, first + frames, self._segment_reader(segment, first)))
        return found

    def _segment_reader(self, segment: int, start: int) -> Any:
        def read(first: int, end: int) -> Frames:
            chunk = self._raw.get_analogsignal_chunk(
                block_index=0, seg_index=segment, i_start=first - start, i_stop=end - start, stream_index=self._stream
            )
            return self._scaling.units(chunk)

        return read

    def close(self) -> None:
        """Do nothing: only mappings are open, which end with the last piece."""


def _reader(path: Path) -> Any:
    if path.suffix.lower() in (".rhd", ".rhs"):
        return IntanRawIO(filename=str(path))
    return SpikeGLXRawIO(dirname=str(path if path.is_dir() else path.parent))


def _stream(path: Path, streams: Any, wanted: str) -> int:
    """Return the number of a stream by its name; without a name that of the amplifier."""
    names = [str(name) for name in streams["name"]]
    ids = [str(each) for each in streams["id"]]
    if wanted in names:
        return names.index(wanted)
    if wanted in ids:
        return ids.index(wanted)
    likely = [number for number, name in enumerate(names) if name.endswith((".ap", "amplifier channel"))]
    if not wanted and len(likely) == 1:
        return likely[0]
    if not wanted and len(names) == 1:
        return 0
    said = f"no stream “{wanted}”" if wanted else "several streams"
    raise CardRefused(f"{path} has {said}. Next: write stream: under the options, one of {', '.join(names)}")
