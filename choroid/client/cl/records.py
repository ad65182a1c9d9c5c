"""Recordings and data streams of a program, written by the client: frames, spikes, delivered pulses, its own data."""

from __future__ import annotations

import json
import re
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from choroid.client.cl.errors import RecordingFailedError
from choroid.client.errors import NervesError
from choroid.client.nerves_terms import FrameGap

if TYPE_CHECKING:
    from choroid.client.cl.culture import CultureSession

CHUNK_FRAMES = 2500
ENDS_WITHIN_S = 30.0
_NAME = re.compile(r"[\w.-]+")


class DataStream:
    """Collects data of a program by time. Every value must have a form in JSON."""

    def __init__(self, name: str, attributes: Mapping[str, Any] | None) -> None:
        """Begin an empty stream; see :meth:`CulturedNeurons.create_data_stream`."""
        self.name = name
        self.attributes: dict[str, Any] = dict(attributes or {})
        self._entries: list[tuple[int, str]] = []

    def append(self, timestamp: int, data: Any) -> None:
        """Add data.

        Args:
            timestamp: Frame to which the data belongs; greater than the last one.
            data: Any value that has a form in JSON.

        Raises:
            ValueError: The time is not after the last one.
            TypeError: The data has no form in JSON.
        """
        if self._entries and timestamp <= self._entries[-1][0]:
            raise ValueError(f"{self.name}: {timestamp} is not after {self._entries[-1][0]}")
        self._entries.append((int(timestamp), json.dumps(data)))

    def set_attribute(self, key: str, value: Any) -> None:
        """Set one attribute.

        Args:
            key: Name of the attribute; one of this name is replaced.
            value: Any value that has a form in JSON.

        Raises:
            TypeError: The value has no form in JSON.
        """
        json.dumps(value)
        self.attributes[key] = value

    def update_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Set several attributes.

        Args:
            attributes: Values by name; those of the same names are replaced, the others stay.

        Raises:
            TypeError: A value has no form in JSON.
        """
        json.dumps(dict(attributes))
        self.attributes.update(attributes)

    def between(self, first: int, end: int) -> list[tuple[int, str]]:
        """Return the entries of a range of frames.

        Args:
            first: The first frame.
            end: The frame after the last.

        Returns:
            Frame and data (JSON text) of each entry, in their order.
        """
        return [entry for entry in self._entries if first <= entry[0] < end]


class NeuronsRecording:
    """Records until it is stopped or its length is reached. Read its file with :func:`numpy.load`.

    The file holds `samples` (int16, frames × channels), `spikes` and `stims` (frame, channel), and as JSON `attributes` and
    `data_streams`. Frames are the array's; `start_timestamp` of the attributes is that of the first row.

    Attributes:
        file: Where it is written when it ends.
        attributes: Facts about the recording.
        status: `started`, `stopped` or `failed`.
    """

    def __init__(
        self,
        neurons: CultureSession,
        file: Path,
        first: int,
        frames: int | None,
        attributes: Mapping[str, Any] | None,
        include: Mapping[str, bool],
        streams: Callable[[], list[DataStream]],
    ) -> None:
        """Begin; see :meth:`CulturedNeurons.record`."""
        self.file = file
        self.status = "started"
        self.attributes: dict[str, Any] = {
            "channel_count": neurons.get_channel_count(),
            "frames_per_second": neurons.get_frames_per_second(),
            "uv_per_sample_unit": neurons.uv_per_unit,
            "start_timestamp": first,
            "created_utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        } | dict(attributes or {})
        json.dumps(self.attributes)
        self._neurons = neurons
        self._first = first
        self._end = None if frames is None else first + frames
        self._include = include
        self._streams = streams
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the recording with the frames of this moment, and wait until it is written."""
        if self._end is None or self._end > self._neurons.timestamp():
            self._end = max(self._first + 1, self._neurons.timestamp())
        self.wait_until_stopped()

    def wait_until_stopped(self) -> None:
        """Wait until the recording has ended and is written.

        Raises:
            RecordingFailedError: It is not whole.
        """
        while self._thread.is_alive():
            self._thread.join(timeout=1.0)
        if self._failure is not None:
            raise RecordingFailedError(f"{self.file} was not written: {self._failure}") from self._failure

    def _run(self) -> None:
        try:
            with tempfile.TemporaryFile(dir=self.file.parent) as raw:
                end = self._receive(raw.write)
                raw.flush()
                self._write(np.memmap(raw, np.int16, "r") if end > self._first else np.zeros(0, np.int16), end)
            self.status = "stopped"
        except Exception as error:
            self._failure = error
            self.status = "failed"

    def _receive(self, write: Callable[[bytes], object]) -> int:
        """Write the frames; return the first one after them."""
        position = self._first
        nerves = self._neurons.nerves
        head = nerves.status().next_frame  # of a slow engine it lies behind the clock, which is an estimate
        stream = nerves.frames(from_frame=max(1, min(self._first, head)), frames=CHUNK_FRAMES // 10)
        try:
            for batch in stream:
                if isinstance(batch, FrameGap):
                    raise NervesError(f"frames {batch.first_frame} to {batch.end_frame} are lost ({batch.cause})")
                samples = batch.samples[max(0, position - batch.first_frame) :]
                if self._end is not None:
                    samples = samples[: max(0, self._end - position)]
                if self._include["raw_samples"]:
                    write(np.ascontiguousarray(samples, np.int16).tobytes())
                position += len(samples)
                if self._end is not None and position >= self._end:
                    break
        finally:
            stream.close()
        return position

    def _write(self, samples: np.ndarray[Any, np.dtype[np.int16]], end: int) -> None:
        neurons = self._neurons
        neurons.settle(end)
        spikes, stims = neurons.feed.between(self._first, end)
        rate = neurons.get_frames_per_second()
        self.attributes |= {
            "end_timestamp": end,
            "duration_frames": end - self._first,
            "duration_seconds": (end - self._first) / rate,
        }
        content: dict[str, Any] = {"attributes": json.dumps(self.attributes)}
        if self._include["raw_samples"]:
            content["samples"] = samples.reshape(-1, neurons.get_channel_count())
        if self._include["spikes"]:
            content["spikes"] = np.array(spikes, np.int64).reshape(-1, 2)
        if self._include["stims"]:
            content["stims"] = np.array(stims, np.int64).reshape(-1, 2)
        if self._include["data_streams"]:
            content["data_streams"] = json.dumps(
                {
                    stream.name: {"attributes": stream.attributes, "entries": stream.between(self._first, end)}
                    for stream in self._streams()
                }
            )
        np.savez(self.file, allow_pickle=False, **content)


def recording_file(location: Path | str | None, suffix: str | None, frame: int) -> Path:
    """Return the path of a new recording; make its folder if it is missing.

    Args:
        location: The folder; None means the working directory.
        suffix: End of the name; None means none.
        frame: First frame, which is part of the name.

    Returns:
        The path. Its name begins with the time (UTC).

    Raises:
        ValueError: The suffix is no plain name.
    """
    if suffix is not None and not _NAME.fullmatch(suffix):
        raise ValueError(f"{suffix!r} is no plain name")
    folder = Path(location or ".")
    folder.mkdir(parents=True, exist_ok=True)
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    return folder / f"{stamp}-{frame}{'' if suffix is None else '_' + suffix}.npz"
