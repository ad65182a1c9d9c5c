"""Base class of all Atlas Scientific EZO circuits on a UART (data sheets, “UART mode”, “Response codes”).

A command ends with CR. Its answer is any number of data lines and then `*OK` or `*ER`. Unsolicited lines may come
in between: readings in continuous mode, `*RS` `*RE` after a restart, `*OV` `*UV` for the supply, `*WA` `*SL`,
`*DONE,…` from a pump. Each line is classified before it is used.
"""

from __future__ import annotations

import asyncio
import re

from drivers.device import Device, DeviceConfig, Identity
from drivers.errors import BadReply, DeviceError, DeviceFault, NoReply, Refused, WrongDevice
from drivers.transport.conversation import Conversation, SyncQuery
from drivers.transport.link import Link, Parser
from drivers.transport.replies import bad_reply, take_line
from drivers.transport.url import LineSettings

LINE = LineSettings(baud=9600, bits=8, parity="N", stop=1)
TIMEOUT_S = 1.0

_IDENTITY = re.compile(rb"\?I,([^,]{1,16}),([0-9.]{1,8})", re.IGNORECASE)
_STATUS = re.compile(rb"\?STATUS,([PSBWU]),(\d{1,2}\.\d{1,4})", re.IGNORECASE)
_PRINTABLE = re.compile(rb"[\x20-\x7e]*")


class AtlasEzo(Device):
    """One EZO circuit on its own UART; `circuit` is the name it reports, in capitals without dots."""

    circuit: str
    line = LINE
    queries = re.compile(rb"(?:i|R|Status|Find,\?|\*OK,\?|[A-Za-z]{1,5},\?)\r")

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        super().__init__(link, config)
        self._fault: DeviceFault | None = None
        self._conversation = Conversation(
            link,
            config.name,
            timeout_s=TIMEOUT_S,
            barrier=SyncQuery(b"i\r", self._identity_answer),
            unsolicited=self._unsolicited,
        )
        link.attach(self._conversation, self.verify)

    @property
    def conversation(self) -> Conversation:
        """This driver's side of the link."""
        return self._conversation

    async def _identify(self) -> Identity:
        if not self.link.read_only:
            await self._silence()
        name, firmware = await self._conversation.ask(b"i\r", self._identity_answer())
        if name.upper().replace(".", "") != self.circuit:
            raise WrongDevice(
                f"an EZO-{name} answers, not an EZO-{self.circuit}",
                where=self.config.name,
                cause="two circuits are swapped",
                action="check the cables, or the links in the rig file",
            )
        if not self.link.read_only:
            await self.command(b"*OK,1")
        status = _STATUS.fullmatch(await self.query(b"Status"))
        if status is None:
            raise BadReply(
                "its status cannot be read",
                where=self.config.name,
                cause="noise, or a firmware that speaks differently",
                action="it is tried again; look at the link's capture if it stays",
            )
        await self._settle_in()
        return Identity(model=f"EZO-{name}", firmware=firmware)

    async def _settle_in(self) -> None:
        """Correct the circuit's own settings; each model adds its own."""

    async def _silence(self) -> None:
        """End continuous mode, which every restart turns on; its lines may interfere with the first commands."""
        for last in (False, False, True):
            try:
                await self.command(b"C,0")
            except (NoReply, BadReply, Refused):
                if last:
                    raise
                # One flipped bit, or a user at a terminal, may have turned the response codes off: then no answer
                # would be accepted, not even that of the barrier.
                await self.link.tell(b"*OK,1\r", pause_s=TIMEOUT_S, where=self.config.name)
            else:
                return

    async def command(self, command: bytes, *, timeout_s: float | None = None) -> None:
        """Send a command that is answered by `*OK`."""
        await self._conversation.ask(command + b"\r", self.answer(), timeout_s=timeout_s)

    async def query(self, command: bytes) -> bytes:
        """Send a query that is answered by one line with `?`, and return that line."""
        answer = await self._conversation.ask(command + b"\r", self.answer())
        lines = [line for line in answer if line.startswith(b"?")]
        if len(lines) != 1:
            self._conversation.doubt()
            raise bad_reply(b"\r".join(answer), self.config.name, f"one answer to {command.decode()}")
        return lines[0]

    def answer(self, *, earliest_s: float = 0.0, ends: tuple[bytes, ...] = (b"*OK",)) -> Parser[list[bytes]]:
        """Return a parser of one complete answer up to a line of `ends` or `*ER`; it returns the data lines.

        A line that arrives less than `earliest_s` (s) after the request cannot be its answer and is skipped (C2).
        """
        lines: list[bytes] = []
        codes: list[bytes] = []

        def parse(buffer: bytearray) -> list[bytes] | None:
            early = earliest_s > 0.0 and _now_s() - self.link.sent_at_s < earliest_s
            while (line := take_line(buffer, b"\r", self.config.name)) is not None:
                if not _PRINTABLE.fullmatch(line):
                    raise bad_reply(line, self.config.name, "a line of text")
                code = line.split(b",", 1)[0].upper()
                if code == b"*ER":
                    raise self._error(codes)
                if code in ends:
                    if early:
                        continue
                    return lines
                if code.startswith(b"*"):
                    codes.append(code)
                    self._event(line)
                elif not early:
                    lines.append(line)
            return None

        return parse

    def _identity_answer(self) -> Parser[tuple[str, str]]:
        """Return a parser of the answer to `i` that skips everything older."""
        found: list[tuple[str, str]] = []

        def parse(buffer: bytearray) -> tuple[str, str] | None:
            while (line := take_line(buffer, b"\r", self.config.name)) is not None:
                if match := _IDENTITY.fullmatch(line):
                    found.append((match[1].decode("ascii", "replace"), match[2].decode("ascii")))
                elif line.upper() == b"*OK" and found:
                    return found[-1]
                elif line.startswith(b"*"):
                    self._event(line)
            return None

        return parse

    def _error(self, codes: list[bytes]) -> DeviceError:
        """Return the error for `*ER`, with the codes that preceded it."""
        if fault := self._fault:
            self._fault = None
            return fault
        listed = ", ".join(code.decode("ascii", "replace") for code in (*codes, b"*ER"))
        return Refused(
            f"the circuit refuses the command ({listed})",
            where=self.config.name,
            cause="it does not know it in its present state or firmware",
            action="check the model in the rig file; update the circuit's firmware",
        )

    def _unsolicited(self, buffer: bytearray) -> None:
        """Process lines that arrived without a request."""
        while (at := buffer.find(b"\r")) >= 0:
            line = bytes(buffer[:at])
            del buffer[: at + 1]
            if line.startswith(b"*"):
                self._event(line)

    def _event(self, line: bytes) -> None:
        """Process an unsolicited code: a restart resets the settings, a bad supply invalidates the next answer."""
        code = line.split(b",", 1)[0].upper()
        if code in (b"*RS", b"*RE"):
            self._conversation.restarted()
        elif code in (b"*UV", b"*OV"):
            self._fault = DeviceFault(
                f"its supply voltage is out of range ({line.decode('ascii', 'replace')})",
                where=self.config.name,
                cause="a wrong or weak power supply, or a bad contact",
                action="measure the supply at the circuit",
            )


def _now_s() -> float:
    return asyncio.get_running_loop().time()
