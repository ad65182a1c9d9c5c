"""USB adapters by their serial numbers: the same adapter is found whatever the system calls it today.

/dev/ttyUSB0 is the adapter that was plugged in first. An adapter with a serial number of its own (FTDI and most good ones)
can be named by it, on every system, and is looked for at each opening; one without (most CH340) can only be named by its
place, through /dev/serial/by-path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from serial.tools import list_ports

from drivers.errors import LinkDown


class SerialPortInfo(Protocol):
    """What of pyserial's ListPortInfo is looked at."""

    device: str
    serial_number: str | None
    location: str | None


def connected() -> list[SerialPortInfo]:
    """The serial ports that this machine has now."""
    return list(list_ports.comports())


def device_of(
    serial_number: str, number: int, where: str, ports: Callable[[], Iterable[SerialPortInfo]] = connected
) -> str:
    """The path of port `number` (from 1) of the adapter with this serial number; :class:`LinkDown` when it is not there.

    Several ports of one adapter count in the order of their places on it. Two adapters with one serial number cannot be
    told apart, and neither is opened.
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
