"""Read and append to arrays of a Zarr store (format 2), so that a kill at any moment leaves a store that opens.

A chunk is written to a file of its own first; only then does the array's length grow. Both are files that are replaced whole.
Readers (zarr, SpikeInterface, xarray) never see a row that is not there. Format 2 is read by every version of zarr.
Specification: https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html
"""

from __future__ import annotations

import json
import math
import os
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numcodecs import Blosc
from numcodecs.registry import get_codec
from numpy.typing import DTypeLike, NDArray

FORMAT = 2
LEVEL = 1
"""Level of zstd: higher ones gain about 2 % on noise and take several times the time."""


def compressor(item_bytes: int) -> Blosc:
    """Return the compressor of a new array: zstd over transposed bits, or over bytes where the items are no numbers."""
    return Blosc(cname="zstd", clevel=LEVEL, shuffle=Blosc.BITSHUFFLE if item_bytes > 1 else Blosc.NOSHUFFLE)


def replace_file(path: Path, content: bytes, *, sync: bool) -> None:
    """Replace a file, whole or not at all; with `sync` it is on the disk on return. Raises OSError."""
    partial = path.with_name(path.name + ".partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o640)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    partial.replace(path)


def sync_file(path: Path) -> None:
    """Wait until a file is on the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, value: object, *, sync: bool = False) -> int:
    """Write a metadata file; return its size in bytes."""
    content = json.dumps(value, indent=1, allow_nan=False).encode()
    replace_file(path, content, sync=sync)
    return len(content)


def make_group(path: Path, attributes: dict[str, Any]) -> None:
    """Make a group with attributes. Raises FileExistsError where something has the name."""
    path.mkdir(parents=True)
    write_json(path / ".zattrs", attributes)
    write_json(path / ".zgroup", {"zarr_format": FORMAT})


class ZarrArray:
    """An array of rows (first axis) that grows by whole chunks of rows; other axes are fixed and not divided.

    `shape` is what readers see. One process writes; any process reads.
    """

    def __init__(self, path: Path) -> None:
        """Open an array. Raises OSError or ValueError when it is none that can be read."""
        self.path = path
        described = json.loads((path / ".zarray").read_text(encoding="utf-8"))
        if described.get("zarr_format") != FORMAT or described.get("filters") or described.get("order") != "C":
            raise ValueError(f"{path} is no array of Zarr format {FORMAT} in C order without filters")
        dtype = described["dtype"]
        self.dtype = np.dtype([tuple(field) for field in dtype] if isinstance(dtype, list) else dtype)
        self.shape: tuple[int, ...] = tuple(described["shape"])
        self.chunk_rows = int(described["chunks"][0])
        self._described = described
        self._codec = get_codec(described["compressor"]) if described["compressor"] else None
        self.bytes_written = 0
        """Bytes on the disk of the chunks written by this object."""
        self._latest = (-1, 0)
        """Number and bytes of the chunk written last, which is replaced when rows are added to it."""
        self._unsynced: deque[Path] = deque()

    @classmethod
    def create(cls, path: Path, dtype: DTypeLike, chunk_rows: int, row_shape: tuple[int, ...] = ()) -> ZarrArray:
        """Make an empty array."""
        kind = np.dtype(dtype)
        described = {
            "zarr_format": FORMAT,
            "shape": [0, *row_shape],
            "chunks": [chunk_rows, *row_shape],
            "dtype": kind.str if kind.names is None else [list(field) for field in kind.descr],
            "compressor": compressor(kind.itemsize).get_config(),
            "fill_value": None,
            "order": "C",
            "filters": None,
        }
        path.mkdir()
        write_json(path / ".zarray", described)
        return cls(path)

    def __len__(self) -> int:
        return self.shape[0]

    def write_chunk(self, number: int, rows: NDArray[Any]) -> None:
        """Write the chunk of a number; fewer rows than a chunk has are filled up. No reader sees it before :meth:`grow`."""
        if len(rows) < self.chunk_rows:
            whole = np.zeros((self.chunk_rows, *self.shape[1:]), self.dtype)
            whole[: len(rows)] = rows
            rows = whole
        data = np.ascontiguousarray(rows, self.dtype)
        encoded = data.tobytes() if self._codec is None else bytes(self._codec.encode(data))
        replace_file(self._chunk(number), encoded, sync=False)
        self._unsynced.append(self._chunk(number))
        replaced = self._latest[1] if self._latest[0] == number else 0
        self._latest = (number, len(encoded))
        self.bytes_written += len(encoded) - replaced

    def grow(self, rows: int) -> None:
        """Sync the chunks that are written to the disk, then let readers see the first `rows` rows.

        Another thread may write further chunks meanwhile. Raises OSError; a repeat goes on from there.
        """
        while self._unsynced:
            sync_file(self._unsynced[0])
            self._unsynced.popleft()
        if rows > len(self):
            shape = (rows, *self.shape[1:])
            write_json(self.path / ".zarray", self._described | {"shape": list(shape)}, sync=True)
            self.shape = shape

    def read(self, first: int = 0, end: int | None = None) -> NDArray[Any]:
        """Return rows from `first` up to (not including) `end`.

        Raises:
            ValueError: A chunk is missing or damaged.
        """
        end = len(self) if end is None else min(end, len(self))
        out = np.zeros((max(end - first, 0), *self.shape[1:]), self.dtype)
        for number in range(first // self.chunk_rows, math.ceil(end / self.chunk_rows) if end > first else 0):
            begin = number * self.chunk_rows
            rows = self._decoded(number)
            low, high = max(first, begin), min(end, begin + self.chunk_rows)
            out[low - first : high - first] = rows[low - begin : high - begin]
        return out

    def _decoded(self, number: int) -> NDArray[Any]:
        path = self._chunk(number)
        try:
            encoded = path.read_bytes()
            decoded = encoded if self._codec is None else self._codec.decode(encoded)
            rows = np.frombuffer(decoded, self.dtype).reshape(self.chunk_rows, *self.shape[1:])
        except (OSError, ValueError, RuntimeError) as error:
            raise ValueError(
                f"{path} cannot be read ({error}). Likely cause: the file was removed or the disk is damaged. Next: read the"
                " rows around it, or restore the file from a backup"
            ) from error
        return cast(NDArray[Any], rows)

    def _chunk(self, number: int) -> Path:
        return self.path / ".".join([str(number), *["0"] * (len(self.shape) - 1)])


class RowTable:
    """Rows of named columns that are appended: an array of a structured type."""

    def __init__(self, array: ZarrArray) -> None:
        self.array = array
        self._rest = array.read(len(array) - len(array) % array.chunk_rows)
        self._first_chunk = len(array) // array.chunk_rows
        """Number of the chunk that begins with `_rest`."""
        self._waiting: list[NDArray[Any]] = []

    def append(self, rows: NDArray[Any]) -> None:
        """Add rows, kept in memory until :meth:`write`."""
        self._waiting.append(rows)

    def write(self) -> int:
        """Write the rows that were added; return how many rows there are, for :meth:`ZarrArray.grow`.

        Raises:
            OSError: The disk does not take them; the next call tries again.
        """
        size = self.array.chunk_rows
        if self._waiting:
            rows = np.concatenate([self._rest, *self._waiting])
            for number, begin in enumerate(range(0, len(rows), size), self._first_chunk):
                self.array.write_chunk(number, rows[begin : begin + size])
            self._waiting.clear()
            self._first_chunk += len(rows) // size
            self._rest = rows[len(rows) - len(rows) % size :]
        return self._first_chunk * size + len(self._rest)


def write_constant(path: Path, values: Sequence[Any] | NDArray[Any]) -> None:
    """Write an array that does not change."""
    data = np.asarray(values)
    array = ZarrArray.create(path, data.dtype, max(1, len(data)), data.shape[1:])
    array.write_chunk(0, data)
    array.grow(len(data))
