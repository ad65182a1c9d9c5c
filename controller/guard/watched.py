"""The controller under watch: its connection, its process, and its orders."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass, field
from pathlib import Path

from controller.guard.liveness import Liveness
from controller.guard.processes import WatchedProcess
from controller.guard.wire import Message


@dataclass
class StopOrder:
    """An emergency stop that the controller was ordered to carry out."""

    begun: asyncio.Future[bool]
    done: asyncio.Future[bool]


@dataclass
class Watched:
    """The controller under watch."""

    connection: socket.socket
    process: WatchedProcess
    liveness: Liveness
    beat_s: float
    longest_s: float = 0.0
    """The longest time between two beats since control began (s)."""
    dropped_s: float | None = None
    orders: dict[int, StopOrder] = field(default_factory=dict)

    def confirm(self, message: Message) -> None:
        """Settle the order that `message` confirms; any other message is ignored."""
        match message:
            case {"stopping": int(number)} if number in self.orders:
                settle(self.orders[number].begun, True)
            case {"stopped": int(number)} if number in self.orders:
                settle(self.orders[number].done, True)
            case {"unstopped": int(number)} if number in self.orders:
                settle(self.orders[number].done, False)


def settle(future: asyncio.Future[bool], value: bool) -> None:
    """Set the result of a future that has none yet."""
    if not future.done():
        future.set_result(value)


def born_of(pid: int) -> str:
    """Return the kernel's start time of a process, which distinguishes processes with a reused number."""
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return stat.rpartition(")")[2].split()[19]
