"""Parsers of text replies, and the exact reading of numbers: a number is accepted whole or not at all."""

from __future__ import annotations

import re

from drivers.errors import BadReply
from drivers.transport.capture import printable
from drivers.transport.link import Parser

LINE_MOST = 256
"""No reply line of any device here is longer; more without an end is noise."""

_NUMBER = re.compile(rb"[+-]?\d{1,12}(\.\d{1,9})?")


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
