"""Open a recording and read what it holds: frames by segment, spikes, states, stimulation, gaps and the clock.

A recording whose writer was killed opens up to its last flush; `complete` tells.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nerves.cards.geometry import ArrayGeometry
from nerves.recording.clock_model import ClockModel, fit_clock
from nerves.recording.layout import LOG, SUFFIX, VERSION
from nerves.recording.quota import RecordingRefused
from nerves.recording.store import ZarrArray


@dataclass(frozen=True, slots=True)
class RecordedSegment:
    """Frames without a gap, from `first_frame` up to (not including) `end_frame`."""

    first_frame: int
    traces: ZarrArray

    @property
    def end_frame(self) -> int:
        """The frame after the last."""
        return self.first_frame + len(self.traces)

    def read(self, first_frame: int, end_frame: int) -> NDArray[np.int16]:
        """Return raw samples, shape (frames, electrodes); shorter at the end of the segment."""
        samples: NDArray[np.int16] = self.traces.read(first_frame - self.first_frame, end_frame - self.first_frame)
        return samples


class ArrayRecording:
    """One recording, read-only. Its files are read when they are asked for."""

    def __init__(self, path: Path) -> None:
        """Open a recording.

        Raises:
            RecordingRefused: It cannot be read, or a newer release wrote it.
        """
        self.path = path
        try:
            self.attributes: dict[str, Any] = json.loads((path / ".zattrs").read_text(encoding="utf-8"))
            version = int(self.attributes["choroid_recording"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RecordingRefused(
                f"{path} is no recording that can be read ({error!r}). Likely cause: another kind of folder, or a damaged"
                " disk. Next: list the recordings with `choroid recording list`"
            ) from error
        if version > VERSION:
            raise RecordingRefused(
                f"{path} has format {version}, this Choroid reads {VERSION}. Likely cause: a newer release wrote it. Next:"
                " update Choroid"
            )

    @property
    def name(self) -> str:
        """Its name: that of its folder without the suffix."""
        return self.path.name.removesuffix(SUFFIX)

    @property
    def complete(self) -> bool:
        """Whether it was closed; a recording that runs, or whose writer was killed, is not."""
        return "ended_utc" in self.attributes

    @property
    def electrodes(self) -> int:
        """Number of electrodes."""
        return int(self.attributes["array"]["electrodes"])

    @property
    def sample_rate_hz(self) -> float:
        """Frames a second by the array's clock."""
        return float(self.attributes["sampling_frequency"])

    @property
    def uv_per_unit(self) -> float:
        """Microvolts of one unit of a sample."""
        return float(self.attributes["array"]["uv_per_unit"])

    @cached_property
    def geometry(self) -> ArrayGeometry | None:
        """Where the electrodes are; None where it was not known."""
        said = self.attributes.get("probegroup")
        return None if said is None else ArrayGeometry.of_probegroup(said)

    @cached_property
    def segments(self) -> list[RecordedSegment]:
        """The stretches of frames, in order; the gaps lie between them."""
        return [
            RecordedSegment(int(each["first_frame"]), ZarrArray(self.path / f"traces_seg{number}"))
            for number, each in enumerate(self.attributes["segments"])
        ]

    @property
    def frames(self) -> int:
        """Number of recorded frames."""
        return sum(len(segment.traces) for segment in self.segments)

    @property
    def extent(self) -> tuple[int, int]:
        """The first frame and the one after the last; without samples, of the time in which spikes were recorded."""
        segments = [each for each in self.segments if len(each.traces)]
        if segments:
            return segments[0].first_frame, segments[-1].end_frame
        first = int(self.attributes["first_frame"])
        written = [
            *self.table("clock")["frame"][-1:],
            *self.table("spikes")["frame"][-1:] + 1,
        ]  # of one that was killed
        return first, int(self.attributes.get("end_frame") or max(written, default=first))

    def table(self, name: str) -> NDArray[Any]:
        """Return a table of :data:`~nerves.recording.layout.TABLES`, a structured array.

        Raises:
            ValueError: It is damaged.
        """
        return ZarrArray(self.path / name).read()

    def log(self, kind: str = "") -> Iterator[dict[str, Any]]:
        """Yield the lines of the log, those of one kind or all: `stimulation`, `event`, `leases`."""
        text = ZarrArray(self.path / LOG).read().tobytes()
        for line in text[: text.rfind(b"\n") + 1].splitlines():
            said = json.loads(line)
            if kind in ("", said["kind"]):
                yield said

    @cached_property
    def clock(self) -> ClockModel:
        """The array's clock against UTC."""
        rows = self.table("clock")
        return fit_clock(rows["frame"], rows["utc_us"], self.sample_rate_hz)


def recordings(folder: Path) -> list[ArrayRecording]:
    """Return the recordings of a folder, the oldest first; what cannot be read is left out."""
    found = []
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            found.append(ArrayRecording(path))
        except RecordingRefused:
            continue
    return sorted(found, key=lambda each: str(each.attributes.get("started_utc", "")))


def open_recording(folder: Path, name: str) -> ArrayRecording:
    """Open a recording by its name, or by its path.

    Raises:
        RecordingRefused: There is none, or it cannot be read.
    """
    for path in (folder / f"{name}{SUFFIX}", folder / name, Path(name)):
        if (path / ".zattrs").is_file():
            return ArrayRecording(path)
    raise RecordingRefused(
        f"there is no recording “{name}” in {folder}. Likely cause: a slip, or it was removed. Next: `choroid recording list`"
    )
