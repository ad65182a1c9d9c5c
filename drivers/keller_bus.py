"""The Keller bus, a second language of the same transmitters on the same wires (“Communication protocol
X-Line”).

Function 48 opens the conversation after power-up and tells class, group and firmware; 69 tells the serial number and 73
one measured value. The checksum is that of Modbus with its bytes the other way round.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from pymodbus.framer import FramerRTU

from drivers.errors import DeviceError
from drivers.transport.link import Parser

INITIALISE, SERIAL, READ_FLOAT = 48, 69, 73
NOT_INITIALISED = 32
"""The error that every function but 48 gives until that has been called once after power-up."""
X_LINE = (5, 20)
"""Class and group of the X-Line."""

_REPLY_BYTES = 10


@dataclass(frozen=True, slots=True)
class KellerIdentity:
    """What function 48 answers: device class and group, and the firmware's year and week."""

    device_class: int
    group: int
    year: int
    week: int

    @property
    def firmware(self) -> str:
        """As Keller writes it: "5.20-12.40"."""
        return f"{self.device_class}.{self.group}-{self.year}.{self.week}"


def with_checksum(frame: bytes) -> bytes:
    """`frame` followed by its checksum, high byte first."""
    return frame + FramerRTU.compute_CRC(frame).to_bytes(2, "little")


def initialise_frame(unit: int) -> bytes:
    """The request of function 48."""
    return with_checksum(bytes((unit, INITIALISE)))


def identity_parser(unit: int) -> Parser[KellerIdentity]:
    """A parser of the answer to function 48; everything else is skipped."""

    def parse(buffer: bytearray) -> KellerIdentity | None:
        while len(buffer) >= _REPLY_BYTES:
            frame = bytes(buffer[:_REPLY_BYTES])
            if frame[:2] == bytes((unit, INITIALISE)) and with_checksum(frame[:-2]) == frame:
                del buffer[:_REPLY_BYTES]
                return KellerIdentity(*frame[2:6])
            del buffer[0]
        return None

    return parse


Refusal = Callable[[int, int], DeviceError]
"""The error for (function, code): 1 unknown function, 2 bad parameter, 3 bad data, 32 not initialised."""


@dataclass(frozen=True, slots=True)
class KellerValue:
    """What function 73 answers: a value (bar or °C; NaN and infinities are errors of the channel) and a status byte."""

    value: float
    status: int


def serial_frame(unit: int) -> bytes:
    """The request of function 69."""
    return with_checksum(bytes((unit, SERIAL)))


def float_frame(unit: int, channel: int) -> bytes:
    """The request of function 73 for `channel` (0 calculated, 1 and 2 pressures, 3 temperature, 4 that of P1)."""
    return with_checksum(bytes((unit, READ_FLOAT, channel)))


def serial_parser(unit: int, refusal: Refusal) -> Parser[int]:
    """A parser of the answer to function 69 that skips all else; an error of the transmitter raises `refusal`."""
    data = _data_parser(unit, SERIAL, 4, refusal)

    def parse(buffer: bytearray) -> int | None:
        found = data(buffer)
        return None if found is None else int.from_bytes(found, "big")

    return parse


def float_parser(unit: int, refusal: Refusal) -> Parser[KellerValue]:
    """A parser of the answer to function 73 that skips all else; an error of the transmitter raises `refusal`."""
    data = _data_parser(unit, READ_FLOAT, 5, refusal)

    def parse(buffer: bytearray) -> KellerValue | None:
        found = data(buffer)
        return None if found is None else KellerValue(*struct.unpack(">fB", found))

    return parse


def _data_parser(unit: int, function: int, size: int, refusal: Refusal) -> Parser[bytes]:
    """A parser of `size` bytes of data in answer to `function`."""
    good, bad = bytes((unit, function)), bytes((unit, function | 0x80))

    def parse(buffer: bytearray) -> bytes | None:
        while len(buffer) >= 5:
            if buffer[:2] == good:
                if len(buffer) < size + 4:
                    return None
                frame = bytes(buffer[: size + 4])
                if with_checksum(frame[:-2]) == frame:
                    del buffer[: size + 4]
                    return frame[2:-2]
            elif buffer[:2] == bad and with_checksum(bytes(buffer[:3])) == buffer[:5]:
                code = buffer[2]
                del buffer[:5]
                raise refusal(function, code)
            del buffer[0]
        return None

    return parse
