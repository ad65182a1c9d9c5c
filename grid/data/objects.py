"""Objects named by the SHA-256 of their bytes, in a folder with a quota."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from controller.core.whole_file import locked
from grid.errors import GridError

MIN_FREE_BYTES = 1_000_000_000
"""Bytes that stay free on the disk."""


class ObjectStore:
    """The objects in a folder. A process that is killed leaves an object whole or absent."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._partial = folder / "partial"
        self._room_bytes = 0.0
        self._min_free_bytes = 0

    @contextmanager
    def filling(
        self, quota_bytes: float, min_free_bytes: int = MIN_FREE_BYTES, *, other_bytes: int = 0
    ) -> Iterator[None]:
        """Let this process alone put objects during the block.

        Args:
            quota_bytes: Most that all may take.
            min_free_bytes: Bytes that stay free on the disk.
            other_bytes: What is kept with the objects, and counts as well.

        Raises:
            GridError: Another process fills it, the quota is used, or the folder cannot be written.
        """
        try:
            self._partial.mkdir(parents=True, exist_ok=True)
            with locked(self._folder):
                for left in self._partial.iterdir():
                    left.unlink()
                self._room_bytes = quota_bytes - other_bytes - self.used_bytes()
                self._min_free_bytes = min_free_bytes
                self._require_quota(0)
                yield
        except BlockingIOError:
            raise GridError(f"another process fills {self._folder}. Next: wait until it has ended") from None
        except OSError as error:
            raise GridError(
                f"{self._folder} cannot be written ({error.strerror or error}). Likely cause: the disk is full, was removed,"
                " or belongs to another user. Next: correct that; what was kept before is whole"
            ) from None

    def path(self, name: str) -> Path:
        """Return where an object is, or would be."""
        return self._folder / name[:2] / name

    def used_bytes(self) -> int:
        """Return what all objects take."""
        return sum(self.path(name).stat().st_size for name in self)

    def __contains__(self, name: str) -> bool:
        """Whether an object is there; it may be damaged (:meth:`is_whole`)."""
        return self.path(name).is_file()

    def __iter__(self) -> Iterator[str]:
        """Yield the names of all objects, in order."""
        for place in sorted(self._folder.glob("??")):
            if place.is_dir():
                yield from sorted(each.name for each in place.iterdir())

    def put(self, name: str, chunks: Iterable[bytes]) -> int:
        """Keep an object, within :meth:`filling`; return its size.

        Raises:
            GridError: The bytes are not those of the name, or the quota is used. Nothing is kept then.
            OSError: The disk is full.
        """
        partial, digest, size = self._partial / name, hashlib.sha256(), 0
        try:
            with partial.open("wb") as file:
                for chunk in chunks:
                    size += len(chunk)
                    self._require_room(size)
                    digest.update(chunk)
                    file.write(chunk)
                if digest.hexdigest() != name:
                    raise GridError(
                        f"the object {name[:16]}… came with other bytes. Next: fetch it from another replica"
                    )
                file.flush()
                os.fsync(file.fileno())
            place = self.path(name)
            place.parent.mkdir(exist_ok=True)
            partial.replace(place)
        finally:
            partial.unlink(missing_ok=True)
        self._room_bytes -= size
        return size

    def get(self, name: str) -> bytes:
        """Return an object, which the reader of the data set verifies. Raises :class:`GridError` when it is absent."""
        try:
            return self.path(name).read_bytes()
        except OSError as error:
            raise GridError(f"{self._folder} has no object {name[:16]}… ({error.strerror or error})") from None

    def remove(self, name: str) -> None:
        """Remove an object, if it is there."""
        place = self.path(name)
        if place.is_file():
            self._room_bytes += place.stat().st_size
            place.unlink()

    def is_whole(self, name: str) -> bool:
        """Read an object; return whether it is there with its own bytes.

        Raises:
            OSError: It cannot be read now, which says nothing of its bytes.
        """
        try:
            with self.path(name).open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest() == name
        except FileNotFoundError:
            return False

    def _require_quota(self, size: int) -> None:
        if size > self._room_bytes:
            raise GridError(f"{self._folder}: its quota is used. Next: raise it (--quota), or choose another folder")

    def _require_room(self, size: int) -> None:
        self._require_quota(size)
        if shutil.disk_usage(self._folder).free < self._min_free_bytes:
            raise GridError(
                f"{self._folder}: its disk has less than {self._min_free_bytes / 1e9:g} GB left. Next: free space"
            )
