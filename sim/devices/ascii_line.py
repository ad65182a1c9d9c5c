"""Devices that take lines of text: chunks of bytes are split into whole commands."""

from __future__ import annotations

import re
from abc import abstractmethod

from controller.rig.description import DeviceSpec
from sim.devices.port import PlantPort
from sim.devices.wire import WireDevice

LONGEST = 128
"""Characters that the input buffer of such a device holds; a longer line is lost whole."""

_DECIMAL = re.compile(r"[+-]?(?:\d{1,9}(?:\.\d{0,9})?|\.\d{1,9})", re.ASCII)


def decimal(text: str) -> float | None:
    """Return the number that firmware reads in `text`: plain digits, a sign, a point; None for anything else.

    Python's own float() takes "nan", "1e9" and "1_0", and digits of every script; no instrument does.
    """
    return float(text) if _DECIMAL.fullmatch(text) else None


class AsciiDevice(WireDevice):
    """Collects bytes up to `end`; subclasses implement :meth:`command`. The other line-end character is ignored."""

    end = b"\r"
    other_end = b"\n"

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        super().__init__(name, spec, plant)
        self._buffer = b""
        self._overrun = False

    def receive(self, data: bytes) -> None:
        """Take bytes in any chunking; each whole line becomes one :meth:`command`."""
        data = data.replace(self.other_end, b"")
        whole = data.find(self.end) == len(data) - 1 and 1 < len(data) <= LONGEST and data.isascii()
        if whole and not self._buffer and not self._overrun:  # one whole line, as most often
            self.command(data[:-1].decode("ascii"))
            return
        *lines, rest = (self._buffer + data).split(self.end)
        for line in lines:
            self._take_line(line)
        if len(rest) > LONGEST:
            rest, self._overrun = b"", True
        self._buffer = rest

    def _take_line(self, line: bytes) -> None:
        """Carry out one line of a stream, or report it as bad."""
        overrun, self._overrun = self._overrun or len(line) > LONGEST, False
        if overrun or not line.isascii():
            self.bad_line()
        elif line:
            self.command(line.decode("ascii"))

    def forget_input(self) -> None:
        """Drop a line that has begun (a reboot)."""
        self._buffer = b""
        self._overrun = False

    @abstractmethod
    def command(self, text: str) -> None:
        """Act on one whole, non-empty line of ASCII, without its end."""

    @abstractmethod
    def bad_line(self) -> None:
        """Answer a line that is too long or not ASCII, as the maker says; it must move nothing."""
