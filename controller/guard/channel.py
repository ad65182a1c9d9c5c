"""The controller's connection to a guard: messages both ways, and the state of the guard's process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from controller.guard.liveness import Look
from controller.guard.processes import WatchedProcess
from controller.guard.wire import Message, peer_of, receive, send


class GuardChannel(Protocol):
    """A guard that has accepted this controller. :class:`SocketChannel` is a real one; virtual time has its own."""

    def now_s(self) -> float:
        """Return real time (s). The loop's time may run faster; the guard's never does."""

    def listen(self, received: Callable[[list[Message] | None], None]) -> None:
        """Call `beat` with all messages that arrive, and with None when the guard is gone."""

    def say(self, message: Message) -> None:
        """Send a message without waiting. Raises OSError if the guard is gone."""

    def observe(self, at_s: float, lag_s: float) -> Look:
        """Return the state of the guard's process."""

    def kill(self) -> None:
        """Kill a guard that hangs, where that is possible."""

    def close(self) -> None:
        """Close the connection."""


class SocketChannel:
    """A connection to a guard process on this computer."""

    def __init__(self, connection: socket.socket, now_s: Callable[[], float]) -> None:
        """Use `connection`, a socket on which the guard has sent its welcome. It is closed with this object."""
        self._connection = connection
        self._now_s = now_s
        self._process: WatchedProcess | None = None
        with suppress(OSError):
            self._process = WatchedProcess(peer_of(connection).pid)

    def now_s(self) -> float:
        """See :class:`GuardChannel`."""
        return self._now_s()

    def listen(self, received: Callable[[list[Message] | None], None]) -> None:
        """See :class:`GuardChannel`."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._connection, lambda: received(receive(self._connection)))

    def say(self, message: Message) -> None:
        """See :class:`GuardChannel`. A guard that does not read is detected by its silence."""
        send(self._connection, message)

    def observe(self, at_s: float, lag_s: float) -> Look:
        """See :class:`GuardChannel`."""
        return self._process.observe(at_s, lag_s) if self._process else Look(at_s, "", 0.0, lag_s)

    def kill(self) -> None:
        """See :class:`GuardChannel`."""
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """See :class:`GuardChannel`."""
        if self._connection.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._connection)
            self._connection.close()
        if self._process is not None:
            self._process.close()
            self._process = None
