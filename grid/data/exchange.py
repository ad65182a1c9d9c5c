"""Data sets between the members of a work lease: each serves what it has at its address, and fetches from the others.

The tunnels of the lease are encrypted from one end to the other; no program of another machine reaches the address.
Objects of data that are not public are encrypted in themselves: a storage member keeps what it cannot read.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from grid.clock import perf_s
from grid.data.data_sets import KEY, DataSet, DataSets
from grid.data.listing import ROWS, FileRow
from grid.data.manifest import DataManifest, Sharing
from grid.data.replica import Replica
from grid.data.sealing import CHUNK_BYTES, TAG_BYTES
from grid.errors import GridError
from grid.identity.keys import IdentityKey
from grid.serving import listen, serve

PORT = 7710
"""At the address of a rank; programs of a job use other ports."""
JOB = "data sets"
"""Job of a work lease in which the members with a store keep replicas of what the first rank shares."""
MAX_SETS = 1000
MAX_BYTES = 1 << 28
"""Most of a listing, or of the answer about data sets."""
MAX_REASON = 1000
MAX_COPIES = 4
"""Files that are read, verified and copied at a time before they are given."""
CALL_S = 60.0
READ_BYTES_S = 2e6
"""A peer is silent for as long as this rate needs: a file is read whole, and verified, before its first byte is given."""
MIN_BYTES_S, GRACE_S = 16e3, 30.0
"""Rate of a peer from its first byte on, but for this time: the slowest line in use (128 kbit/s) is faster."""
AGAIN_S = 300.0
"""Pause before a peer that was too slow is asked again."""
ROW_BYTES = 72
"""What a row of a listing takes in addition to its text: two hashes of the tree and an offset."""


class Shelf:
    """What a member gives: its own data sets that may leave it, and its replica."""

    def __init__(self, sets: DataSets, key: IdentityKey, replica: Replica | None = None) -> None:
        """Prepare it.

        Args:
            sets: Its data sets.
            key: Its identity.
            replica: Where it keeps data sets of others; None for nowhere.
        """
        self.sets = sets
        self.key = key
        self.replica = replica
        self.trouble = ""
        """Why the replica does not become complete; empty when nothing is known to keep it from that."""
        self._copies = asyncio.Semaphore(MAX_COPIES)
        self.damaged = False
        """Whether an object of the replica was removed since this was read last: it was not as its author signed it."""
        self.whole: frozenset[str] = frozenset()
        """Data sets of the replica whose objects are all there, and were as their author signed them when last read."""

    def found_damage(self) -> None:
        """Note that an object of the replica was damaged, and is removed."""
        self.damaged, self.whole = True, frozenset()

    def app(self) -> Starlette:
        """Return the service for the other ranks."""
        return Starlette(
            routes=[
                Route("/sets", self._every),
                Route("/sets/{which}/listing", partial(self._part, ROWS)),
                Route("/sets/{which}/envelope", partial(self._part, KEY)),
                Route("/sets/{which}/files/{path:path}", self._object),
            ]
        )

    async def serve(self, address: str) -> None:
        """Serve at the address of a rank until cancelled. Raises :class:`GridError` when the port is taken."""
        await serve(self.app(), listen(address, PORT))

    def _gives(self, manifest: DataManifest) -> bool:
        has = self.sets.is_author(manifest.id) or (self.replica is not None and self.replica.has(manifest.id))
        return has and manifest.sharing is not Sharing.NO

    def _sets(self) -> list[dict[str, Any]]:
        found = []
        for manifest in [each for each in self.sets.every() if self._gives(each)][:MAX_SETS]:
            author = self.sets.is_author(manifest.id)
            about = {"author": author, "whole": author or manifest.id in self.whole}
            found.append({"manifest": manifest.to_json(), **about})
        return found

    async def _every(self, _: Request) -> Response:
        sets = await asyncio.to_thread(self._sets)
        return JSONResponse({"keeps": self.replica is not None, "trouble": self.trouble, "sets": sets})

    async def _part(self, name: str, request: Request) -> Response:
        return Response(await self._of(request, lambda data: (data.folder / name).read_bytes()))

    async def _object(self, request: Request) -> Response:
        await self._copies.acquire()
        try:
            chunks = await self._of(request, partial(self._chunks, path=request.path_params["path"]))
        except BaseException:
            self._copies.release()
            raise
        return _Copy(chunks, self._copies)

    def _chunks(self, data: DataSet, path: str) -> Iterator[bytes]:
        """Return the object of a file, whose first chunk was made: then it is known to be as it was signed."""
        index = data.listing.find(path)
        if data.source is not None:
            made = data.objects(index, self.key)
            try:
                return _chain(next(made, b""), made)
            except GridError:  # its text has a path of this machine
                raise GridError(f"“{path[:100]}” is not as it was signed, or cannot be read, at its author") from None
        name = data.row(index).object
        assert self.replica is not None  # noqa: S101  (`_gives` has seen to it)
        if not self.replica.objects.is_whole(name):
            self.replica.objects.remove(name)
            self.found_damage()
            raise GridError(f"“{path[:100]}” is damaged in the replica here. Next: ask another member; it is repaired")
        return _file(self.replica.objects.path(name))

    async def _of(self, request: Request, give: Callable[[DataSet], Any]) -> Any:
        """Return what a data set gives. Raises HTTPException when it is not here, or may not leave."""

        def given() -> Any:
            with closing(self.sets.open(request.path_params["which"])) as data:
                if not self._gives(data.manifest):
                    raise GridError("this data set is not given from here")
                return give(data)

        try:
            return await asyncio.to_thread(given)
        except FileNotFoundError:
            raise HTTPException(404, "there is no such part of this data set") from None
        except OSError as error:
            raise HTTPException(404, f"it cannot be read here ({error.strerror})") from None
        except GridError as error:
            raise HTTPException(404, str(error)) from None


class _Copy(StreamingResponse):
    """An object on its way; the place among those that are copied is free again when it has ended, however it ends."""

    def __init__(self, chunks: Iterator[bytes], copies: asyncio.Semaphore) -> None:
        super().__init__(chunks, media_type="application/octet-stream")
        self._copies = copies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._copies.release()


class DataPeer:
    """Another rank, at its address of the work lease. Its methods block; what it does not give is a :class:`GridError`.

    A peer that is silent for too long, or gives fewer bytes than any line in use, is not asked again for some minutes.
    """

    def __init__(self, address: str, client: httpx.Client, *, now_s: Callable[[], float] = perf_s) -> None:
        self.address = address
        self._client = client
        self._url = f"http://{address}:{PORT}"
        self._now_s = now_s
        self._again_s = -math.inf
        """When it may be asked again."""

    def shelf(self) -> tuple[list[dict[str, Any]], bool, str]:
        """Return the data sets that it gives, whether it keeps replicas, and what keeps these from being complete.

        Of a data set, `manifest` is plain data, `author` says whether the peer has the files themselves, and `whole` that it
        knows of no object that is missing or damaged.
        """
        try:
            found = json.loads(self._get("/sets"))
            sets, keeps, trouble = found["sets"], bool(found["keeps"]), str(found["trouble"])
            if not isinstance(sets, list) or not all(isinstance(each, dict) and "manifest" in each for each in sets):
                raise ValueError("not a list of data sets")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise GridError(f"{self.address} gave no list of data sets ({type(error).__name__})") from None
        return sets[:MAX_SETS], keeps, trouble[:MAX_REASON]

    def sets(self) -> list[dict[str, Any]]:
        """Return the data sets that it gives (:meth:`shelf`)."""
        return self.shelf()[0]

    def take(
        self, sets: DataSets, manifest: dict[str, Any], which: str, *, sealed: bool, room_bytes: float = math.inf
    ) -> None:
        """Take manifest, listing and wrapped key of a data set, which are verified.

        Args:
            sets: Where they are kept.
            manifest: As plain data.
            which: Its id.
            sealed: Whether its files are encrypted.
            room_bytes: Most that they may take.
        """
        rows = self._get(f"/sets/{which}/listing")
        envelope = self._get(f"/sets/{which}/envelope") if sealed else b""
        if len(rows) + ROW_BYTES * rows.count(b"\n") + len(envelope) > room_bytes:
            raise GridError(f"the listing of {which[:16]} does not fit: the quota is used. Next: raise it (--quota)")
        sets.take(manifest, rows, envelope)

    def chunks(self, which: str, row: FileRow) -> Iterator[bytes]:
        """Yield the object of a file, at most as many bytes as it may have; they are to be verified."""
        path, left = row.path, row.size + TAG_BYTES * max(-(-row.size // CHUNK_BYTES), 1)
        try:
            with self._asked(f"/sets/{which}/files/{quote(path)}", left) as answer:
                if answer.status_code != httpx.codes.OK:
                    why = next(answer.iter_bytes(MAX_REASON), b"")[:300].decode(errors="replace")
                    raise GridError(f"{self.address} does not give “{path[:100]}”: {why}")
                for chunk in self._paced(answer.iter_raw()):
                    left -= len(chunk)
                    if left < 0:
                        raise GridError(f"{self.address} gave more bytes for “{path[:100]}” than its author signed")
                    yield chunk
        except httpx.HTTPError as error:
            raise self._unreachable(error) from None

    def fetch(self, which: str) -> Callable[[FileRow], bytes]:
        """Return what gives the objects of a data set to a reader (:class:`grid.data.loader.DataReader`)."""
        return lambda row: b"".join(self.chunks(which, row))

    def _get(self, path: str) -> bytes:
        found = bytearray()
        try:
            with self._asked(path) as answer:
                for chunk in self._paced(answer.iter_raw()):
                    found += chunk
                    if len(found) > MAX_BYTES:
                        raise GridError(f"{self.address} gives more than {MAX_BYTES} bytes at {path}")
        except httpx.HTTPError as error:
            raise self._unreachable(error) from None
        if answer.status_code != httpx.codes.OK:
            raise GridError(f"{self.address} does not give {path}: {bytes(found[:300]).decode(errors='replace')}")
        return bytes(found)

    @contextmanager
    def _asked(self, path: str, size: int = 0) -> Iterator[httpx.Response]:
        """Ask for something; `size` bytes are read and verified at the peer before it answers."""
        left_s = self._again_s - self._now_s()
        if left_s > 0:
            raise GridError(f"{self.address} was too slow; it is asked again in {left_s:.0f} s")
        timeout = httpx.Timeout(CALL_S, read=CALL_S + size / READ_BYTES_S)
        headers = {"Accept-Encoding": "identity"}
        with self._client.stream("GET", self._url + path, headers=headers, timeout=timeout) as answer:
            answer.request.extensions["timeout"]["read"] = CALL_S  # the file was read by now
            yield answer

    def _paced(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Yield what a peer gives, as long as it is not slower than any line that is in use."""
        came, first_s = 0, math.inf
        for chunk in chunks:
            now_s, came = self._now_s(), came + len(chunk)
            first_s = min(first_s, now_s)
            if came < MIN_BYTES_S * (now_s - first_s - GRACE_S):
                self._again_s = now_s + AGAIN_S
                raise GridError(f"{self.address} gave {came:,} bytes in {now_s - first_s:.0f} s, which is too slow")
            yield chunk

    def _unreachable(self, error: httpx.HTTPError) -> GridError:
        if isinstance(error, httpx.TimeoutException):
            self._again_s = self._now_s() + AGAIN_S
        return GridError(f"{self.address} cannot be reached ({type(error).__name__})")


def peers_of(addresses: list[str], rank: int, client: httpx.Client) -> list[DataPeer]:
    """Return the other ranks of a work lease, in the order of their ranks."""
    return [DataPeer(address, client) for number, address in enumerate(addresses) if number != rank]


def http_client() -> httpx.Client:
    """Return the client for peers: it follows nothing, and uses no proxy of this machine."""
    return httpx.Client(timeout=httpx.Timeout(CALL_S), trust_env=False, follow_redirects=False)


def _chain(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _file(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk
