"""The controller under watch: its connection, its process, and what it was told to do."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass, field
from pathlib import Path

from controller.guard.liveness import Liveness
from controller.guard.processes import WatchedProcess


@dataclass
class StopOrder:
    """An emergency stop that the controller was told to carry out."""

    begun: asyncio.Future[bool]
    done: asyncio.Future[bool]


@dataclass
class Watched:
    """The controller under watch."""

    connection: socket.socket
    process: WatchedProcess
    liveness: Liveness
    heard_s: float
    longest_s: float = 0.0
    """The longest time between two beats since control began (s)."""
    dropped_s: float | None = None
    orders: dict[int, StopOrder] = field(default_factory=dict)


def settle(future: asyncio.Future[bool], value: bool) -> None:
    """Answer a future that nobody has answered yet."""
    if not future.done():
        future.set_result(value)


def born_of(pid: int) -> str:
    """Return when a process started, as the kernel counts; by this a number that is used again is told apart."""
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return stat.rpartition(")")[2].split()[19]
