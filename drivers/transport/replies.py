"""Parsers of text replies. A number is accepted as a whole or not at all."""

from __future__ import annotations

import re

from drivers.errors import BadReply
from drivers.transport.capture import printable
from drivers.transport.link import Parser

MAX_LINE_BYTES = 256
"""Maximum length of a reply line of any device here; longer input without an end is noise."""

_NUMBER = re.compile(rb"[+-]?\d{1,12}(\.\d{1,9})?")


class Form:
    """Learns from the device the format that one kind of reply always has, such as its number of decimals.

    A device prints a value with a fixed number of digits, which depends on model, firmware and range. A lost or
    doubled character changes that number: such a reply is refused. A real change of format is accepted after it has
    occurred `CHANGED` times in a row.
    """

    CHANGED = 3

    def __init__(self) -> None:
        self._known: tuple[int, ...] | None = None
        self._other: tuple[int, ...] | None = None
        self._times = 0

    def check(self, form: tuple[int, ...], line: bytes, where: str) -> None:
        """Compare the format of one reply with the known one.

        Args:
            form: The format, such as the number of decimals of each of its values.
            line: The reply, for the error.
            where: Name of the device, for the error.

        Raises:
            BadReply: They differ, and have not done so often enough to be a real change.
        """
        if self._known is None or form == self._known:
            self._known, self._times = form, 0
            return
        self._times = self._times + 1 if form == self._other else 1
        self._other = form
        if self._times < self.CHANGED:
            raise bad_reply(line, where, "a reply of its usual form: a character was lost or doubled")
        self._known, self._times = form, 0


def decimals(text: bytes) -> int:
    """Count the digits after the decimal point.

    Args:
        text: A decimal number.

    Returns:
        Their number; 0 without a point.
    """
    return len(text.partition(b".")[2])


def take_line(buffer: bytearray, end: bytes, where: str) -> bytes | None:
    """Take the first line out of the received bytes.

    Args:
        buffer: What was received; the line and its end are removed from it.
        end: Bytes that end a line.
        where: Name of the device, for the error.

    Returns:
        The line without its end; None while it is incomplete.

    Raises:
        BadReply: More bytes than any line has came without an end.
    """
    at = buffer.find(end)
    if at < 0:
        if len(buffer) > MAX_LINE_BYTES:
            raise bad_reply(bytes(buffer), where, "a line that ends")
        return None
    line = bytes(buffer[:at])
    del buffer[: at + len(end)]
    return line


def line_matching(pattern: re.Pattern[bytes], end: bytes, where: str) -> Parser[re.Match[bytes]]:
    """Return a parser that skips lines until one matches completely: stale or foreign lines are never accepted.

    Args:
        pattern: Pattern of the whole line, without its end.
        end: Bytes that end a line.
        where: Name of the device, for the error.

    Returns:
        The parser; it returns the match.
    """

    def parse(buffer: bytearray) -> re.Match[bytes] | None:
        while (line := take_line(buffer, end, where)) is not None:
            if match := pattern.fullmatch(line):
                return match
        return None

    return parse


def number(text: bytes, where: str) -> float:
    """Read a decimal number.

    Args:
        text: The number, with nothing around it.
        where: Name of the device, for the error.

    Returns:
        The number.

    Raises:
        BadReply: The text is anything else (nan, inf, 1e3, blanks, garbage).
    """
    if not _NUMBER.fullmatch(text):
        raise bad_reply(text, where, "a decimal number")
    return float(text)


def bad_reply(data: bytes, where: str, wanted: str) -> BadReply:
    """Return the error for bytes that are not what was asked for.

    Args:
        data: The bytes; the message has the first 60.
        where: Name of the device.
        wanted: What was expected, as the rest of a sentence: “a decimal number”.

    Returns:
        The error to raise.
    """
    return BadReply(
        f"“{printable(data[:60])}” is not {wanted}",
        where=where,
        cause="noise on the line, a late reply, or a firmware that speaks differently",
        action="nothing was taken from it and it is asked again; if it stays, look at the link's capture",
    )
