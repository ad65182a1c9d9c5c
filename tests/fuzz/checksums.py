"""The checksums of the protocols that have one, written for the fuzzer alone: a third reading of the manuals.

A driver or a device that takes bytes for a frame, though no stretch of them is one by this reading, has taken a corrupted
one.
"""

from __future__ import annotations

import re
from collections.abc import Callable

Holds = Callable[[bytes], bool]
"""Whether some stretch of these bytes is a whole frame with a right checksum."""

EVERYBODY = 0
"""The broadcast address of Modbus."""
TRANSPARENT = 250
"""The address by which a Keller transmitter alone on its line answers."""


def _rest(byte: int) -> int:
    """What is left of the polynomial's long division after one byte."""
    for _ in range(8):
        byte = (byte >> 1) ^ 0xA001 if byte & 1 else byte >> 1
    return byte


_RESTS = [_rest(byte) for byte in range(256)]


def _frame_within(data: bytes, addresses: frozenset[int], *, swapped: bool = False) -> bool:
    """Whether a stretch of at least four bytes begins with one of `addresses` and ends with its CRC-16.

    The checksum of a frame together with its checksum, low byte first, is 0; `swapped` is high byte first.
    """
    for begin, first in enumerate(data):
        if first in addresses:
            crc, before = 0xFFFF, (-1, -1)
            for length, byte in enumerate(data[begin:], start=1):
                if swapped and length >= 4 and before[0] == data[begin + length - 2] << 8 | byte:
                    return True
                before = (before[1], crc := crc >> 8 ^ _RESTS[(crc ^ byte) & 0xFF])
                if not swapped and length >= 4 and crc == 0:
                    return True
    return False


def modbus(*addresses: int) -> Holds:
    """Modbus over serial line V1.02, 2.5.1.2: CRC-16, low byte first."""
    return lambda data: _frame_within(data, frozenset(addresses))


def keller(*addresses: int) -> Holds:
    """Keller bus: the same polynomial as Modbus, high byte first."""
    return lambda data: _frame_within(data, frozenset(addresses), swapped=True)


def keller_or_modbus(*addresses: int) -> Holds:
    """An X-line transmitter speaks both."""
    both = (keller(*addresses), modbus(*addresses))
    return lambda data: any(holds(data) for holds in both)


def shdlc(data: bytes) -> bool:
    """Sensirion SHDLC: between 7E, escaped by 7D, the sum of all is FF."""
    for part in data.split(b"\x7e"):
        frame, escaped = bytearray(), False
        for byte in part:
            if escaped:
                frame.append(byte ^ 0x20)
            elif byte != 0x7D:
                frame.append(byte)
            escaped = byte == 0x7D and not escaped
        if len(frame) >= 4 and sum(frame) & 0xFF == 0xFF:
            return True
    return False


def longer(data: bytes) -> bool:
    """Longer 0xE9: flag, then address, length, PDU and the XOR of these, E8 00 for E8 and E8 01 for E9."""
    for part in data.split(b"\xe9")[1:]:
        frame, escaped = bytearray(), False
        for byte in part:
            if escaped and byte > 1:
                break
            if escaped or byte != 0xE8:
                frame.append(0xE8 + byte if escaped else byte)
                escaped = False
            else:
                escaped = True
        if len(frame) >= 3 and len(frame) >= (size := frame[1] + 3):
            check = 0
            for byte in frame[:size]:
                check ^= byte
            if check == 0:
                return True
    return False


def cavro(data: bytes) -> bool:
    """Cavro OEM: from STX, which is followed by at least two bytes, to ETX, and then the XOR of all of them."""
    for begin, first in enumerate(data):
        check = 0
        for length, byte in enumerate(data[begin:] if first == 0x02 else b""):
            if length >= 4 and data[begin + length - 1] == 0x03 and check == byte:
                return True
            check ^= byte
    return False


def six(data: bytes) -> bool:
    """Jobst SIX: 04, 18 bytes more, the sum of these 19, and 16."""
    return any(
        data[at] == 0x04 and data[at + 20] == 0x16 and sum(data[at : at + 19]) & 0xFF == data[at + 19]
        for at in range(len(data) - 20)
    )


def host_interface(data: bytes) -> bool:
    """Cedex Bio HT: from SOH to the sequence counter, the sum modulo 1000 in three digits; XON and XOFF do not count."""
    data = data.translate(None, b"\x11\x13")
    begins = [at for at, byte in enumerate(data) if byte == 0x01]
    return any(
        sum(data[begin : match.start(1)]) % 1000 == int(match[1])
        for match in re.finditer(rb"\n[01]\r?\n(\d{3})\r?\n\x04", data)
        for begin in begins
        if begin < match.start()
    )


_MODBUS = (
    "eurotherm-3200",
    "hamilton-ph-arc",
    "hamilton-visiferm-do",
    "modbus-coil-relay",
    "modbus-generic",
    "vaisala-gmp25x",
)


def of_replies(model: str, address: str) -> Holds | None:
    """What a driver of `model` may take for an answer of the device at `address`; None without a checksum."""
    return cavro if model == "tecan-cavro" else _of(model, int(address) if address.isdigit() else 1)


def of_requests(model: str, address: str) -> Holds | None:
    """What a device of `model` at `address` may take for a request; None without a checksum.

    A transmitter on a Keller bus understands Modbus too (Keller, communication protocol 4.0, chapter 2), its driver does not.
    A Cavro pump understands its DT protocol too, which has no checksum.
    """
    model = "keller-x-line" if model == "keller-bus" else model
    return _of(model, int(address) if address.isdigit() else 1, EVERYBODY)


def _of(model: str, *addresses: int) -> Holds | None:
    if model in _MODBUS:
        return modbus(*addresses)
    return {
        "keller-x-line": keller_or_modbus(*addresses, TRANSPARENT),
        "keller-bus": keller(*addresses, TRANSPARENT),
        "sensirion-slf3x": shdlc,
        "longer-0xe9": longer,
        "jobst-six": six,
        "roche-cedex-bio-ht": host_interface,
    }.get(model)
