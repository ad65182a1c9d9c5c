"""Recordings of a program, written by the client: frames, spikes, delivered pulses, its own data."""

from __future__ import annotations

import re
import socket
import tempfile
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import numpy as np

from choroid.client.cl.attributes import program_attributes
from choroid.client.cl.clock import local_s
from choroid.client.cl.data_streams import DataStream
from choroid.client.cl.errors import RecordingFailedError, UnsafeOperationError
from choroid.client.cl.recording_file import CHUNK_FRAMES, write_recording
from choroid.client.cl.recording_view import RecordingView
from choroid.client.errors import NervesError, optional
from choroid.client.nerves_terms import FrameGap

if TYPE_CHECKING:
    from choroid.client.cl.culture import CultureSession

FORMAT = "choroid-1"
_NAME = re.compile(r"[\w.-]+")


class NeuronsRecording:
    """Records until it is stopped or its length is reached. Read it with :meth:`open`, PyTables or any reader of HDF5.

    Attributes:
        file: `path`, `name` and `uri_path` of the file, which is there when the recording has ended.
        attributes: Facts about the recording; those of the program are in `application`.
        start_timestamp: The first frame.
        status: `started`, `stopped` or `failed`.
    """

    file: dict[str, str]
    attributes: dict[str, Any]
    start_timestamp: int
    status: str

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
        """Begin; see :meth:`CulturedNeurons.record`.

        Raises:
            TypeError: An attribute has no form in JSON.
            ValueError: The attributes are too large together.
            MissingPackage: h5py is not installed.
        """
        optional("h5py", "cl", "a recording")
        path = file.resolve()
        self.file = {"name": path.name, "path": str(path), "uri_path": path.as_uri().removeprefix("file://")}
        self.status = "started"
        self.start_timestamp = first
        rate = neurons.get_frames_per_second()
        begun = _local_time()
        self.attributes = {
            "application": program_attributes(attributes or {}),
            "hostname": socket.gethostname(),
            "system_id": neurons.system_id,
            "created_localtime": begun.isoformat(),
            "created_utc": begun.astimezone(UTC).isoformat(),
            "channel_count": neurons.get_channel_count(),
            "sampling_frequency": rate,
            "frames_per_second": rate,
            "uV_per_sample_unit": neurons.uv_per_unit,
            "start_timestamp": first,
            "file_format": {"version": FORMAT, "stim_and_spike_timestamps_relative_to_start": True},
        }
        self._path = path
        self._neurons = neurons
        self._end = None if frames is None else first + frames
        self._include = include
        self._streams = streams
        self._collection = neurons.feed.collect(first)
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def open(self) -> RecordingView:
        """Open the file.

        Raises:
            UnsafeOperationError: The recording has not ended.
            RecordingFailedError: It is not whole.
            MissingPackage: tables is not installed.
        """
        if not self.has_stopped():
            raise UnsafeOperationError(
                f"{self._path.name} is still being recorded; next: stop() or wait_until_stopped()"
            )
        self.wait_until_stopped()
        return RecordingView(self._path)

    def set_attribute(self, key: str, value: Any) -> None:
        """Set one of the program's attributes, before the recording ends.

        Args:
            key: Name of the attribute; one of this name is replaced.
            value: Any value that has a form in JSON.

        Raises:
            TypeError: The value has no form in JSON.
            ValueError: The attributes are too large together.
            UnsafeOperationError: The recording has ended: the value would be lost.
        """
        self.update_attributes({key: value})

    def update_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Set several of the program's attributes, before the recording ends.

        Args:
            attributes: Values by name; those of the same names are replaced, the others stay.

        Raises:
            TypeError: A value has no form in JSON.
            ValueError: The attributes are too large together.
            UnsafeOperationError: The recording has ended: the values would be lost.
        """
        if self.has_stopped():
            raise UnsafeOperationError(f"{self._path.name} is written; next: set attributes before it ends")
        self.attributes["application"] = program_attributes(attributes, self.attributes["application"])

    def stop(self) -> None:
        """End the recording with the frames of this moment, and wait until it is written."""
        now = self._neurons.feed.clock.at(local_s())  # also of an engine that has ended
        if self._end is None or self._end > now:
            self._end = max(self.start_timestamp + 1, now)
        self.wait_until_stopped()

    def has_stopped(self) -> bool:
        """Return whether the recording has ended, whole or not."""
        return self.status != "started"

    def wait_until_stopped(self) -> None:
        """Wait until the recording has ended and is written.

        Raises:
            RecordingFailedError: It is not whole.
        """
        while self._thread.is_alive():
            self._thread.join(timeout=1.0)
        if self._failure is not None:
            state = "is not whole" if self._path.exists() else "was not written"
            raise RecordingFailedError(f"{self._path} {state}: {self._failure}") from self._failure

    def _run(self) -> None:
        try:
            with tempfile.TemporaryFile(dir=self._path.parent) as raw:
                end = self._receive(raw.write)
                raw.flush()
                empty = end <= self.start_timestamp
                if empty and self._failure is not None:
                    raise self._failure
                flat = np.zeros(0, np.int16) if empty else np.memmap(raw, np.int16, "r")
                self._write(flat.reshape(-1, self._neurons.get_channel_count()), end)
        except Exception as error:
            self._failure = error
        finally:
            self._neurons.feed.forget(self._collection)
            self.status = "stopped" if self._failure is None else "failed"

    def _receive(self, write: Callable[[bytes], object]) -> int:
        """Write the frames up to the end or to the first gap; return the first one after them."""
        position = self.start_timestamp
        nerves = self._neurons.nerves
        head = nerves.status().next_frame  # of a slow engine it lies behind the clock, which is an estimate
        stream = nerves.frames(from_frame=max(1, min(position, head)), frames=CHUNK_FRAMES // 10)
        try:
            for batch in stream:
                if isinstance(batch, FrameGap):
                    self._end_early(position, batch.end_frame, f"frames are lost ({batch.cause})")
                    break
                samples = batch.samples[max(0, position - batch.first_frame) :]
                if self._end is not None:
                    samples = samples[: max(0, self._end - position)]
                write(np.ascontiguousarray(samples, np.int16).tobytes())
                position += len(samples)
                if self._end is not None and position >= self._end:
                    break
            else:
                self._end_early(position, None, "the engine has ended the stream")
        except (NervesError, grpc.RpcError) as error:
            self._end_early(position, None, str(error))
        finally:
            stream.close()
        return position

    def _end_early(self, first: int, end: int | None, cause: str) -> None:
        """Note that frames are missing, the last ones of the recording with them."""
        self.attributes["gap"] = {"first_frame": first, "end_frame": end, "cause": cause}
        until = "" if end is None else f" to {end}"
        self._failure = NervesError(
            f"it ends before frame {first}, as frames from there{until} did not come: {cause}. Likely cause: this machine or"
            " the connection was too slow, or the engine stopped. Next: use the part before (RecordingView opens it), and"
            " record again"
        )

    def _write(self, samples: np.ndarray[Any, np.dtype[np.int16]], end: int) -> None:
        feed = self._neurons.feed
        try:
            feed.settle(end)
        except NervesError as error:  # what came is written
            self._failure = self._failure or error
        spikes, stims = self._collection.between(self.start_timestamp, end)
        ended = _local_time()
        self.attributes |= {
            "ended_localtime": ended.isoformat(),
            "ended_utc": ended.astimezone(UTC).isoformat(),
            "end_timestamp": end,
            "spikes_lost": self._collection.lost(feed.lost),
            "duration_frames": end - self.start_timestamp,
            "duration_seconds": (end - self.start_timestamp) / self._neurons.get_frames_per_second(),
        }
        write_recording(self._path, self.attributes, samples, self._include, spikes, stims, self._streams())


def recording_file(location: Path | str | None, suffix: str | None) -> Path:
    """Return the path of a new recording; make its folder if it is missing.

    Args:
        location: The folder; None means the working directory.
        suffix: End of the name; None means `recording`.

    Returns:
        The path. Its name begins with the time (UTC), to the microsecond.

    Raises:
        ValueError: The suffix is no plain name.
    """
    suffix = "recording" if suffix is None else suffix
    if not _NAME.fullmatch(suffix):
        raise ValueError(f"{suffix!r} is no plain name")
    folder = Path(location or ".")
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{_local_time().astimezone(UTC):%Y%m%d-%H%M%S-%f}_{suffix}.h5"


def _local_time() -> datetime:
    return datetime.now().astimezone()  # noqa: TID251  (the client has no other clock)
