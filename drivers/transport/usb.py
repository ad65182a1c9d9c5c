"""Find USB adapters by their serial numbers, independent of their current path.

/dev/ttyUSB0 is the adapter that was plugged in first. An adapter with its own serial number (FTDI and most good
ones) can be named by it on every system, and is searched at each opening. One without (most CH340) can only be
named by its place, through /dev/serial/by-path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from serial.tools import list_ports

from drivers.errors import LinkDown


class SerialPortInfo(Protocol):
    """Declares the fields of pyserial's ListPortInfo that are used here."""

    device: str
    serial_number: str | None
    location: str | None


def connected() -> list[SerialPortInfo]:
    """Return the serial ports of this machine."""
    return list(list_ports.comports())


def device_of(
    serial_number: str, number: int, where: str, ports: Callable[[], Iterable[SerialPortInfo]] = connected
) -> str:
    """Find the current path of a port of a USB adapter.

    The ports of one adapter are ordered by their places on it. Of two adapters with the same serial number neither is
    opened: they cannot be distinguished.

    Args:
        serial_number: Serial number of the adapter.
        number: Which of its ports, from 1.
        where: Name of the link, for the error.
        ports: Returns the serial ports of this machine.

    Returns:
        The path, such as /dev/ttyUSB0.

    Raises:
        LinkDown: No such adapter or port, or several adapters with this number.
    """
    there = list(ports())
    found = sorted((port for port in there if port.serial_number == serial_number), key=_place)
    adapters = {(port.location or port.device).partition(":")[0] for port in found}
    if len(adapters) > 1:
        raise LinkDown(
            f"{len(adapters)} adapters have the serial number {serial_number}: {_named(found)}",
            where=where,
            cause="cheap adapters that all bear the same number",
            action="name them by their place: serial:///dev/serial/by-path/…",
        )
    if number > len(found):
        others = _named(port for port in there if port.serial_number)
        raise LinkDown(
            f"no port {number} of a USB adapter with the serial number {serial_number} is there",
            where=where,
            cause=f"the adapter is unplugged, or it is another one (there are: {others or 'none with a number'})",
            action="plug it in or correct the number in the link; it is tried again by itself",
        )
    return found[number - 1].device


def _place(port: SerialPortInfo) -> tuple[str, int, str]:
    return port.location or "", len(port.device), port.device


def _named(ports: Iterable[SerialPortInfo]) -> str:
    return ", ".join(f"{port.serial_number} at {port.device}" for port in ports)
