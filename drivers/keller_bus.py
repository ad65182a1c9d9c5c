"""The Keller bus, a second protocol of the same transmitters on the same wires (“Communication protocol X-Line”).

Function 48 must come first after power-up and returns class, group and firmware; 69 returns the serial number and
73 one measured value. The checksum is that of Modbus with its bytes swapped.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from pymodbus.framer import FramerRTU

from drivers.errors import DeviceError
from drivers.settings import NumberSetting
from drivers.transport.link import Parser

INITIALISE, SERIAL, READ_FLOAT = 48, 69, 73
NOT_INITIALISED = 32
"""Error of every function but 48 until 48 has been called once after power-up."""
X_LINE = (5, 20)
"""Class and group of the X-Line."""

_REPLY_BYTES = 10

ZERO = NumberSetting(
    key="zero_kpa", meaning="subtracted from every pressure", low=-200.0, high=200.0, default=0.0, unit="kPa"
)


@dataclass(frozen=True, slots=True)
class KellerIdentity:
    """Answer of function 48: device class and group, and the firmware's year and week."""

    device_class: int
    group: int
    year: int
    week: int

    @property
    def firmware(self) -> str:
        """Firmware in Keller's notation: "5.20-12.40"."""
        return f"{self.device_class}.{self.group}-{self.year}.{self.week}"


def with_checksum(frame: bytes) -> bytes:
    """Return `frame` followed by its checksum, high byte first."""
    return frame + FramerRTU.compute_CRC(frame).to_bytes(2, "little")


def initialise_frame(unit: int) -> bytes:
    """Return the request of function 48."""
    return with_checksum(bytes((unit, INITIALISE)))


def identity_parser(unit: int) -> Parser[KellerIdentity]:
    """Return a parser of the answer to function 48; it skips everything else."""

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
"""Returns the error for (function, code): 1 unknown function, 2 bad parameter, 3 bad data, 32 not initialised."""


@dataclass(frozen=True, slots=True)
class KellerValue:
    """Answer of function 73: a value (bar or °C; NaN and infinities are channel errors) and a status byte."""

    value: float
    status: int


def serial_frame(unit: int) -> bytes:
    """Return the request of function 69."""
    return with_checksum(bytes((unit, SERIAL)))


def float_frame(unit: int, channel: int) -> bytes:
    """Return the request of function 73 for `channel`: 0 calculated, 1 and 2 pressures, 3 temperature, 4 that of
    P1.
    """
    return with_checksum(bytes((unit, READ_FLOAT, channel)))


def serial_parser(unit: int, refusal: Refusal) -> Parser[int]:
    """Return a parser of the answer to function 69 that skips all else; a device error raises `refusal`."""
    data = _data_parser(unit, SERIAL, 4, refusal)

    def parse(buffer: bytearray) -> int | None:
        found = data(buffer)
        return None if found is None else int.from_bytes(found, "big")

    return parse


def float_parser(unit: int, refusal: Refusal) -> Parser[KellerValue]:
    """Return a parser of the answer to function 73 that skips all else; a device error raises `refusal`."""
    data = _data_parser(unit, READ_FLOAT, 5, refusal)

    def parse(buffer: bytearray) -> KellerValue | None:
        found = data(buffer)
        return None if found is None else KellerValue(*struct.unpack(">fB", found))

    return parse


def _data_parser(unit: int, function: int, size: int, refusal: Refusal) -> Parser[bytes]:
    """Return a parser of `size` bytes of data in answer to `function`."""
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
