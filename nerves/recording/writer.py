"""Write one recording into its Zarr store.

Each call may raise OSError; it has changed nothing then that a repeat would not do again, so the caller repeats it with the
same message until the disk takes it.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nerves.recording.layout import LOG, TABLES, VERSION, GapCause, RecordingPlan, chunk_rows
from nerves.recording.publisher import Publisher
from nerves.recording.quota import CLOSING_BYTES, room_bytes
from nerves.recording.store import RowTable, ZarrArray, make_group, replace_file, write_constant, write_json

TABLE_ROWS = 4096
LOG_ROWS = 65_536
STARTS_ROWS = 1024
DRAIN_S = 10.0
RESERVE = ".reserve"
RESERVE_BYTES = 1_000_000
"""A file that is given up when the disk is full, so that the recording can be closed."""


class RecordingWriter:
    """An open recording."""

    def __init__(self, path: Path, plan: RecordingPlan, attributes: dict[str, Any], used: int) -> None:
        """Begin a recording.

        Args:
            path: Its folder, which does not exist.
            plan: Limits, and whether frames are recorded.
            attributes: Its metadata, as :class:`~nerves.recording.tap.RecordingTap` makes it.
            used: Bytes that the other recordings of the folder take.

        Raises:
            FileExistsError: There is something of this name.
            OSError: The disk is full or read-only.
        """
        self.path = path
        self._plan = plan
        self._used = used
        self.attributes = {"choroid_recording": VERSION, **attributes, "segments": [], "num_segments": 1}
        array = attributes["array"]
        self._electrodes = int(array["electrodes"])
        self._rate = float(attributes["sampling_frequency"])
        make_group(path, self.attributes)
        replace_file(path / RESERVE, bytes(RESERVE_BYTES), sync=False)
        self._constants(float(array["uv_per_unit"]))
        self._tables = {
            name: RowTable(ZarrArray.create(path / name, dtype, TABLE_ROWS)) for name, dtype in TABLES.items()
        }
        self._log = RowTable(ZarrArray.create(path / LOG, np.uint8, LOG_ROWS))
        self._all = (*self._tables.values(), self._log)
        self._rows = chunk_rows(self._electrodes, self._rate)
        self._chunk = np.zeros((self._rows, self._electrodes), np.int16)
        self._filled = 0
        self._chunks = 0
        self._traces = self._segment(0)
        self._seconds = ZarrArray.create(path / "t_starts", np.float64, STARTS_ROWS)
        self._finished_bytes = 0
        self._starts: list[int] = []
        self.next_frame: int | None = None
        """The frame that comes next; None before the first."""
        self.frames = 0
        """Frames taken in."""
        self.lost_frames = 0
        self._publisher = Publisher()

    @property
    def bytes_written(self) -> int:
        """Bytes of the recording's chunks on the disk."""
        return self._finished_bytes + self._traces.bytes_written + sum(each.array.bytes_written for each in self._all)

    def add_frames(self, first_frame: int, samples: NDArray[np.int16]) -> None:
        """Take in frames; a jump over frames begins a new segment."""
        if self.next_frame is None:
            self.next_frame = first_frame
        elif first_frame > self.next_frame:
            self._finish_segment()
            self.next_frame = first_frame
        end = first_frame + len(samples)
        if not self._plan.frames:
            self.next_frame = end
            return
        while self.next_frame < end:
            if self._filled == self._rows:
                self._write_chunk()
            if not self._filled and not self._chunks:
                self._begin_segment(self.next_frame)
            count = min(self._rows - self._filled, end - self.next_frame)
            begin = self.next_frame - first_frame
            self._chunk[self._filled : self._filled + count] = samples[begin : begin + count]
            self._filled += count
            self.next_frame += count
            self.frames += count

    def add_gap(self, first_frame: int, end_frame: int, cause: GapCause) -> None:
        """Record that frames are missing."""
        self._tables["gaps"].append(np.array([(first_frame, end_frame, cause)], TABLES["gaps"]))
        self.lost_frames += end_frame - first_frame

    def add_rows(self, table: str, rows: NDArray[Any]) -> None:
        """Add rows of a table."""
        self._tables[table].append(rows)

    def add_log(self, line: bytes) -> None:
        """Add one JSON object, without an end of line."""
        self._log.append(np.frombuffer(line + b"\n", np.uint8))

    def flush(self) -> None:
        """Write all whole chunks and all rows, and have them appear to readers once they are on the disk."""
        self._publisher.check()
        if self._filled == self._rows:
            self._write_chunk()
        growths = [(table.array, table.write()) for table in self._all]
        if self._publisher.idle:
            growths.append((self._traces, self._chunks * self._rows))
            self._publisher.submit([(array, rows) for array, rows in growths if rows > len(array)])

    def room(self) -> str:
        """Return why the recording must end now; empty while there is room."""
        room, why = room_bytes(self._plan, self._used + self.bytes_written)
        return why if room < self._chunk.nbytes + CLOSING_BYTES else ""

    def close(self, why: str, utc: str) -> None:
        """Write all that is left, and why the recording ended."""
        self._finish_segment()
        self._publisher.drain(DRAIN_S)
        self.flush()
        self._publisher.drain(DRAIN_S)
        ended = {"ended_utc": utc, "ended_why": why, "end_frame": self.next_frame, "lost_frames": self.lost_frames}
        self.attributes.update(ended)
        self._write_attributes()
        (self.path / RESERVE).unlink(missing_ok=True)
        self._publisher.end()

    def abandon(self, why: str, utc: str, end_frame: int) -> None:
        """Close on a disk that is full: what was not written, up to `end_frame`, becomes a gap.

        Raises:
            OSError: Not even that can be written; the recording opens up to its last flush.
        """
        self._publisher.end()
        (self.path / RESERVE).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._traces.grow(self._chunks * self._rows)
        begun = self._starts[-1] if self._starts else (self.next_frame or 0)
        self.add_gap(begun + len(self._traces), end_frame, GapCause.WRITER)
        ended = {"ended_utc": utc, "ended_why": why, "end_frame": end_frame, "lost_frames": self.lost_frames}
        self.attributes.update(ended)
        for table in self._all:
            table.array.grow(table.write())
        self._write_attributes()

    def _segment(self, number: int) -> ZarrArray:
        path = self.path / f"traces_seg{number}"
        if path.exists():  # a repeat after a full disk
            return ZarrArray(path)
        return ZarrArray.create(path, np.int16, self._rows, (self._electrodes,))

    def _begin_segment(self, first_frame: int) -> None:
        """Let a segment begin: its array, its start, and then the number of segments that readers go by."""
        number = len(self._starts)
        traces = self._segment(number)
        starts = [*self._starts, first_frame]
        chunk = number // STARTS_ROWS
        seconds = (np.array(starts[chunk * STARTS_ROWS :]) - starts[0]) / self._rate
        self._seconds.write_chunk(chunk, seconds)
        self._seconds.grow(len(starts))
        self.attributes["segments"] = [{"first_frame": each} for each in starts]
        self.attributes["num_segments"] = len(starts)
        self._write_attributes()
        self._finished_bytes += self._traces.bytes_written if number else 0
        self._traces, self._starts = traces, starts

    def _finish_segment(self) -> None:
        """Write the last, partial chunk of the segment."""
        rows = self._chunks * self._rows + self._filled
        if self._filled:
            self._traces.write_chunk(self._chunks, self._chunk[: self._filled])
        self._publisher.submit([(self._traces, rows)])
        self._filled = self._chunks = 0

    def _write_chunk(self) -> None:
        self._traces.write_chunk(self._chunks, self._chunk)
        self._chunks += 1
        self._filled = 0

    def _write_attributes(self) -> None:
        write_json(self.path / ".zattrs", self.attributes, sync=True)

    def _constants(self, uv_per_unit: float) -> None:
        """Write what SpikeInterface reads of channels."""
        write_constant(self.path / "channel_ids", np.arange(self._electrodes, dtype=np.int64))
        make_group(self.path / "properties", {})
        write_constant(self.path / "properties" / "gain_to_uV", np.full(self._electrodes, uv_per_unit))
        write_constant(self.path / "properties" / "offset_to_uV", np.zeros(self._electrodes))
