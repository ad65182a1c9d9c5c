"""The folder of uploaded photos and files: each by the sha256 of its content, and a manifest of all.

A file is on the disk before a row of the journal names it. One that no row names (the controller ended in between) takes
room and does no harm. Names that people give are kept in the manifest and are never part of a path.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import shutil
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from controller.attachments.content import media_type
from controller.core.disk import remedy
from controller.recipes.answers import safe_name
from protocols.answers import AnswerForm

FOLDER = "attachments"
MANIFEST = "manifest.jsonl"
QUOTA_BYTES = 4_000_000_000
"""Maximum size of all files: a year of several photos a day."""
MIN_FREE_BYTES = 500_000_000
"""Free space that uploads leave to the journal."""
_SHA256 = re.compile(r"[0-9a-f]{64}")


class NoRoom(Exception):
    """There is no room for an upload: what, likely cause, next action."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """One uploaded file; `name` is for people."""

    sha256: str
    name: str
    media_type: str
    bytes: int

    @property
    def text(self) -> str:
        """Return it for people."""
        size = f"{self.bytes / 1e6:.1f} MB" if self.bytes >= 100_000 else f"{self.bytes / 1e3:.1f} kB"
        return f"{self.name} ({self.media_type}, {size})"


class AttachmentStore:
    """The uploads of one data folder. Nothing is written before the first one."""

    def __init__(
        self,
        data: Path,
        *,
        threaded: bool = False,
        quota_bytes: int = QUOTA_BYTES,
        min_free_bytes: int = MIN_FREE_BYTES,
    ) -> None:
        """With `threaded`, a thread decodes and waits for the disk, and the control loop does not."""
        self.folder = data / FOLDER
        self._threaded = threaded
        self._quota_bytes = quota_bytes
        self._min_free_bytes = min_free_bytes
        self._lock = threading.Lock()

    async def take(self, form: AnswerForm, content: bytes, name: str) -> Attachment:
        """Check an upload against the form of its question, and keep it.

        Raises:
            AnswerRefused: The question asks for something else.
            NoRoom: The quota or the disk is full.
        """
        if self._threaded:
            return await asyncio.to_thread(self._take, form, content, name)
        return self._take(form, content, name)

    def path(self, sha256: str) -> Path | None:
        """Return the file of a hash; None if there is none, or if the text is no hash."""
        if not _SHA256.fullmatch(sha256):
            return None
        path = self.folder / sha256
        return path if path.is_file() and not path.is_symlink() else None

    def find(self, sha256: str) -> Attachment | None:
        """Return what the manifest says of a hash, or None."""
        return next((each for each in self.manifest() if each.sha256 == sha256), None)

    def manifest(self) -> Iterator[Attachment]:
        """Yield the uploads, oldest first; a line that was cut off by a crash is left out."""
        try:
            lines = (self.folder / MANIFEST).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return
        for line in lines:
            try:
                yield Attachment(**json.loads(line))
            except (ValueError, TypeError):
                continue

    def _take(self, form: AnswerForm, content: bytes, name: str) -> Attachment:
        shown = safe_name(name)
        kind = media_type(form, content, shown)
        found = Attachment(hashlib.sha256(content).hexdigest(), shown, kind, len(content))
        with self._lock:
            try:
                self._keep(found, content)
            except OSError as error:
                raise NoRoom(
                    f"the upload cannot be kept in {self.folder} ({error.strerror or error}). {remedy(error)};"
                    " then upload it again"
                ) from error
        return found

    def _keep(self, found: Attachment, content: bytes) -> None:
        self.folder.mkdir(mode=0o700, exist_ok=True)
        path = self.folder / found.sha256
        if not (path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == found.sha256):
            self._require_room(found.bytes)
            part = self.folder / f".{found.sha256}.part"
            part.unlink(missing_ok=True)
            _write(part, content, os.O_EXCL)
            part.replace(path)
        elif found in set(self.manifest()):
            return
        line = json.dumps(asdict(found), ensure_ascii=False) + "\n"
        _write(self.folder / MANIFEST, f"{self._end_of_line()}{line}".encode(), os.O_APPEND)
        _sync(self.folder)

    def _end_of_line(self) -> str:
        """Return what ends a line that a crash has cut off."""
        path = self.folder / MANIFEST
        return "\n" if path.is_file() and not path.read_bytes().endswith(b"\n") else ""

    def _require_room(self, size: int) -> None:
        used = sum(entry.stat().st_size for entry in os.scandir(self.folder) if entry.is_file(follow_symlinks=False))
        if used + size > self._quota_bytes:
            raise NoRoom(
                f"uploads take {used / 1e9:.2f} GB, and at most {self._quota_bytes / 1e9:g} GB are kept. Likely cause: many"
                f" large photos. Next: export the data, then move old files out of {self.folder}"
            )
        free = shutil.disk_usage(self.folder).free
        if free - size < self._min_free_bytes:
            raise NoRoom(
                f"only {free / 1e9:.2f} GB are free on the disk of {self.folder}; the journal needs them. Next: free some"
                " space, then upload it again"
            )


def _write(path: Path, content: bytes, mode: int) -> None:
    """Create or extend a file, never through a symbolic link; it is on the disk on return."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | mode, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
