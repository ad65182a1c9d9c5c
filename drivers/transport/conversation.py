"""One driver's side of a link: nothing passes before verification, and late replies are fenced off.

It enforces two rules for every driver. No command passes before the device has been verified on this opening of the
line (A6). And after a timeout, garbage or a cancelled request, a late reply must never be taken for the answer to
the next request (C2): the next request is preceded by a *barrier*, a query whose reply cannot be confused with any
other. Devices answer in order, so when the barrier's reply arrives, everything older has arrived and is discarded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from drivers.errors import BadReply, DeviceError, DeviceFault, LinkDown, NoReply
from drivers.transport.link import Link, Overtaken, Parser

T = TypeVar("T")

FAILURES_BEFORE_DOUBT = 3
"""Consecutive exchanges without a valid reply after which the device is verified again: it may have been switched
off.
"""

_verifying: ContextVar[Conversation | None] = ContextVar("verifying", default=None)


@dataclass(frozen=True, slots=True)
class SyncQuery:
    """Describes a query with an unmistakable reply; `parser` makes a fresh parser that skips everything else."""

    request: bytes
    parser: Callable[[], Parser[Any]]


class Conversation:
    """Exchanges requests and replies between one driver and its device; `where` is the device's name in the rig."""

    __slots__ = (
        "_answered",
        "_barrier",
        "_doubtful",
        "_doubts",
        "_failures",
        "_late_s",
        "_quiet_at_s",
        "_restarted",
        "addressed",
        "anonymous",
        "link",
        "mirrors",
        "timeout_s",
        "verified",
        "where",
    )

    def __init__(
        self,
        link: Link,
        where: str,
        *,
        timeout_s: float,
        barrier: SyncQuery | None = None,
        late_s: float = 1.0,
        unsolicited: Callable[[bytearray], None] | None = None,
    ) -> None:
        """`late_s`: without a barrier, maximum delay of a late reply after a failure (s)."""
        self.link = link
        self.where = where
        self.timeout_s = timeout_s
        self.verified = False
        self.addressed = False
        """Whether this driver's parsers identify the device by the reply itself, as on a Modbus line."""
        self.anonymous = False
        """Whether replies on this line do not identify their device: late replies of other devices must then be
        fenced too.
        """
        self.mirrors = False
        """Whether the device itself, not its line, may repeat a request before it answers; its driver knows that."""
        self._doubts = link.doubts
        """Number of doubts on the whole line that this driver has dealt with."""
        self._barrier = barrier
        self._late_s = late_s
        self._doubtful = False
        self._quiet_at_s = 0.0
        self._failures = 0
        self._restarted = False
        """The device has reported a restart since the last answer during its verification."""
        self._answered = False
        if unsolicited is not None:
            link.unsolicited = unsolicited

    @property
    def barrier(self) -> SyncQuery | None:
        """The query that synchronises this driver with its device, if the device has one."""
        return self._barrier

    def fence(self, barrier: SyncQuery | None) -> None:
        """Use another barrier from now on, for devices whose barrier is known only after identification.

        Args:
            barrier: The query; None means waiting until no late reply can come.
        """
        self._barrier = barrier

    async def ask(
        self, request: bytes, parse: Parser[T], *, timeout_s: float | None = None, mirrored: bool = False
    ) -> T:
        """Send a request and return its parsed reply.

        Args:
            request: Bytes to send.
            parse: Parser of the reply.
            timeout_s: Maximum wait for the reply, in loop time (s); None means that of the conversation.
            mirrored: Whether the right reply repeats the request. Any other reply that begins with the request is an
                echo of the line, and an error unless the link's text says `?echo=1`, at verification and later: an
                adapter may be replaced while the rig runs. A write that is mirrored is not confirmed by its reply
                alone, but by what the device reports next.

        Returns:
            What the parser returns.

        Raises:
            LinkDown: The line is not open, or the device is not verified.
            NoReply: No byte arrived in time.
            BadReply: No valid reply arrived in time.
            DeviceFault: The line echoes what is sent.
            DeviceError: The parser refuses the reply with an error of its own.
        """
        if request and not (mirrored or self.mirrors or self.link.line.echo):
            parse = self._no_echo(request, parse)
        while True:
            await self._in_step()
            try:
                return await self._attempt(
                    request, parse, self.timeout_s if timeout_s is None else timeout_s, self._may_go
                )
            except Overtaken:
                continue

    def _no_echo(self, request: bytes, parse: Parser[T]) -> Parser[T]:
        """Return `parse` with an error for a reply that begins with the request itself."""
        begun = False

        def parse_reply(buffer: bytearray) -> T | None:
            nonlocal begun
            if not begun and len(buffer) < len(request) and request.startswith(buffer):
                return None
            if not begun and buffer.startswith(request):
                self.doubt()
                raise DeviceFault(
                    "its line echoes what is sent",
                    where=self.where,
                    cause="an RS-485 adapter that receives its own bytes, as many USB dongles and K converters do",
                    action="write ?echo=1 in the link, or switch the echo of the adapter off",
                )
            begun = True
            return parse(buffer)

        return parse_reply

    async def exchange(self, request: bytes, parse: Parser[T], *, timeout_s: float) -> T:
        """Send a request whose missing reply may be normal; the caller calls :meth:`doubt` if it is not.

        Args:
            request: Bytes to send.
            parse: Parser of the reply.
            timeout_s: Maximum wait for the reply, in loop time (s).

        Returns:
            What the parser returns.

        Raises:
            DeviceError: As :meth:`ask`, but for an echo of the line, which is not looked for.
        """
        while True:
            await self._in_step()
            with suppress(Overtaken):
                return await self.link.exchange(
                    request,
                    parse,
                    timeout_s=timeout_s,
                    where=self.where,
                    addressed=self.addressed,
                    may_go=self._may_go,
                )

    async def tell(self, request: bytes, *, pause_s: float) -> None:
        """Send a request that has no reply. Only a later query shows whether it was received.

        Args:
            request: Bytes to send.
            pause_s: Time that is left to the device to process it (s); what it sends meanwhile is dropped.

        Raises:
            LinkDown: The line is not open, or the device is not verified.
        """
        while True:
            await self._in_step()
            with suppress(Overtaken):
                await self.link.tell(
                    request, pause_s=pause_s, where=self.where, addressed=self.addressed, may_go=self._may_go
                )
                return

    def require_verified(self) -> None:
        """Raise :class:`LinkDown` unless the device is verified, or this task is verifying it (A6)."""
        if not self._may_speak():
            raise LinkDown(
                "not verified since the line was opened; nothing is sent before that",
                where=self.where,
                cause="the line was lost, or the device did not answer or is another model",
                action="see the link's failures; verification is tried again by itself",
            )

    def _may_speak(self) -> bool:
        """Return whether :meth:`require_verified` would let this task pass."""
        return self.verified or _verifying.get() is self

    def _may_go(self) -> bool:
        """Return whether a request may still be sent now that it has the line: another may have failed meanwhile."""
        return self._may_speak() and not self._doubtful and not self._others_failed()

    def _others_failed(self) -> bool:
        return self.anonymous and self._doubts != self.link.doubts

    async def _attempt(self, request: bytes, parse: Parser[T], timeout_s: float, may_go: Callable[[], bool]) -> T:
        try:
            reply = await self.link.exchange(
                request, parse, timeout_s=timeout_s, where=self.where, addressed=self.addressed, may_go=may_go
            )
        except (NoReply, BadReply):
            self.doubt()
            self._failures += 1
            if self.verified and self._failures >= FAILURES_BEFORE_DOUBT:
                self.distrust()
                self.link.wake()
            raise
        except asyncio.CancelledError:
            self.doubt()
            raise
        self._failures = 0
        self._answered = True
        return reply

    def doubt(self) -> None:
        """Record that a reply may still arrive: synchronise before the next request."""
        self.link.doubts += 1
        self._expect_late()

    def _expect_late(self) -> None:
        self._doubts = self.link.doubts
        self._doubtful = True
        self._quiet_at_s = asyncio.get_running_loop().time() + self._late_s

    def distrust(self) -> None:
        """Withdraw verification: nothing passes until the supervisor has verified the device again."""
        self.verified = False

    def restarted(self) -> None:
        """Record that the device reports a restart: its settings are the factory's again."""
        self._restarted = self._answered  # answers after this report already use the new settings
        if self.verified:
            self.distrust()
            self.link.wake()

    async def _in_step(self) -> None:
        """Return when a request may be sent: the device is verified, and no late reply is expected."""
        self.require_verified()
        if self._others_failed():
            self._expect_late()
        while self._doubtful:
            await self._get_back_in_step()
            self.require_verified()

    async def _get_back_in_step(self) -> None:
        if self._barrier is None:
            wait_s = self._quiet_at_s - asyncio.get_running_loop().time()
            if wait_s > 0:
                await asyncio.sleep(wait_s)  # the bus stays free for others meanwhile
            else:
                self._doubtful = False
            return
        # Several tasks may wait here at once: the second finds that the first has done it, and sends nothing.
        barrier, speak = self._barrier, self._may_speak
        try:
            await self._attempt(barrier.request, barrier.parser(), self.timeout_s, lambda: self._doubtful and speak())
        except Overtaken:
            return
        except (NoReply, BadReply, LinkDown):
            raise
        except DeviceError:
            self._doubtful = False  # it did answer, although with a refusal
            raise
        self._doubtful = False

    @contextmanager
    def verifying(self) -> Iterator[None]:
        """Let this task speak before verification; on success the device is verified, otherwise not.

        A device that restarts meanwhile stays unverified, and the link's supervisor verifies it again.
        """
        token = _verifying.set(self)
        opening = self.link.opened
        self.verified = False
        self._failures = 0
        self._restarted = self._answered = False
        try:
            yield
        finally:
            _verifying.reset(token)
        # Settings written before a restart in the middle of verification are lost.
        self.verified = self.link.is_open and opening == self.link.opened and not self._restarted
