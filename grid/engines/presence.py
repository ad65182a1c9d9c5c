"""Which ranks of a job are there, and which of them begin a round together: no rank is needed for it, any may be killed.

Every rank listens on its own address and keeps a connection to each other. To begin a round a rank asks the lowest rank that
is there, of those that have been in a round if there are any. That one answers all ranks that wait as soon as every rank
waits, or every rank that is there, or when some have waited too long for the others. Fewer than the minimum get no answer:
the smaller part of a divided network waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from torch.distributed import TCPStore

from .settings import PORT

TICK_S = 0.02
BEAT_S = 1.0
DEAD_S = 12.0
"""A rank that is silent for this time is not there. A process may get no processor for some seconds."""
GATHER_S = 0.5
START_S = 60.0
"""Longest wait for all ranks before the first round."""
SLOW_S = 20.0
"""A rank that lets others wait longer is left behind; it gets the weights when it comes."""
BUSY_S = 600.0
"""For a rank that works for all (it evaluates the common weights) the others wait longer."""
AGAIN_S = 0.3
STORE_S = 60.0
LOOK_S = 1.0
CLOSE_S = 5.0


@dataclass(frozen=True, slots=True)
class RankRound:
    """Ranks that exchange together.

    Attributes:
        generation: Name of their process group. The same name again: the group of the last round is still good.
        members: The ranks.
        host: Address of the store by which they find each other.
        port: Its port.
    """

    generation: str
    members: tuple[int, ...]
    host: str
    port: int


@dataclass(slots=True)
class _Asking:
    """A rank that waits for a round."""

    settled: bool
    generation: str
    since: float
    answer: Callable[[dict[str, Any]], None]


@dataclass(slots=True)
class _Peer:
    """Another rank, as the connection to it shows."""

    writer: asyncio.StreamWriter | None = None
    last: float = 0.0
    settled: bool = False
    busy: bool = False
    rounds: dict[int, dict[str, Any]] = field(default_factory=dict)


class Presence:
    """The connections of one rank, in a thread of their own."""

    def __init__(self, job: str, rank: int, addresses: list[str], min_ranks: int) -> None:
        """Listen and connect.

        Args:
            job: Name of the job; connections of others are refused.
            rank: This rank.
            addresses: Of all ranks.
            min_ranks: How many ranks make a round.

        Raises:
            OSError: The port of this rank is in use.
        """
        self._job, self._rank, self._addresses, self._min_ranks = job, rank, addresses, min_ranks
        self._peers = {other: _Peer() for other in range(len(addresses)) if other != rank}
        self._came: dict[int, float] = {}
        """When something was received last, by the rank that has connected."""
        self._asking: dict[int, _Asking] = {}
        self._changed = self._worked = 0.0
        self._there: set[int] = set()
        self._settled = self._closed = self._busy = False
        self._keeping: set[asyncio.Task[None]] = set()
        self._number = 0
        self._stores: list[TCPStore] = []
        self._last: RankRound | None = None
        self._loop = asyncio.new_event_loop()
        listener = socket.create_server((addresses[rank], PORT))
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(listener),), daemon=True)
        self._thread.start()

    def now(self) -> float:
        """Return the time of this process (s)."""
        return self._loop.time()

    def join(self, generation: str = "", pause_s: float = 0.0) -> RankRound:
        """Wait for a round, for as long as too few ranks are there.

        Args:
            generation: Of the process group of this rank if it is still good.
            pause_s: Wait before that.
        """
        waiting = asyncio.run_coroutine_threadsafe(self._join(generation, pause_s), self._loop)
        while self._thread.is_alive():
            with contextlib.suppress(TimeoutError):
                return waiting.result(LOOK_S)
        raise OSError("the connections to the other ranks have failed here; the lines above say why")

    def settle(self) -> None:
        """Say that this rank has been in a round."""
        self._loop.call_soon_threadsafe(self._settle)

    @contextlib.contextmanager
    def working_for_all(self) -> Iterator[None]:
        """Let the others wait for this rank during the block: it does what no other one does."""
        self._busy = True
        self._loop.call_soon_threadsafe(self._tell)
        try:
            yield
        finally:
            self._busy = False
            self._loop.call_soon_threadsafe(self._tell)

    def close(self) -> None:
        """End the connections with the process that holds them."""
        self._closed = True
        self._thread.join(CLOSE_S)

    def _settle(self) -> None:
        self._settled = True
        self._tell()

    def _tell(self) -> None:
        for peer in self._peers.values():
            _send(peer.writer, self._state())

    def _state(self) -> dict[str, Any]:
        return {"beat": self._settled, "busy": self._busy}

    async def _run(self, listener: socket.socket) -> None:
        self._changed = self._loop.time()
        server = await asyncio.start_server(self._serve, sock=listener)
        for other in self._peers:
            self._keeping.add(asyncio.create_task(self._keep(other)))
        try:
            while not self._closed:
                self._decide()
                await asyncio.sleep(TICK_S)
        finally:
            server.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    async def _keep(self, other: int) -> None:
        """Keep a connection to a rank."""
        peer = self._peers[other]
        while True:
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError, TimeoutError):
                async with asyncio.timeout(DEAD_S):
                    reader, writer = await asyncio.open_connection(self._addresses[other], PORT)
                _send(writer, {"job": self._job, "rank": self._rank})
                beating = asyncio.create_task(self._beat(writer))
                try:
                    await self._listen(peer, reader, writer)
                finally:
                    peer.writer = None
                    beating.cancel()
                    writer.close()
            await asyncio.sleep(AGAIN_S)

    async def _listen(self, peer: _Peer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            async with asyncio.timeout(DEAD_S):  # a new connection is there sooner than the next attempt of an old one
                line = await reader.readline()
            if not line:
                return
            said = json.loads(line)
            peer.last = self._loop.time()
            peer.writer = writer
            if "beat" in said:
                peer.settled, peer.busy = bool(said["beat"]), bool(said.get("busy"))
            elif "round" in said:
                peer.rounds[said["number"]] = said["round"]

    async def _beat(self, writer: asyncio.StreamWriter) -> None:
        while not writer.is_closing():
            _send(writer, self._state())
            await asyncio.sleep(BEAT_S)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a rank that has connected."""
        other = -1
        beating = asyncio.create_task(self._beat(writer))
        try:
            hello = json.loads(await reader.readline())
            if hello["job"] != self._job or hello["rank"] not in self._peers:
                return
            other = hello["rank"]
            mark = self._came[other] = self._loop.time()
            while line := await reader.readline():
                said = json.loads(line)
                self._came[other] = mark = self._loop.time()
                if "join" in said:
                    self._asked(other, said["join"], writer)
                elif "withdraw" in said:
                    self._asking.pop(other, None)
        except (OSError, ValueError, KeyError, TypeError, asyncio.CancelledError):
            return  # a cancelled one ends with this process
        finally:
            beating.cancel()
            writer.close()
            if other >= 0 and self._came.get(other) == mark:  # another connection of it may have come since
                del self._came[other]
                self._asking.pop(other, None)

    def _asked(self, other: int, join: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        number = int(join["number"])
        self._asking[other] = _Asking(
            bool(join["settled"]),
            str(join["generation"]),
            self._loop.time(),
            lambda found: _send(writer, {"round": found, "number": number}),
        )

    def _decide(self) -> None:
        """Answer those that wait if a round can begin."""
        now = self._loop.time()
        there = {self._rank} | {other for other, last in self._came.items() if now - last < DEAD_S}
        if there != self._there:
            self._there, self._changed = there, now
        waiting = self._asking
        if len(waiting) < self._min_ranks:
            return
        if len(waiting) < len(self._addresses):
            known = [each for each in waiting.values() if each.settled]
            gather_s = GATHER_S if known or self._settled else START_S
            complete = there <= waiting.keys() and now - self._changed >= gather_s
            patient = known or (list(waiting.values()) if not self._settled else [])
            slow_s = SLOW_S if known else START_S
            first = self._last.members[0] if self._last is not None else -1  # which evaluates
            since = min((each.since for each in patient), default=now)
            if first in there - waiting.keys() and (self._busy if first == self._rank else self._peers[first].busy):
                slow_s, self._worked = BUSY_S, now
            else:
                since = max(since, self._worked)  # its turn to ask begins when its work has ended
            late = bool(patient) and now - since >= slow_s
            if not complete and not late:
                return
        self._begin(tuple(sorted(waiting)))

    def _begin(self, members: tuple[int, ...]) -> None:
        last = self._last
        same = last is not None and last.members == members
        if not same or last is None or {each.generation for each in self._asking.values()} != {last.generation}:
            listener = socket.create_server((self._addresses[self._rank], 0))
            port = listener.getsockname()[1]
            store = TCPStore(
                self._addresses[self._rank],
                port,
                None,
                True,
                timeout=timedelta(seconds=STORE_S),
                wait_for_workers=False,
                master_listen_fd=listener.detach(),
            )
            self._stores = [*self._stores[-1:], store]
            self._number += 1
            last = self._last = RankRound(
                f"{self._rank}-{port}-{self._number}", members, self._addresses[self._rank], port
            )
        found = {"generation": last.generation, "members": members, "host": last.host, "port": last.port}
        for each in self._asking.values():
            each.answer(found)
        self._asking = {}

    def _leader(self) -> int:
        now = self._loop.time()
        settled = {self._rank: self._settled}
        for other, peer in self._peers.items():
            if peer.writer is not None and now - peer.last < DEAD_S:
                settled[other] = peer.settled
        return min([rank for rank, is_settled in settled.items() if is_settled] or settled)

    async def _join(self, generation: str, pause_s: float) -> RankRound:
        await asyncio.sleep(pause_s)
        found = None
        while found is None:
            found = await self._ask(self._leader(), generation)
        return RankRound(found["generation"], tuple(found["members"]), found["host"], found["port"])

    async def _ask(self, leader: int, generation: str) -> dict[str, Any] | None:
        """Ask a rank for a round; return None when another has to be asked."""
        number = self._number = self._number + 1
        rounds: dict[int, dict[str, Any]] = {}
        writer = None
        if leader == self._rank:
            self._asking[leader] = _Asking(
                self._settled, generation, self._loop.time(), lambda found: rounds.update({number: found})
            )
        else:
            rounds, writer = self._peers[leader].rounds, self._peers[leader].writer
            _send(writer, {"join": {"number": number, "settled": self._settled, "generation": generation}})
        while number not in rounds and self._leader() == leader:
            if writer is not None and self._peers[leader].writer is not writer:
                break  # it has another connection: what was asked over the old one is forgotten there
            await asyncio.sleep(TICK_S)
        if number not in rounds:
            _send(writer, {"withdraw": number})
            if leader == self._rank:
                self._asking.pop(leader, None)
        return rounds.pop(number, None)


def _send(writer: asyncio.StreamWriter | None, what: dict[str, Any]) -> None:
    if writer is not None and not writer.is_closing():
        writer.write(json.dumps(what).encode() + b"\n")
