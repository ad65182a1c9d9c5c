"""Parsers of text replies, and the exact reading of numbers: a number is accepted whole or not at all."""

from __future__ import annotations

import re

from drivers.errors import BadReply
from drivers.transport.capture import printable
from drivers.transport.link import Parser

LINE_MOST = 256
"""No reply line of any device here is longer; more without an end is noise."""

_NUMBER = re.compile(rb"[+-]?\d{1,12}(\.\d{1,9})?")


class Form:
    """The form that one kind of reply always has, such as its number of decimals, learned from the device itself.

    A device prints a value with a fixed number of digits, which its model, firmware and range decide. A character that is
    lost or doubled on the way changes that number: such a reply is refused. Where the device has really changed its form,
    the new one holds after it has come `CHANGED` times in a row.
    """

    CHANGED = 3

    def __init__(self) -> None:
        self._known: tuple[int, ...] | None = None
        self._other: tuple[int, ...] | None = None
        self._times = 0

    def check(self, form: tuple[int, ...], line: bytes, where: str) -> None:
        """Compare the form of one reply with the known one; raise :class:`BadReply` when it is another."""
        if self._known is None or form == self._known:
            self._known, self._times = form, 0
            return
        self._times = self._times + 1 if form == self._other else 1
        self._other = form
        if self._times < self.CHANGED:
            raise bad_reply(line, where, "a reply of its usual form: a character was lost or doubled")
        self._known, self._times = form, 0


def decimals(text: bytes) -> int:
    """Return how many digits follow the point of a number as it was printed."""
    return len(text.partition(b".")[2])


def take_line(buffer: bytearray, end: bytes, where: str) -> bytes | None:
    """Cut the first line off `buffer` and return it without `end`; None while it is incomplete."""
    at = buffer.find(end)
    if at < 0:
        if len(buffer) > LINE_MOST:
            raise bad_reply(bytes(buffer), where, "a line that ends")
        return None
    line = bytes(buffer[:at])
    del buffer[: at + len(end)]
    return line


def line_matching(pattern: re.Pattern[bytes], end: bytes, where: str) -> Parser[re.Match[bytes]]:
    """A parser that skips lines until one matches `pattern` as a whole: stale or foreign lines are never
    taken.
    """

    def parse(buffer: bytearray) -> re.Match[bytes] | None:
        while (line := take_line(buffer, end, where)) is not None:
            if match := pattern.fullmatch(line):
                return match
        return None

    return parse


def number(text: bytes, where: str) -> float:
    """The decimal number that `text` is; anything else (nan, inf, 1e3, blanks, junk) is a
    :class:`BadReply`.
    """
    if not _NUMBER.fullmatch(text):
        raise bad_reply(text, where, "a decimal number")
    return float(text)


def bad_reply(data: bytes, where: str, wanted: str) -> BadReply:
    """The error for bytes that are not `wanted`."""
    return BadReply(
        f"“{printable(data[:60])}” is not {wanted}",
        where=where,
        cause="noise on the line, a late reply, or a firmware that speaks differently",
        action="nothing was taken from it and it is asked again; if it stays, look at the link's capture",
    )
