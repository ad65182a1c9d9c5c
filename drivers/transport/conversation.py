"""One driver's side of a link: trusted only after verification, and back in step after anything odd.

Two rules are kept here for every driver. No command passes before the device has been verified on this
opening of the line (A6). And after a timeout, garbage or a cancelled request, a reply may still be under
way that must never be taken for the answer to the next request (C2): the next request is preceded by a
*barrier*, a query whose reply cannot be confused with any other. Devices answer in order, so when it has
come, everything older has come and is thrown away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from drivers.errors import BadReply, LinkDown, NoReply
from drivers.transport.link import Link, Parser

T = TypeVar("T")

FAILURES_BEFORE_DOUBT = 3
"""So many exchanges in a row without a valid reply, and the device is verified anew: it may have been
switched off.
"""

_verifying: ContextVar[Conversation | None] = ContextVar("verifying", default=None)


@dataclass(frozen=True, slots=True)
class Barrier:
    """A query with an unmistakable reply; `parser` makes a fresh parser that skips everything else."""

    request: bytes
    parser: Callable[[], Parser[Any]]


class Conversation:
    """Requests and replies between one driver and its device; `where` is the device's name in the rig."""

    __slots__ = (
        "_barrier",
        "_doubtful",
        "_doubts",
        "_failures",
        "_late_s",
        "_quiet_at_s",
        "addressed",
        "anonymous",
        "link",
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
        barrier: Barrier | None = None,
        late_s: float = 1.0,
        unsolicited: Callable[[bytearray], None] | None = None,
    ) -> None:
        """`late_s`: without a barrier, how long after a failure a late reply could still come (s)."""
        self.link = link
        self.where = where
        self.timeout_s = timeout_s
        self.verified = False
        self.addressed = False
        """Whether this driver's parsers tell by the reply itself whose it is, as on a Modbus line."""
        self.anonymous = False
        """Whether replies on this line do not tell whose they are: then another device's late one must be fenced too."""
        self._doubts = link.doubts
        """Of those on the whole line, how many this driver has put behind it."""
        self._barrier = barrier
        self._late_s = late_s
        self._doubtful = False
        self._quiet_at_s = 0.0
        self._failures = 0
        if unsolicited is not None:
            link.unsolicited = unsolicited

    @property
    def barrier(self) -> Barrier | None:
        """The question that this driver gets back into step by, if its device has one."""
        return self._barrier

    def fence(self, barrier: Barrier | None) -> None:
        """Take `barrier` from now on, where only verification can find out which question the device answers."""
        self._barrier = barrier

    async def ask(self, request: bytes, parse: Parser[T], *, timeout_s: float | None = None) -> T:
        """Send `request` and return the parsed reply; raises a :class:`~drivers.device.DeviceError`."""
        self.require_verified()
        if self.anonymous and self._doubts != self.link.doubts:
            self._expect_late()
        if self._doubtful:
            await self._get_back_in_step()
        return await self._attempt(request, parse, self.timeout_s if timeout_s is None else timeout_s)

    async def tell(self, request: bytes, *, pause_s: float) -> None:
        """Send `request`, which has no reply, and leave the device `pause_s` for it; only a question afterwards shows
        whether it was heard. Raises :class:`LinkDown`, or what getting back into step raises.
        """
        self.require_verified()
        if self.anonymous and self._doubts != self.link.doubts:
            self._expect_late()
        if self._doubtful:
            await self._get_back_in_step()
        await self.link.tell(request, pause_s=pause_s, where=self.where, addressed=self.addressed)

    def require_verified(self) -> None:
        """Raise :class:`LinkDown` unless the device is verified, or this very task is verifying it (A6)."""
        if not self.verified and _verifying.get() is not self:
            raise LinkDown(
                "not verified since the line was opened; nothing is sent before that",
                where=self.where,
                cause="the line was lost, or the device did not answer or is another model",
                action="see the link's failures; verification is tried again by itself",
            )

    async def _attempt(self, request: bytes, parse: Parser[T], timeout_s: float) -> T:
        try:
            reply = await self.link.exchange(
                request, parse, timeout_s=timeout_s, where=self.where, addressed=self.addressed
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
        return reply

    def doubt(self) -> None:
        """A reply may still be under way: get back in step before the next request."""
        self.link.doubts += 1
        self._expect_late()

    def _expect_late(self) -> None:
        self._doubts = self.link.doubts
        self._doubtful = True
        self._quiet_at_s = asyncio.get_running_loop().time() + self._late_s

    def distrust(self) -> None:
        """Take back verification: nothing passes until the supervisor has verified the device again."""
        self.verified = False

    def restarted(self) -> None:
        """The device says that it has just started: its settings are the factory's again."""
        if self.verified:
            self.distrust()
            self.link.wake()

    async def _get_back_in_step(self) -> None:
        if self._barrier is not None:
            self._doubtful = False  # set again by the attempt if it fails
            await self._attempt(self._barrier.request, self._barrier.parser(), self.timeout_s)
            return
        wait_s = self._quiet_at_s - asyncio.get_running_loop().time()
        if wait_s > 0:
            await asyncio.sleep(wait_s)  # the bus stays free for others meanwhile
        self._doubtful = False

    @contextmanager
    def verifying(self) -> Iterator[None]:
        """Let this task speak before verification; on success the device is verified, else it is not."""
        token = _verifying.set(self)
        opening = self.link.opened
        self.verified = False
        self._failures = 0
        try:
            yield
        finally:
            _verifying.reset(token)
        self.verified = self.link.is_open and opening == self.link.opened
