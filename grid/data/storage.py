"""A storage member: it keeps a replica of what others share, reads it over and over, and repairs what is damaged."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Any

from grid.data.data_sets import DataSet
from grid.data.exchange import JOB, DataPeer, Shelf, http_client, peers_of
from grid.data.manifest import DataManifest, Sharing, read_manifest
from grid.data.objects import MIN_FREE_BYTES
from grid.data.replica import Replica
from grid.data.sealing import CHUNK_BYTES
from grid.errors import GridError

ROUND_S = 5.0
"""Time between two looks at what the first rank shares."""
READ_BYTES_S = 20e6
"""Rate at which the replica is read over and over: 20 MB/s leave the disk to other work."""
TICK_S = 0.2
IDLE_S = 10.0
"""Pause after the whole replica was read."""


class StorageMember:
    """Keeps the replica of a member whole. It may know more than one lease, one after the other."""

    def __init__(
        self,
        shelf: Shelf,
        replica: Replica,
        say: Callable[[str], None],
        *,
        quota_bytes: float,
        min_free_bytes: int = MIN_FREE_BYTES,
        round_s: float = ROUND_S,
    ) -> None:
        """Prepare it.

        Args:
            shelf: What this member gives.
            replica: Where it keeps data sets of others.
            say: Takes lines for people.
            quota_bytes: Most that all objects and listings of others may take.
            min_free_bytes: Bytes that stay free on the disk.
            round_s: Time between two looks at what the first rank shares.
        """
        self._shelf = shelf
        self._replica = replica
        self._say = say
        self._quota_bytes = quota_bytes
        self._min_free_bytes = min_free_bytes
        self._round_s = round_s
        self._looked: set[str] = set()
        """Data sets of which nothing was missing when they were looked at last."""
        self._read: set[bytes] = set()
        """Objects that were as they were signed when this process read them, by the beginning of their hash."""

    async def fill(self, addresses: list[str], rank: int, job: str) -> None:
        """Bring what the first rank shares, and what the replica lacks, until cancelled; other jobs bring nothing here."""
        if job != JOB or rank == 0:
            return
        said = ""
        with http_client() as client:
            peers = peers_of(addresses, rank, client)
            while True:
                if self._shelf.damaged:
                    self._shelf.damaged = False
                    self._looked.clear()
                try:
                    await asyncio.to_thread(self._bring, peers)
                    self._shelf.trouble = ""
                except Exception as error:
                    self._shelf.trouble = str(error) or type(error).__name__
                if self._shelf.trouble not in ("", said):
                    self._say(self._shelf.trouble)
                said = self._shelf.trouble
                for _ in range(math.ceil(self._round_s / TICK_S)):
                    if self._shelf.damaged:
                        break
                    await asyncio.sleep(TICK_S)

    async def scrub(self) -> None:
        """Read the replica over and over until cancelled; remove each object that is damaged, so that it is brought again."""
        while True:
            try:
                for name in await asyncio.to_thread(list, self._replica.objects):
                    size = await asyncio.to_thread(self._checked, name)
                    await asyncio.sleep(size / READ_BYTES_S)
            except Exception as error:
                self._say(f"the replica in {self._replica.folder} cannot be read ({error}). Next: look at its disk")
            self._looked.clear()  # what has vanished is noticed by the next look, and what is whole by now
            await asyncio.sleep(IDLE_S)

    def _checked(self, name: str) -> int:
        """Read an object and remove it when it is damaged; return its size. What cannot be read at the moment stays."""
        place = self._replica.objects.path(name)
        try:
            size = place.stat().st_size
            whole = self._replica.objects.is_whole(name)
        except FileNotFoundError:
            return 0
        except OSError as error:
            self._say(f"{place} cannot be read ({error.strerror}). Next: look at the disk")
            return 0
        if whole:
            self._read.add(_begin(name))
        else:
            self._replica.objects.remove(name)
            self._say(f"the object {name[:16]}… of the replica was damaged and is removed; it is brought again")
            self._shelf.found_damage()
        return size

    def _bring(self, peers: list[DataPeer]) -> None:
        """Bring what is missing of every data set of the first rank, and of those that are here."""
        reasons = []
        for each in peers[0].sets():
            try:
                manifest = read_manifest(each["manifest"])
                if manifest.sharing is Sharing.NO:
                    raise GridError(f"“{manifest.name}” is offered and stays in its laboratory: it is not taken")
                if manifest.id not in self._looked:
                    self._shelf.whole -= {manifest.id}
                    if not self._replica.has(manifest.id) or self._lacks(manifest):
                        self._bring_one(manifest, each["manifest"], peers)
                    self._looked.add(manifest.id)
                    if self._was_read(manifest) and not self._shelf.damaged:
                        self._shelf.whole |= {manifest.id}
            except GridError as error:
                reasons.append(str(error))
        if reasons:
            raise GridError("; ".join(reasons))

    def _lacks(self, manifest: DataManifest) -> bool:
        with closing(self._shelf.sets.open(manifest.id)) as data:
            return any(row.object not in self._replica.objects for row in data.listing)

    def _was_read(self, manifest: DataManifest) -> bool:
        """Whether every object of a data set was as it was signed when this process read it."""
        with closing(self._shelf.sets.open(manifest.id)) as data:
            return all(_begin(row.object) in self._read for row in data.listing)

    def _bring_one(self, manifest: DataManifest, plain: dict[str, object], peers: list[DataPeer]) -> None:
        sets, verified = self._shelf.sets, list[bytes]()
        if not sets.has(manifest.id):
            room_bytes = self._quota_bytes - self._replica.used_bytes() - sets.taken_bytes()
            peers[0].take(sets, plain, manifest.id, sealed=manifest.is_sealed, room_bytes=room_bytes)
        with closing(sets.open(manifest.id)) as data:

            def bring(index: int) -> Iterator[bytes]:
                verified.append(_begin(data.row(index).object))
                return from_peers(data, peers, index, self._replica.folder)

            brought = self._replica.fill(
                data,
                bring,
                is_here=self._replica.objects.__contains__,
                quota_bytes=self._quota_bytes,
                other_bytes=sets.taken_bytes(),
                min_free_bytes=self._min_free_bytes,
            )
            data.note_replica(self._replica.folder)
        self._read.update(verified)
        self._say(f"“{manifest.name}”: {brought:,} objects brought, {manifest.files:,} are here")


def _begin(name: str) -> bytes:
    """Return half of a hash, which tells objects apart in half the memory."""
    return bytes.fromhex(name[:32])


def data_service(
    shelf: Shelf, storage: StorageMember | None
) -> Callable[[list[str], int, str], Coroutine[Any, Any, None]]:
    """Return what a member does with data sets while a work lease runs: it gives its own, and keeps those of others."""

    async def serve(addresses: list[str], rank: int, job: str) -> None:
        async with running(None if storage is None else storage.fill(addresses, rank, job)):
            await shelf.serve(addresses[rank])

    return serve


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None] | None) -> AsyncIterator[None]:
    """Run something while the block lasts; None runs nothing."""
    task = None if work is None else asyncio.create_task(work)
    try:
        yield
    finally:
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def from_peers(data: DataSet, peers: list[DataPeer], index: int, folder: Path | None = None) -> Iterator[bytes]:
    """Yield the object of a file, of the first peer that gives it whole. Raises :class:`GridError` when none does."""
    row, reasons = data.row(index), list[str]()
    for peer in peers:
        with SpooledTemporaryFile(max_size=4 * CHUNK_BYTES, dir=None if folder is None else str(folder)) as kept:
            digest = hashlib.sha256()
            try:
                for chunk in peer.chunks(data.manifest.id, row):
                    digest.update(chunk)
                    kept.write(chunk)
            except GridError as error:
                reasons.append(str(error))
                continue
            if digest.hexdigest() != row.object:
                reasons.append(f"{peer.address} gave other bytes than the author signed")
                continue
            kept.seek(0)
            yield from iter(lambda kept=kept: kept.read(CHUNK_BYTES), b"")  # type: ignore[misc]
            return
    raise GridError(f"no member gave “{row.path}” of “{data.manifest.name}”: {'; '.join(reasons) or 'there is none'}")
