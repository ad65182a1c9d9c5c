"""Requests and replies of an Ismatec Reglo ICC, and its event messages (manual 14-036-E Rev. C §14–18)."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress

from drivers.errors import BadReply, Refused
from drivers.transport.conversation import Conversation, SyncQuery
from drivers.transport.link import Link
from drivers.transport.replies import bad_reply, take_line

TIMEOUT_S = 0.6
_EVENT = re.compile(rb"\^X([1-4])\|([AB123])$")
_MODEL_TEXT = re.compile(rb"[A-Z][A-Za-z /-]{2,30} \d{3,4} \d{3,4}$")


class RegloIccWire:
    """One pump's side of the link. A status is one character without an end, data is a line that ends with CR LF."""

    def __init__(
        self,
        link: Link,
        where: str,
        pump: bytes,
        *,
        legacy: bool,
        events: bool,
        on_event: Callable[[bytes, bytes], None],
    ) -> None:
        """Describe the pump.

        Args:
            link: The serial line.
            where: Name of the device, for errors.
            pump: Address of the pump.
            legacy: Address the whole pump as one.
            events: Events arrive without a request.
            on_event: Is called with the channel and the cause of each event.
        """
        self.where = where
        self.legacy = legacy
        self._pump = pump
        self.whole = pump if legacy else b"0"
        """Address of commands to the pump rather than to a channel."""
        self._on_event = on_event
        self.conversation = Conversation(
            link,
            where,
            timeout_s=TIMEOUT_S,
            barrier=SyncQuery(self.whole + b"#\r", lambda: self._model_text),
            unsolicited=self._take_unsolicited if events else None,
        )
        self.conversation.anonymous = True

    def channel_address(self, number: str) -> bytes:
        """Return the address of a channel's commands: its own number, or with legacy addressing the pump's."""
        return self._pump if self.legacy else number.encode()

    async def model_text(self) -> str:
        """Return what the pump says of itself, such as `REGLO ICC 0208 306`."""
        return await self.conversation.ask(self.whole + b"#\r", self._model_text)

    async def address_channels(self) -> None:
        """Select channel addressing (or whole-pump addressing), whatever was selected before.

        A pump that lost power for a moment silently forgets it; then a start meant for one channel would turn all
        of them. So this precedes each start.
        """
        await self.set(self._pump + (b"~0" if self.legacy else b"~1"))

    async def set(self, command: bytes) -> None:
        """Send a command that is answered by one character; raise :class:`Refused` unless it is `*`."""
        answer = await self.status_of(command)
        if answer != b"*":
            raise Refused(
                f"the pump answers {answer.decode()} to {command.decode()}",
                where=self.where,
                cause="it cannot do this in its present mode, or does not know the value",
                action="look at the pump's display; check tubing and flow in the rig file",
            )

    async def status_of(self, command: bytes) -> bytes:
        """Send a command that is answered by one of the characters `* # + -`."""
        return await self.conversation.ask(command + b"\r", self._one_character)

    async def get(self, command: bytes) -> bytes:
        """Send a query that is answered by a line, and return that line."""
        return await self.conversation.ask(command + b"\r", self._data_line)

    def _one_character(self, buffer: bytearray) -> bytes | None:
        if not self._skip_events(buffer):
            return None
        character = bytes(buffer[:1])
        if character not in (b"*", b"#", b"+", b"-"):
            raise bad_reply(bytes(buffer), self.where, "a status character (* # + -)")
        del buffer[:1]
        return character

    def _data_line(self, buffer: bytearray) -> bytes | None:
        if not self._skip_events(buffer):
            return None
        if buffer[:1] == b"#":
            del buffer[:1]
            raise Refused(
                "the pump does not know this query",
                where=self.where,
                cause="an older firmware, or channel addressing is off",
                action="update the pump's firmware (protocol 2 or later is needed)",
            )
        return take_line(buffer, b"\r\n", self.where)

    def _model_text(self, buffer: bytearray) -> str | None:
        """Return the reply to `#`, such as `REGLO ICC 0208 306`; skip older replies before it."""
        while (line := take_line(buffer, b"\r\n", self.where)) is not None:
            if match := _MODEL_TEXT.search(line):
                return match[0].decode("ascii")
            self._event(line)
        return None

    def _skip_events(self, buffer: bytearray) -> bool:
        """Process the events before the reply; return whether anything else has arrived."""
        while buffer[:1] == b"^":
            line = take_line(buffer, b"\r\n", self.where)
            if line is None:
                return False
            self._event(line)
        return bool(buffer)

    def _take_unsolicited(self, buffer: bytearray) -> None:
        """Process events that arrive without a request."""
        at = buffer.find(b"^")
        del buffer[: at if at >= 0 else len(buffer)]
        with suppress(BadReply):
            self._skip_events(buffer)

    def _event(self, line: bytes) -> None:
        if match := _EVENT.search(line):
            self._on_event(match[1], match[2])
