"""A supervised line to one device or a bus of devices: opened, watched, reopened, one request at a time.

The link does not know the protocol. A driver gives it the bytes of a request and a parser of the reply. The link
keeps the minimum gap, discards what arrived before the request, waits in loop time, and never crashes because of
received bytes. :mod:`drivers.transport.attached` keeps the devices of the link verified,
:mod:`drivers.transport.conversation` decides who may send.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar

from drivers.errors import BadReply, DeviceError, LinkDown, NoReply, WouldCommand
from drivers.transport import claims
from drivers.transport.attached import BACKOFF_FIRST_S, BACKOFF_MAX_S, Attached, Speaker, Verify
from drivers.transport.capture import Capture, printable
from drivers.transport.opener import Opener, Streams, open_real
from drivers.transport.url import LineSettings, LinkUrl

T = TypeVar("T")
Parser: TypeAlias = Callable[[bytearray], T | None]
"""Called with all bytes since the request whenever more arrive. Deletes consumed bytes from the front; returns the
reply, or None while it is incomplete; raises a DeviceError for an unacceptable answer.
"""

OPEN_TIMEOUT_S = 5.0
BABBLE_GAPS = 10
"""Minimum time that a request waits for silence, in minimum gaps; then it is sent regardless."""
ABANDONED_S = 0.2
"""Time after a cancelled request in which its reply may still arrive (s); nothing may be sent into it on a two-wire
bus.
"""
MAX_STRAY_BYTES = 4096
MAX_REPLY_BYTES = 8192
"""Maximum length of a reply; longer input without an end is dropped."""
SILENT_EXCHANGES = 6
"""Consecutive exchanges without one byte after which the line itself is reopened."""


class Overtaken(Exception):
    """The precondition of a request changed while it waited for the line; nothing was sent."""


class LinkState(StrEnum):
    """Names the state of a link; `degraded` is an open line with a device that is not (yet) verified."""

    CLOSED = "closed"
    CONNECTING = "connecting"
    DEGRADED = "degraded"
    VERIFIED = "verified"


class _Pending:
    """Holds the request that has the line: it waits for the gap, then for its reply."""

    __slots__ = ("addressed", "by_s", "parse", "reply", "request", "sent", "timeout_s", "timer", "where")

    def __init__(
        self,
        request: bytes,
        parse: Parser[Any],
        timeout_s: float,
        where: str,
        reply: asyncio.Future[Any],
        addressed: bool,
        by_s: float,
    ) -> None:
        self.request = request
        self.parse = parse
        self.timeout_s = timeout_s
        self.where = where
        self.reply = reply
        self.addressed = addressed
        self.by_s = by_s
        """Loop time at which it is sent, even without silence."""
        self.sent = False
        self.timer: asyncio.TimerHandle | None = None


def _unanswered(buffer: bytearray) -> None:
    """Drop everything received: the parser for a request that has no reply."""
    buffer.clear()


class Link:
    """Opens one line, supervises it, and sends one request at a time. `transactions` counts requests."""

    def __init__(
        self,
        url: LinkUrl,
        opener: Opener = open_real,
        *,
        line: LineSettings | None = None,
        capture: Capture | None = None,
    ) -> None:
        self.url = url
        self.line = url.line(LineSettings()) if line is None else line
        self.capture = Capture() if capture is None else capture
        self.transactions = 0
        self.opened = 0
        self.stray_bytes = 0
        self.sent_at_s = 0.0
        """Loop time of the last request (s): a reply that arrives sooner than the device can answer belongs to an
        older one.
        """
        self.unsolicited: Callable[[bytearray], None] | None = None
        """Receives bytes that arrived without a request; deletes the complete lines among them."""
        self._where = f"link {url}"
        self._opener = opener
        self._attached = Attached()
        self.doubts = 0
        """Number of times that any driver on this line had to expect a late reply."""
        self._lock = asyncio.Lock()
        self._supervisor: asyncio.Task[None] | None = None
        self._first_round = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._writer: asyncio.StreamWriter | None = None
        self.only_asks: re.Pattern[bytes] | None = None
        """If set, only requests of this pattern are sent: the driver's queries
        (:attr:`~drivers.device.Device.queries`).
        """
        self._claims: tuple[claims.Claim, ...] = ()
        """Claims of :func:`open_real`, kept while the line is reopened, until :meth:`close`."""
        self._buffer = bytearray()
        self._received_bytes = 0
        self._pending: _Pending | None = None
        self._echo = b""
        self._ready_at_s = 0.0
        self.received_at_s = float("-inf")
        """Loop time of the last received bytes (s)."""
        self._last_device = ""
        """Device of the last request."""
        self._silent = 0

    @property
    def state(self) -> LinkState:
        """Closed, connecting, degraded or verified."""
        if self._supervisor is None:
            return LinkState.CLOSED
        if self._writer is None:
            return LinkState.CONNECTING
        return LinkState.VERIFIED if self._attached.verified else LinkState.DEGRADED

    @property
    def is_open(self) -> bool:
        """Whether bytes can be sent now."""
        return self._writer is not None

    @property
    def failures(self) -> Mapping[str, DeviceError]:
        """By device, why it is not verified."""
        return self._attached.failures

    def attach(self, conversation: Speaker, verify: Verify) -> None:
        """Keep a device of this line verified.

        Args:
            conversation: The device's side of the line.
            verify: Called after every (re)opening, and again when `conversation` loses its verification.
        """
        self._attached.add(conversation, verify)

    def wake(self) -> None:
        """Tell the supervisor that a conversation must be verified again."""
        self._attached.wake()

    async def start(self) -> dict[str, DeviceError]:
        """Open and verify once, keep supervising in the background; return the failures by device name."""
        if self._supervisor is None:
            self._loop = asyncio.get_running_loop()
            self._first_round.clear()
            self._supervisor = self._loop.create_task(self._supervise(), name=f"supervisor of {self._where}")
        await self._first_round.wait()
        return dict(self.failures)

    async def close(self) -> None:
        """Stop supervising and close the line. Close the drivers first: they turn their outputs off (A3)."""
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            supervisor.cancel()
            with suppress(asyncio.CancelledError):
                await supervisor
        self._claims = ()
        self._first_round.set()
        self.capture.close()

    async def exchange(
        self,
        request: bytes,
        parse: Parser[T],
        *,
        timeout_s: float,
        where: str,
        addressed: bool = False,
        may_go: Callable[[], bool] | None = None,
    ) -> T:
        """Send `request` and return the parsed reply; one exchange at a time on the whole bus.

        Everything received before the request is discarded, so a late reply is never taken for this one. On a line
        that never falls silent the request is sent after it has waited as long as for a reply: on two wires it is
        lost, on four it is received, and it may be a stop.

        Args:
            request: Bytes to send.
            parse: Parser of the reply.
            timeout_s: Maximum wait for the reply, in loop time (s).
            where: Name of the device, for messages.
            addressed: `parse` identifies the device by the reply itself. After another device's reply such a
                request waits only for the bus gap, not for a possible repetition.
            may_go: Called when the request gets the line, since other exchanges took place while it waited.

        Returns:
            What the parser returns.

        Raises:
            Overtaken: `may_go` returned False.
            LinkDown: The line is not open.
            NoReply: No byte arrived within `timeout_s`.
            BadReply: No valid reply arrived within `timeout_s`.
        """
        self._require_query(request, where)
        await self._lock.acquire()
        try:
            loop = self._loop
            if self._writer is None or loop is None:
                raise self._down()
            if may_go is not None and not may_go():
                raise Overtaken
            by_s = max(self._ready_at_s, loop.time()) + max(timeout_s, BABBLE_GAPS * self.line.gap_s)
            self._pending = pending = _Pending(request, parse, timeout_s, where, loop.create_future(), addressed, by_s)
            try:
                self._send_when_quiet(pending)
                return await pending.reply  # type: ignore[no-any-return]
            except asyncio.CancelledError:
                if pending.sent:
                    self._ready_at_s = max(self._ready_at_s, loop.time() + ABANDONED_S)
                raise
            finally:
                self._pending = None
                if pending.timer is not None:
                    pending.timer.cancel()
        finally:
            self._lock.release()

    async def tell(
        self,
        request: bytes,
        *,
        pause_s: float,
        where: str,
        addressed: bool = False,
        may_go: Callable[[], bool] | None = None,
    ) -> None:
        """Send a request that its device does not answer. What is received meanwhile is dropped.

        Args:
            request: Bytes to send.
            pause_s: Time for which the line is reserved afterwards (s).
            where: Name of the device, for messages.
            addressed: As for :meth:`exchange`.
            may_go: As for :meth:`exchange`.

        Raises:
            LinkDown: The line is not open.
            Overtaken: See :meth:`exchange`.
        """
        await self.exchange(request, _unanswered, timeout_s=pause_s, where=where, addressed=addressed, may_go=may_go)

    @property
    def read_only(self) -> bool:
        """Whether this link only sends queries: a driver then sets nothing when it verifies its device."""
        return self.only_asks is not None

    def _require_query(self, request: bytes, where: str) -> None:
        if self.only_asks is not None and not self.only_asks.fullmatch(request):
            raise WouldCommand(
                f"“{printable(request)}” is no query, and this link only asks",
                where=where,
                cause="the device is not set as its driver needs it, or a command was requested",
                action="leave out --read-only, with no controller at work on the device",
            )

    def _send_when_quiet(self, pending: _Pending) -> None:
        """Send now, or as soon as nothing has been received for the minimum gap."""
        loop, writer = self._loop, self._writer
        if loop is None or writer is None or pending.reply.done():
            return
        now_s = loop.time()
        line = self.line
        gap_s = line.turn_s if pending.addressed and pending.where != self._last_device else line.gap_s
        ready_at_s = max(self._ready_at_s, min(self.received_at_s + gap_s, pending.by_s))
        if ready_at_s - now_s > 1e-9:
            pending.timer = loop.call_at(ready_at_s, self._send_when_quiet, pending)
            return
        self._last_device = pending.where
        if self._buffer:
            self._discard()
        self.transactions += 1
        self.sent_at_s = now_s
        self.capture.add(now_s, ">", pending.request)
        self._received_bytes = 0
        self._echo = pending.request if self.line.echo else b""
        pending.sent = True
        try:
            writer.write(pending.request)
        except Exception as error:  # backends raise their own types; each of them means that the line is lost
            self._lost(f"cannot be written to: {_text(error)}")
        # The wait begins when the request has left: on a busy machine this process may stand before that.
        pending.timer = loop.call_later(pending.timeout_s, self._expire, pending)

    # --- reception ----------------------------------------------------------------------------------------

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        """Receive bytes until the line is lost."""
        # Bytes are handled in the call that brings them: through the reader's buffer each reply would cost a future
        # and a task switch, a tenth of the whole stack's time. The loop below only sees the end.
        reader.feed_data = self._received  # type: ignore[method-assign, assignment]
        with suppress(Exception):  # backends raise their own types; each of them means that the line is lost
            while chunk := await reader.read(4096):
                self._received(chunk)
        self._lost()

    def _received(self, chunk: bytes | bytearray | memoryview) -> None:
        assert self._loop is not None  # noqa: S101  (set before anything can listen)
        now_s = self._loop.time()
        self.capture.add(now_s, "<", bytes(chunk))
        self.received_at_s = now_s
        self._silent = 0
        self._received_bytes += len(chunk)
        buffer = self._buffer
        buffer += chunk
        pending = self._pending
        if pending is None or not pending.sent or pending.reply.done():
            self._take_unsolicited()
            return
        if self._echo and not self._own_echo_gone(buffer):
            return
        self._parse_reply(pending, buffer)

    def _parse_reply(self, pending: _Pending, buffer: bytearray) -> None:
        """Complete the pending request if the buffer holds its reply, or bytes that are an error."""
        try:
            reply = pending.parse(buffer)
        except DeviceError as error:
            pending.reply.set_exception(error)
        except Exception as error:  # a parser error is caused by received bytes: it must not end the link
            pending.reply.set_exception(
                BadReply(
                    f"“{printable(bytes(buffer[:40]))}” made the parser fail ({error!r})",
                    where=pending.where,
                    cause="noise on the line, or a firmware that speaks differently",
                    action="look at the capture of this link and report the frame",
                )
            )
        else:
            if reply is not None:
                pending.reply.set_result(reply)
            elif len(buffer) > MAX_REPLY_BYTES:
                pending.reply.set_exception(self._endless(pending, buffer))

    def _take_unsolicited(self) -> None:
        """Give the driver bytes that no request is waiting for; discard what it cannot use."""
        if self.unsolicited is not None:
            self.unsolicited(self._buffer)
        if self.unsolicited is None or len(self._buffer) > MAX_STRAY_BYTES:
            self._discard()

    def _endless(self, pending: _Pending, buffer: bytearray) -> BadReply:
        """Drop a reply that does not end, and return the error."""
        start, length = printable(bytes(buffer[:40])), len(buffer)
        buffer.clear()
        return BadReply(
            f"“{start}” and so on, {length} bytes, is no end of a reply",
            where=pending.where,
            cause="a device or a gateway that babbles, or a wrong baud rate",
            action=f"check the line settings ({self.line.text}) and what else is on the line",
        )

    def _own_echo_gone(self, buffer: bytearray) -> bool:
        if len(buffer) < len(self._echo):
            return False
        if buffer.startswith(self._echo):
            del buffer[: len(self._echo)]
        self._echo = b""
        return bool(buffer)

    def _discard(self) -> None:
        """Discard bytes that no request is waiting for, after the driver has seen unsolicited lines among them."""
        if self.unsolicited is not None:
            self.unsolicited(self._buffer)
        self.stray_bytes += len(self._buffer)
        self._buffer.clear()

    def _expire(self, pending: _Pending) -> None:
        if pending.reply.done():
            return
        if pending.parse is _unanswered:
            pending.reply.set_result(None)
            return
        if self._received_bytes:
            pending.reply.set_exception(
                BadReply(
                    f"{self._received_bytes} bytes came within {pending.timeout_s:g} s, but no whole valid reply",
                    where=pending.where,
                    cause="noise, a wrong baud rate or parity, or two devices with one address",
                    action=f"check the line settings ({self.line.text}), the address and the cable",
                )
            )
            return
        self._silent += 1
        pending.reply.set_exception(
            NoReply(
                f"no reply within {pending.timeout_s:g} s",
                where=pending.where,
                cause="the device is off, unplugged, at another address or at another baud rate",
                action=f"check power, cable, address and line settings ({self.line.text})",
            )
        )
        if self._silent >= max(SILENT_EXCHANGES, 2 * len(self._attached)) and self._writer is not None:
            self._silent = 0
            self._writer.close()  # a half-open connection looks like this; the supervisor reopens it
            self._lost()

    # --- supervision --------------------------------------------------------------------------------------

    async def _supervise(self) -> None:
        delay_s = BACKOFF_FIRST_S
        while True:
            try:
                async with asyncio.timeout(OPEN_TIMEOUT_S):
                    streams = await self._opener(self.url, self.line)
            except Exception as error:  # backends raise their own types; each of them means: not open, try later
                self._note_unopened(error)
            else:
                if await self._serve(streams):
                    delay_s = BACKOFF_FIRST_S
            self._first_round.set()
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, BACKOFF_MAX_S)

    async def _serve(self, streams: Streams) -> bool:
        """Verify and watch one opening of the line until it is lost; return whether any device was verified."""
        assert self._loop is not None  # noqa: S101  (set by start)
        reader, writer = streams
        self._attached.distrust()
        self._claims = claims.taken_from(writer)
        self._writer = writer
        self._buffer.clear()
        self._ready_at_s = self._loop.time()
        self._silent = 0
        self.opened += 1
        listener = self._loop.create_task(self._listen(reader), name=f"listener of {self._where}")
        try:
            return await self._attached.keep_verified(lambda: self.is_open, self._first_round.set)
        finally:
            self._lost()
            listener.cancel()
            with suppress(asyncio.CancelledError):
                await listener
            writer.close()
            with suppress(Exception):  # the line is closed either way
                async with asyncio.timeout(1.0):
                    await writer.wait_closed()

    def _lost(self, what: str = "the line was lost") -> None:
        """Mark the line as lost: end the running request, withdraw all verification, wake the supervisor."""
        if self._writer is None:
            return
        self._writer = None
        if self._pending is not None and not self._pending.reply.done():
            self._pending.reply.set_exception(self._down(what))
        self._attached.lost(self._down(what))

    def _note_unopened(self, error: Exception) -> None:
        down = error if isinstance(error, LinkDown) else self._down(f"cannot be opened: {_text(error)}")
        self._attached.unreached(down)

    def _down(self, what: str = "the line is not open") -> LinkDown:
        return LinkDown(
            what,
            where=self._where,
            cause="unplugged, switched off, wrong path or address, or held by another program",
            action="check the cable and the link in the rig file; it is tried again by itself",
        )


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__
