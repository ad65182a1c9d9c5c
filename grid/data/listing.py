"""The listing of a data set: one row for each file, in the order of paths, as the leaves of a Merkle tree on the disk.

One row is read and verified without the others: a data set of a million chunks is too large to read for each of them.
"""

from __future__ import annotations

import json
import os
import re
from array import array
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from controller.signed_log import merkle
from grid.errors import GridError

ROWS, OFFSETS, NODES = "rows.jsonl", "rows.offsets", "rows.nodes"
HASH_BYTES = 32
MAX_PATH = 1024
_HEX64 = re.compile(r"^[0-9a-f]{64}$")


@dataclass(frozen=True, slots=True)
class FileRow:
    """One file of a data set.

    Attributes:
        path: relative, with “/”.
        size: bytes.
        sha256: of its contents, in hexadecimal.
        object: SHA-256 of its encrypted form, which is also the object's name; that of its contents if they are public.
    """

    path: str
    size: int
    sha256: str
    object: str

    def to_bytes(self) -> bytes:
        """Return the row as the leaf of the tree."""
        plain = {"object": self.object, "path": self.path, "sha256": self.sha256, "size": self.size}
        return json.dumps(plain, separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def from_bytes(cls, leaf: bytes) -> FileRow:
        """Read a row. Raises :class:`GridError` when it is malformed, or its path leaves the folder."""
        try:
            found: dict[str, Any] = json.loads(leaf)
            if set(found) != _FIELDS or not isinstance(found["size"], int) or found["size"] < 0:
                raise ValueError("keys or size")
            if not all(isinstance(found[name], str) and _HEX64.fullmatch(found[name]) for name in ("sha256", "object")):
                raise ValueError("hashes")
            checked_path(found["path"])
        except (ValueError, TypeError, KeyError) as error:
            raise GridError(
                f"a row of the listing is malformed ({error}). Likely cause: a damaged file, or another release wrote it."
                " Next: fetch the listing again"
            ) from None
        return cls(**found)


_FIELDS = {each.name for each in fields(FileRow)}


def checked_path(path: object) -> str:
    """Return the path of a file in a data set.

    Raises:
        GridError: It is absolute, leaves the folder, or has a character that a file system may refuse.
    """
    parts = path.split("/") if isinstance(path, str) else [""]
    bad = not isinstance(path, str) or not path.isprintable() or len(path.encode()) > MAX_PATH or "\\" in path
    if bad or any(part in ("", ".", "..") for part in parts):
        raise GridError(
            f"the path “{path!s:.100}” cannot be in a data set. Likely cause: it is absolute, has “..”, or a character that"
            " cannot be printed. Next: rename the file"
        )
    return str(path)


class Listing:
    """The listing in a folder."""

    def __init__(self, folder: Path) -> None:
        """Open the listing. Raises :class:`GridError` when a file of it is missing or damaged."""
        try:
            self._rows = os.open(folder / ROWS, os.O_RDONLY)
            self._nodes = os.open(folder / NODES, os.O_RDONLY)
            self._ends = array("Q", (folder / OFFSETS).read_bytes())
            whole = not self._ends or os.fstat(self._rows).st_size == self._ends[-1]
        except (OSError, ValueError) as error:
            raise GridError(f"the listing in {folder} cannot be read ({error}). Next: fetch it again") from None
        if not whole:
            self.close()
            raise GridError(
                f"the listing in {folder} is cut short. Likely cause: the disk was full. Next: fetch it again"
            )

    def close(self) -> None:
        """Close the files."""
        os.close(self._rows)
        os.close(self._nodes)

    def __len__(self) -> int:
        return len(self._ends)

    def row(self, index: int) -> FileRow:
        """Return a row that is not verified."""
        return FileRow.from_bytes(self._leaf(index))

    def __iter__(self) -> Iterator[FileRow]:
        return (self.row(index) for index in range(len(self)))

    def find(self, path: str) -> int:
        """Return the index of a file. Raises :class:`GridError` when the data set has none of this path."""
        wanted, low, high = path.encode(), 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self.row(middle).path.encode() < wanted:
                low = middle + 1
            else:
                high = middle
        if low == len(self) or self.row(low).path != path:
            raise GridError(f"the data set has no file “{path[:100]}”. Next: `choroid grid data show` lists them")
        return low

    def verified(self, index: int, root: bytes) -> FileRow:
        """Return a row after verifying that it is in the tree. Raises :class:`GridError` when it is not."""
        leaf = self._leaf(index)
        proof = merkle.inclusion_proof(index, len(self), self.node)
        if not merkle.verify_inclusion(index, len(self), merkle.leaf_hash(leaf), proof, root):
            raise GridError(
                f"row {index} of the listing is not the one that its author signed. Likely cause: it was changed. Next: fetch"
                " the listing from another replica"
            )
        return FileRow.from_bytes(leaf)

    def root(self) -> bytes:
        """Return the root over all rows, computed from the rows. Raises :class:`GridError` when their order is wrong."""
        tree, before = merkle.Growing(), b""
        for index in range(len(self)):
            leaf = self._leaf(index)
            path = FileRow.from_bytes(leaf).path.encode()
            if index and path <= before:
                raise GridError(f"row {index} of the listing is out of order. Next: fetch it again")
            tree.add(merkle.leaf_hash(leaf))
            before = path
        return tree.root

    def _leaf(self, index: int) -> bytes:
        begin = self._ends[index - 1] if index else 0
        return os.pread(self._rows, self._ends[index] - begin, begin).rstrip(b"\n")

    def node(self, level: int, index: int) -> bytes:
        """Return the hash of a complete node of the tree."""
        at = sum(len(self) >> below for below in range(level)) + index
        return os.pread(self._nodes, HASH_BYTES, at * HASH_BYTES)


def write_listing(folder: Path, rows: Iterable[FileRow]) -> bytes:
    """Write the listing of files, which come in the order of their paths' bytes. Return the root of its tree.

    Raises:
        GridError: They do not.
        OSError: The disk is full.
    """
    ends, end, hashes, before = array("Q"), 0, bytearray(), b""
    with (folder / ROWS).open("wb") as file:
        for row in rows:
            if row.path.encode() <= before:
                raise GridError(f"“{row.path[:100]}” of the listing is out of order. Next: fetch it again")
            leaf, before = row.to_bytes(), row.path.encode()
            end += file.write(leaf + b"\n")
            ends.append(end)
            hashes += merkle.leaf_hash(leaf)
    with (folder / NODES).open("wb") as file:
        while hashes:
            file.write(hashes)
            level = bytes(hashes)
            hashes = bytearray()
            for at in range(0, len(level) - HASH_BYTES, 2 * HASH_BYTES):
                middle = at + HASH_BYTES
                hashes += merkle.node_hash(level[at:middle], level[middle : middle + HASH_BYTES])
    (folder / OFFSETS).write_bytes(ends.tobytes())
    with closing(Listing(folder)) as listing:
        return merkle.root(len(listing), listing.node)
