"""The Keller bus, a second language of the same transmitters on the same wires (“Communication protocol
X-Line”).

Only function 48 is used: it opens the conversation after power-up and tells class, group and firmware. The
checksum is that of Modbus with its bytes the other way round.
"""

from __future__ import annotations

from dataclasses import dataclass

from pymodbus.framer import FramerRTU

from drivers.transport.link import Parser

INITIALISE = 48
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
