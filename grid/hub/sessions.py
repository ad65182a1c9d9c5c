"""The connections of members and laboratories. Nothing here outlives a connection; what does is in the database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from grid.errors import GridRefused
from grid.wire import grid_pb2 as pb

MAX_WAITING = 256
"""Messages that wait for one slow client; then its connection is ended."""


class MemberSession:
    """One connection.

    Attributes:
        identity: Identity of the member or laboratory.
        name: Its name.
        kind: member or lab.
        hello: What it said of itself.
        greeted: Whether it has said it; before that the hub does not know which leases a laboratory serves.
        working_on: What its last heartbeat said.
        process: What the client's process named itself with (random); the same over its reconnections.
        peer: Where it comes from, as gRPC names it.
        ended: Why the connection is to end; empty while it is not.
    """

    def __init__(self, identity: str, name: str, kind: str, *, process: str = "", peer: str = "") -> None:
        self.identity = identity
        self.name = name
        self.kind = kind
        self.process = process
        self.peer = peer
        self.hello = pb.Hello()
        self.greeted = False
        self.working_on = ""
        self.ended = ""
        self.alive_at = asyncio.get_running_loop().time()
        self._waiting: asyncio.Queue[pb.HubMessage | None] = asyncio.Queue(MAX_WAITING + 1)
        self._answers: dict[str, asyncio.Future[pb.ChallengeAnswer]] = {}

    def send(self, message: pb.HubMessage) -> None:
        """Queue a message; a client that does not read them loses its connection."""
        if self._waiting.qsize() >= MAX_WAITING:
            self.end("this client reads too slowly")
        elif not self.ended:
            self._waiting.put_nowait(message)

    async def next(self) -> pb.HubMessage | None:
        """Return the next message; None when the connection is to end."""
        return None if self.ended else await self._waiting.get()

    def end(self, reason: str) -> None:
        """End the connection."""
        if not self.ended:
            self.ended = reason
            while not self._waiting.empty():
                self._waiting.get_nowait()
            self._waiting.put_nowait(None)
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(GridRefused(f"the connection of {self.name} has ended: {reason}"))

    async def ask(self, challenge: pb.Challenge, within_s: float) -> tuple[pb.ChallengeAnswer, float]:
        """Send a challenge; return its answer and the seconds until it arrived.

        Raises:
            TimeoutError: No answer came in time.
            GridRefused: The connection has ended.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[pb.ChallengeAnswer] = loop.create_future()
        self._answers[challenge.id] = answer
        start = loop.time()
        try:
            self.send(pb.HubMessage(challenge=challenge))
            if self.ended:
                raise GridRefused(f"the connection of {self.name} has ended: {self.ended}")
            async with asyncio.timeout(within_s):
                return await answer, loop.time() - start
        finally:
            self._answers.pop(challenge.id, None)
            answer.cancel()

    def answered(self, answer: pb.ChallengeAnswer) -> None:
        """Take an answer; one that was not asked for is dropped."""
        found = self._answers.get(answer.challenge)
        if found is not None and not found.done():
            found.set_result(answer)


class Sessions:
    """The open connections, one for each identity."""

    def __init__(self) -> None:
        self._open: dict[str, MemberSession] = {}

    def __len__(self) -> int:
        return len(self._open)

    def opened(self, session: MemberSession) -> None:
        """Add a connection; an earlier one of the same process ends: its address has changed, or it hangs.

        Raises:
            GridRefused: Another process is connected with the same identity.
        """
        former = self._open.get(session.identity)
        if former is not None and former.process != session.process and not former.ended:
            silent_s = asyncio.get_running_loop().time() - former.alive_at
            raise GridRefused(
                f"another process is connected as {former.name}, from {former.peer}, last message {silent_s:.0f} s ago; this"
                f" one comes from {session.peer}. Likely cause: the data folder was copied, or used twice. Next: end one of"
                " them, or join with another data folder (--data), which is another member. After the loss of a machine"
                " this passes within 30 s"
            )
        self._open[session.identity] = session
        if former is not None:
            former.end("a newer connection of the same identity was opened")

    def closed(self, session: MemberSession) -> None:
        """Remove a connection."""
        if self._open.get(session.identity) is session:
            del self._open[session.identity]

    def find(self, identity: str) -> MemberSession | None:
        """Return the open connection of an identity."""
        return self._open.get(identity)

    def every(self) -> list[MemberSession]:
        """Return the open connections."""
        return list(self._open.values())

    def labs(self) -> set[str]:
        """Return the identities of connected laboratories that offers can be sent to."""
        return {each.identity for each in self._open.values() if each.kind == "lab" and each.greeted}

    def end_where(self, reason_of: Callable[[MemberSession], str]) -> None:
        """End every connection for which `reason_of` gives a reason."""
        for session in self.every():
            reason = reason_of(session)
            if reason:
                session.end(reason)
