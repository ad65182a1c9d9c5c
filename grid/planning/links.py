"""Bandwidth and round trip of each pair of ranks: `python -m grid.planning.links ABOUT.json` at each of them.

ABOUT.json has `rank` and `addresses`, as the file of a work lease has them, so that the bytes go through the tunnels that
training would use. Any other address does as well. The lower rank of a pair measures, both directions, and says when it has
a result. The higher rank then asks for it at the address of the lower one, so that no other program can give it. A rank
takes part in one measurement at a time; who finds it busy asks again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import statistics
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from grid.errors import GridError

FORMAT = "choroid-links/1"
PORT = 29_480
HEAD = struct.Struct("!cQ")
ECHO, UP, DOWN, RESULT, ASK, BUSY = b"E", b"U", b"D", b"R", b"A", b"B"
"""RESULT has the number of the rank that measured, ASK that of the one that asks, in place of a size."""
ECHOES = 20
FIRST_BYTES = 1 << 18
STEADY_S = 0.5
"""Bytes are doubled until a transfer takes this time: what a queue swallows at first then counts for little."""
MAX_BYTES = 1 << 30
CHUNK = 1 << 18
RETRY_S = 0.2
SILENT_S = 15.0
"""Longest wait for the next bytes of a measurement: who is silent for longer leaves it to others."""
TURN_S = 60.0
"""Longest measurement of one link."""
MAX_RESULT_BYTES = 1000
PATIENCE_S = 60.0
"""How long a rank is dialled before it counts as absent, on the loop's clock."""


@dataclass(frozen=True, slots=True)
class LinkFigures:
    """What a link between two ranks does: median round trip (s) and steady rate in each direction (bit/s)."""

    round_trip_s: float
    up_bit_s: float
    down_bit_s: float

    @property
    def bit_s(self) -> float:
        """Return the rate of the slower direction (bit/s)."""
        return min(self.up_bit_s, self.down_bit_s)

    def reversed(self) -> LinkFigures:
        """Return the same link as the other end sees it."""
        return replace(self, up_bit_s=self.down_bit_s, down_bit_s=self.up_bit_s)


class LinkProbe:
    """One rank that measures its links and lets others measure theirs to it."""

    def __init__(self, rank: int, addresses: Sequence[str], port: int = PORT, steady_s: float = STEADY_S) -> None:
        self._steady_s = steady_s
        self._rank = rank
        self._addresses = addresses
        self._port = port
        self._taken = asyncio.Lock()
        self._found: dict[int, LinkFigures] = {}
        self._all = asyncio.Event()
        self._measured: dict[int, bytes] = {}
        """What each higher rank may ask for."""

    async def run(self) -> dict[int, LinkFigures]:
        """Return the links to all other ranks, by rank.

        Raises:
            GridError: A rank was not there, or did not finish.
        """
        server = await asyncio.start_server(self._answer, self._addresses[self._rank], self._port)
        async with server:
            for other in range(self._rank + 1, len(self._addresses)):
                await self._measure(other)
            self._note()
            try:
                await asyncio.wait_for(self._all.wait(), PATIENCE_S * len(self._addresses))
            except TimeoutError:
                missing = sorted(set(range(len(self._addresses))) - {self._rank, *self._found})
                raise GridError(
                    f"no figures of the links to ranks {missing} came. Likely cause: they are not running."
                    " Next: start the same command at every rank"
                ) from None
        return dict(sorted(self._found.items()))

    def _note(self) -> None:
        if len(self._found) == len(self._addresses) - 1:
            self._all.set()

    async def _measure(self, other: int) -> None:
        address, loop = self._addresses[other], asyncio.get_running_loop()
        begin_s = answered_s = loop.time()
        while True:
            with suppress(OSError, asyncio.IncompleteReadError):
                async with self._taken, asyncio.timeout(TURN_S):
                    reader, writer = await asyncio.open_connection(address, self._port)
                    try:
                        said = await _said(reader, writer, ECHO)
                        answered_s = loop.time()
                        if said != BUSY:
                            found = await figures(reader, writer, self._steady_s)
                            self._measured[other] = json.dumps(asdict(found.reversed())).encode()
                            await _said(reader, writer, RESULT, self._rank)
                            self._found[other] = found
                            return
                    finally:
                        writer.close()
            if loop.time() > min(answered_s, begin_s + PATIENCE_S * len(self._addresses)) + PATIENCE_S:
                raise GridError(
                    f"rank {other} at {address}:{self._port} did not answer for {PATIENCE_S:.0f} s. Likely cause: the probe"
                    " does not run there, or the tunnel is not open. Next: start the same command at every rank"
                )
            await asyncio.sleep(RETRY_S)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            what, size = await _request(reader)
            if what == ASK:
                writer.write(self._measured.get(size, b""))
                await writer.drain()
            elif self._taken.locked():
                writer.write(BUSY)
                await writer.drain()
            else:
                async with self._taken, asyncio.timeout(TURN_S):
                    await self._serve(reader, writer, what, size)
        except (OSError, EOFError, ValueError, TypeError, KeyError):
            return  # the other end has gone or is no probe, and asks again if it wants
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, what: bytes, size: int) -> None:
        while size <= MAX_BYTES:
            if what == DOWN:
                await _pour(writer, size)
            else:
                if what == UP:
                    await _swallow(reader, size)
                elif what == RESULT:
                    await self._fetch(size)
                writer.write(ECHO)
                await _drained(writer)
            if what == RESULT:
                self._note()
                return
            what, size = await _request(reader)

    async def _fetch(self, lower: int) -> None:
        """Ask a lower rank, at its own address, for what it has measured. Raises ValueError when it has nothing sound."""
        if not 0 <= lower < self._rank:
            raise ValueError("no lower rank")
        reader, writer = await asyncio.open_connection(self._addresses[lower], self._port)
        try:
            writer.write(HEAD.pack(ASK, self._rank))
            async with asyncio.timeout(SILENT_S):
                plain: dict[str, Any] = json.loads(await reader.read(MAX_RESULT_BYTES))
        finally:
            writer.close()
        found = LinkFigures(**{name: float(value) for name, value in plain.items()})
        if not all(math.isfinite(value) and value > 0 for value in asdict(found).values()):
            raise ValueError("no figures")
        self._found[lower] = found


async def figures(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, steady_s: float) -> LinkFigures:
    """Return the figures of a link to a probe that serves.

    Args:
        reader: Of a connection to it.
        writer: Of the same.
        steady_s: Least time of the transfer that counts (s).
    """
    loop = asyncio.get_running_loop()
    trips = []
    for _ in range(ECHOES):
        begin_s = loop.time()
        await _said(reader, writer, ECHO)
        trips.append(loop.time() - begin_s)
    trip_s = statistics.median(trips)

    async def up(size: int) -> None:
        writer.write(HEAD.pack(UP, size))
        await _pour(writer, size)
        await _exactly(reader, 1)

    async def down(size: int) -> None:
        writer.write(HEAD.pack(DOWN, size))
        await _swallow(reader, size)

    rates = []
    for way in (up, down):
        size, taken_s = FIRST_BYTES, 0.0
        while taken_s < steady_s + trip_s and size < MAX_BYTES:
            size, begin_s = size * 2, loop.time()
            await way(size)
            taken_s = loop.time() - begin_s
        rates.append(8.0 * size / max(taken_s - trip_s, 1e-6))
    return LinkFigures(trip_s, *rates)


async def _said(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, what: bytes, size: int = 0) -> bytes:
    writer.write(HEAD.pack(what, size))
    await _drained(writer)
    return await _exactly(reader, 1)


async def _request(reader: asyncio.StreamReader) -> tuple[bytes, int]:
    what, size = HEAD.unpack(await _exactly(reader, HEAD.size))
    return what, size


async def _exactly(reader: asyncio.StreamReader, size: int) -> bytes:
    async with asyncio.timeout(SILENT_S):
        return await reader.readexactly(size)


async def _drained(writer: asyncio.StreamWriter) -> None:
    async with asyncio.timeout(SILENT_S):
        await writer.drain()


async def _pour(writer: asyncio.StreamWriter, size: int) -> None:
    chunk = bytes(CHUNK)
    while size > 0:
        writer.write(chunk[:size])
        await _drained(writer)
        size -= CHUNK


async def _swallow(reader: asyncio.StreamReader, size: int) -> None:
    while size > 0:
        async with asyncio.timeout(SILENT_S):
            got = await reader.read(min(size, CHUNK))
        if not got:
            raise asyncio.IncompleteReadError(b"", size)
        size -= len(got)


def main() -> None:
    """Measure the links of one rank and print them as JSON."""
    parser = argparse.ArgumentParser(description="bandwidth and round trip to the other ranks of a job")
    parser.add_argument("about", type=Path, help="JSON with rank, addresses and, if they have names, members")
    parser.add_argument("--port", type=int, default=PORT, help=f"port of every rank (default {PORT})")
    arguments = parser.parse_args()
    about = json.loads(arguments.about.read_text(encoding="utf-8"))
    names = about.get("members") or [str(rank) for rank in range(len(about["addresses"]))]
    found = asyncio.run(LinkProbe(about["rank"], about["addresses"], arguments.port).run())
    links = {names[other]: asdict(link) for other, link in found.items()}
    print(json.dumps({"format": FORMAT, "name": names[about["rank"]], "links": links}), flush=True)


if __name__ == "__main__":
    main()
