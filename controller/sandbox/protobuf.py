"""Read the wire format of Protocol Buffers, without a schema and without trust.

Source: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class MalformedMessage(ValueError):
    """The bytes are no message of Protocol Buffers."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field as it stands in the message: `value` is the number of a varint, `data` the bytes of any other kind."""

    number: int
    kind: int
    value: int
    data: memoryview


def fields(message: memoryview) -> Iterator[Field]:
    """Yield the fields of a message in their order.

    Raises:
        MalformedMessage: A field is cut off, or of a kind that Protocol Buffers 3 does not have.
    """
    at = 0
    nothing = message[:0]
    while at < len(message):
        tag, at = _varint(message, at)
        number, kind = tag >> 3, tag & 7
        if not number:
            raise MalformedMessage("a field has the number 0")
        if kind == VARINT:
            value, at = _varint(message, at)
            yield Field(number, kind, value, nothing)
            continue
        if kind == BYTES:
            length, at = _varint(message, at)
        elif kind in (FIXED32, FIXED64):
            length = 4 if kind == FIXED32 else 8
        else:
            raise MalformedMessage(f"field {number} is of the unknown kind {kind}")
        if length > len(message) - at:
            raise MalformedMessage(f"field {number} is cut off")
        yield Field(number, kind, 0, message[at : at + length])
        at += length


def integers(field: Field) -> list[int]:
    """Return the numbers of a repeated integer field, packed or not, as signed 64-bit integers."""
    if field.kind == VARINT:
        return [_signed(field.value)]
    if field.kind != BYTES:
        raise MalformedMessage(f"field {field.number} is no list of integers")
    numbers, at = [], 0
    while at < len(field.data):
        value, at = _varint(field.data, at)
        numbers.append(_signed(value))
    return numbers


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            raise MalformedMessage("a number is cut off")
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & ((1 << 64) - 1), at
    raise MalformedMessage("a number has more than ten bytes")
