"""Wire format of Tecan Cavro pumps (XCalibur manual 733085-B, sections 3.1, 3.2 and 3.6).

OEM protocol: STX, address, sequence byte, data, ETX, XOR of all bytes before it. DT protocol: `/`, address, data, CR; no
checksum. The answer goes to address `0` and begins with a status byte: bit 5 is set when the pump is ready, bits 0 to 3
are the error code. An answer does not name the pump that sends it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import reduce
from operator import xor

from drivers.errors import DeviceError, DeviceFault, Refused
from drivers.transport.conversation import Conversation
from drivers.transport.link import Parser

STX, ETX = 0x02, 0x03
MASTER = 0x30
"""Address of the host; pump n has the address byte 30h + n."""
SEQUENCE = b"1"
"""Sequence 1, not repeated: the manual permits a fixed value. A lost answer is never repeated here."""
MAX_ANSWER_BYTES = 80
_READY = 0x20

NOTHING = re.compile(rb"")
NUMBER = re.compile(rb"\d{1,8}")
VALVE = re.compile(rb"[iobe]|\d{1,2}")
TEXT = re.compile(rb"[ -~]{2,40}")

_DT_ANSWER = re.compile(rb"/0([@-O`-o])([ -~]{0,40})\x03\r\n")

MISTAKES = {
    2: "an invalid command",
    3: "an invalid operand",
    4: "an invalid command sequence",
    11: "a plunger move that the position of the valve forbids",
    15: "a command overflow: it had not finished the one before",
}
"""Errors after which the pump goes on as before."""
LOST = {
    1: ("its initialisation failed", "a blockage, or a loose syringe"),
    6: ("its memory failed (EEPROM)", "a defect of the pump"),
    7: ("its plunger is not initialised", "its power failed, or it was never initialised"),
    9: ("its plunger was overloaded", "a blocked line, a closed clamp, or a flow too fast for the liquid"),
    10: ("its valve was overloaded", "a blocked or worn valve"),
}
"""Errors after which the position of plunger or valve is unknown, with their likely cause."""
OVERLOADS = (9, 10)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of a pump. Only the answer to `Q` says reliably whether it is ready; the error is always valid."""

    ready: bool
    error: int
    data: bytes


def oem_frame(address: int, data: bytes) -> bytes:
    """Return the OEM command block that carries `data` to pump `address`."""
    block = bytes((STX, MASTER + address)) + SEQUENCE + data + bytes((ETX,))
    return block + bytes((reduce(xor, block),))


def dt_frame(address: int, data: bytes) -> bytes:
    """Return the DT command block that carries `data` to pump `address`."""
    return b"/" + bytes((MASTER + address,)) + data + b"\r"


def oem_answer(pattern: re.Pattern[bytes]) -> Parser[Reply]:
    """Return a parser of the next OEM answer whose data match `pattern`; noise and other answers are skipped."""

    def parse(buffer: bytearray) -> Reply | None:
        while (at := buffer.find(STX)) >= 0:
            del buffer[:at]
            end = buffer.find(ETX, 3)
            if end < 0 or end + 1 == len(buffer):
                if len(buffer) <= MAX_ANSWER_BYTES:
                    return None
                del buffer[:1]
                continue
            reply = _oem_reply(bytes(buffer[: end + 2]))
            del buffer[: 1 if reply is None else end + 2]
            if reply is not None and _fits(reply, pattern):
                return reply
        buffer.clear()
        return None

    return parse


def dt_answer(pattern: re.Pattern[bytes]) -> Parser[Reply]:
    """Return a parser of the next DT answer whose data match `pattern`; noise and other answers are skipped."""

    def parse(buffer: bytearray) -> Reply | None:
        while (end := buffer.find(b"\r\n")) >= 0:
            line = bytes(buffer[: end + 2])
            del buffer[: end + 2]
            match = _DT_ANSWER.fullmatch(line[max(0, line.rfind(b"/")) :])
            if match and _fits(reply := _reply(match[1][0], match[2]), pattern):
                return reply
        if len(buffer) > MAX_ANSWER_BYTES:
            buffer.clear()
        return None

    return parse


def _oem_reply(block: bytes) -> Reply | None:
    if reduce(xor, block) or block[1] != MASTER or block[2] & 0xD0 != 0x40:
        return None
    return _reply(block[2], block[3:-2])


def _reply(status: int, data: bytes) -> Reply:
    return Reply(ready=bool(status & _READY), error=status & 0x0F, data=data)


def _fits(reply: Reply, pattern: re.Pattern[bytes]) -> bool:
    """Return whether `reply` is an answer to what was asked: the data, or an error without data."""
    return pattern.fullmatch(reply.data) is not None or (reply.error != 0 and not reply.data)


class CavroLine:
    """Requests to one pump and its answers."""

    def __init__(self, conversation: Conversation, address: int, *, oem: bool) -> None:
        self.conversation = conversation
        self._address = address
        self._frame, self._answer = (oem_frame, oem_answer) if oem else (dt_frame, dt_answer)

    async def state(self) -> Reply:
        """Return the answer to `Q`: ready or busy, and the error that it clears in part."""
        return await self._ask(b"Q", NOTHING)

    async def number(self, request: bytes) -> int:
        """Return the number in the answer to a report command."""
        return int(await self._report(request, NUMBER))

    async def valve(self) -> bytes:
        """Return the valve's position as the pump writes it: `i`, `o`, `b`, `e`, or a port number."""
        return await self._report(b"?6", VALVE)

    async def firmware(self) -> str:
        """Return part number and revision of the firmware, in the pump's own words."""
        return (await self._report(b"&", TEXT)).decode("ascii").strip()

    async def terminate(self) -> None:
        """Send `T`: a plunger move and the rest of its string end. An error in the answer does not matter here."""
        await self._ask(b"T", NOTHING)

    async def order(self, commands: bytes) -> Reply:
        """Send a string of commands and execute it; return the answer.

        Raises:
            Refused: The pump did not accept it; nothing moves.
        """
        reply = await self._ask(commands + b"R", NOTHING)
        if reply.error in MISTAKES:
            raise self.mistake(reply.error)
        return reply

    def mistake(self, error: int) -> DeviceError:
        """Return the error for a command that the pump has refused."""
        return Refused(
            f"it reports {MISTAKES[error]} (error {error})",
            where=self.conversation.where,
            cause="the pump is busy, or another model or valve than the rig file says",
            action="compare series and ports in the rig file with the pump",
        )

    async def _report(self, request: bytes, pattern: re.Pattern[bytes]) -> bytes:
        reply = await self._ask(request, pattern)
        if not pattern.fullmatch(reply.data):
            if reply.error in MISTAKES:
                raise self.mistake(reply.error)
            raise position_lost(*lost(reply.error), self.conversation.where)
        return reply.data

    async def _ask(self, request: bytes, pattern: re.Pattern[bytes]) -> Reply:
        return await self.conversation.ask(self._frame(self._address, request), self._answer(pattern))


def lost(error: int) -> tuple[str, str]:
    """Return what happened at an error after which a position is unknown, and its likely cause."""
    what, cause = LOST.get(error, ("it reports a fault", "a firmware with other error codes"))
    return f"{what} (error {error})", cause


def position_lost(what: str, cause: str, where: str) -> DeviceFault:
    """Return the fault of a pump whose plunger or valve is not where the driver knows it to be."""
    return DeviceFault(
        f"{what}; nothing more is dosed",
        where=where,
        cause=cause,
        action="lead the outlet to waste, because initialising empties the syringe there; remove the cause, initialise the"
        " pump by hand, and restart the controller if the fault stays",
    )
