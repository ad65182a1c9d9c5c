"""The file of a recording: HDF5 in the form of the CL API, written when the recording has ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from choroid.client.cl.attributes import stored
from choroid.client.cl.data_streams import DataStream
from choroid.client.cl.feed import Sample
from choroid.client.cl.readings import AFTER, BEFORE
from choroid.client.errors import optional

CHUNK_FRAMES = 2500
CHUNK_ROWS = 256
CHUNK_BYTES = 65_536


def write_recording(
    file: Path,
    attributes: Mapping[str, Any],
    samples: NDArray[np.int16],
    include: Mapping[str, bool],
    spikes: Sequence[Sample] | NDArray[np.int64],
    stims: Sequence[Sample] | NDArray[np.int64],
    streams: Iterable[DataStream],
) -> None:
    """Write a recording; the file appears under its name when it is whole.

    Args:
        file: Where.
        attributes: Facts, with `start_timestamp`, `end_timestamp` and `uV_per_sample_unit`.
        samples: All frames, shape (frames, channels).
        include: Which of `raw_samples`, `spikes`, `stims` and `data_streams` are written.
        spikes: Frame and channel of each spike.
        stims: The same of each delivered pulse.
        streams: Data streams of the program.

    Raises:
        MissingPackage: h5py is not installed.
        OSError: The file cannot be written.
    """
    h5py = optional("h5py", "cl", "a recording")
    first, end = attributes["start_timestamp"], attributes["end_timestamp"]
    channels = samples.shape[1]
    event: list[Any] = [("timestamp", "i8"), ("channel", "u1" if channels <= 256 else "u2")]
    part = file.with_name(file.name + ".part")
    try:
        with h5py.File(part, "w") as opened:
            for name, value in attributes.items():
                opened.attrs[name] = stored(value)
            if include["raw_samples"]:
                frames = _growing(opened, "samples", np.zeros((0, channels), np.int16), CHUNK_FRAMES)
                frames.resize(len(samples), axis=0)
                for at in range(0, len(samples), CHUNK_FRAMES):
                    frames[at : at + CHUNK_FRAMES] = samples[at : at + CHUNK_FRAMES]
            if include["spikes"]:
                rows = _events(spikes, first, np.dtype([*event, ("samples", "f4", (BEFORE + AFTER,))]))
                rows["samples"] = _waveforms(rows, samples, attributes["uV_per_sample_unit"])
                _growing(opened, "spikes", rows, CHUNK_ROWS)
            if include["stims"]:
                _growing(opened, "stims", _events(stims, first, np.dtype(event)), CHUNK_ROWS)
            if include["data_streams"]:
                group = opened.create_group("data_stream")
                for stream in streams:
                    _write_stream(group.create_group(stream.name), stream, first, end)
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)


def _growing(group: Any, name: str, rows: NDArray[Any], chunk: int) -> Any:
    """Write an array that PyTables opens as an EArray, or of compound rows as a Table."""
    shape = rows.shape[1:]
    return group.create_dataset(name, data=rows, maxshape=(None, *shape), chunks=(chunk, *shape))


def _events(found: Sequence[Sample] | NDArray[np.int64], first: int, kind: np.dtype[Any]) -> NDArray[Any]:
    rows = np.zeros(len(found), kind)
    if len(found):
        rows["timestamp"], rows["channel"] = np.array(found, np.int64).T
        rows["timestamp"] -= first
    return rows


def _waveforms(rows: NDArray[Any], samples: NDArray[np.int16], uv_per_unit: float) -> NDArray[np.float32]:
    """Return the samples around each spike (µV, without their mean); beyond the recording its last frame goes on."""
    if not len(samples):
        return np.zeros((len(rows), BEFORE + AFTER), np.float32)
    at = (rows["timestamp"][:, None] + np.arange(-BEFORE, AFTER)).clip(0, len(samples) - 1)
    found: NDArray[np.float32] = samples[at, rows["channel"][:, None]].astype(np.float32) * np.float32(uv_per_unit)
    found -= found.mean(axis=1, keepdims=True)
    return found


def _write_stream(group: Any, stream: DataStream, first: int, end: int) -> None:
    group.attrs["name"] = stream.name
    group.attrs["application"] = stored(stream.attributes)
    entries = stream.between(first, end)
    ends = np.cumsum([0, *(len(data) for _, data in entries)])
    index = np.zeros(len(entries), [("timestamp", "i8"), ("start_index", "i8"), ("end_index", "i8")])
    index["timestamp"], index["start_index"], index["end_index"] = [at for at, _ in entries], ends[:-1], ends[1:]
    _growing(group, "index", index, CHUNK_ROWS)
    data = np.frombuffer(b"".join(data for _, data in entries), np.uint8)
    _growing(group, "data", data, CHUNK_BYTES)
