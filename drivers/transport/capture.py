"""Byte capture of a link, for later diagnosis."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TextIO

Direction = Literal[">", "<"]


@dataclass(frozen=True, slots=True)
class Frame:
    """Holds one piece of traffic: loop time (s), `>` sent or `<` received, the bytes."""

    at_s: float
    direction: Direction
    data: bytes

    def __str__(self) -> str:
        return f"{self.at_s:12.4f} {self.direction} {self.data.hex(' ')}  {printable(self.data)}"


class Capture:
    """Keeps the last `frames` pieces of traffic of one link; optionally writes all traffic to a text file."""

    def __init__(self, frames: int = 256, path: Path | None = None) -> None:
        self._ring: deque[tuple[float, Direction, bytes]] = deque(maxlen=frames)
        self._file: TextIO | None = None if path is None else path.open("a", encoding="ascii")

    def add(self, at_s: float, direction: Direction, data: bytes) -> None:
        """Record one piece of traffic.

        Args:
            at_s: Loop time (s).
            direction: `>` sent, `<` received.
            data: The bytes.
        """
        self._ring.append((at_s, direction, data))
        if self._file is not None:
            self._file.write(f"{Frame(at_s, direction, data)}\n")

    def frames(self) -> list[Frame]:
        """Return the remembered traffic, oldest first."""
        return [Frame(*entry) for entry in self._ring]

    def forget(self) -> None:
        """Delete the remembered traffic; the file keeps it."""
        self._ring.clear()

    def text(self) -> str:
        """Return the remembered traffic as lines of loop time, direction, hexadecimal and printable text."""
        return "\n".join(str(frame) for frame in self.frames())

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._file is not None:
            self._file.close()
            self._file = None


def printable(data: bytes) -> str:
    """Return bytes as ASCII text.

    Args:
        data: Any bytes.

    Returns:
        The text: line ends by name, a full stop for any other unprintable byte.
    """
    named = {0x0D: "<CR>", 0x0A: "<LF>"}
    return "".join(named.get(byte) or (chr(byte) if 0x20 <= byte < 0x7F else ".") for byte in data)
