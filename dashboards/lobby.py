"""The first room of a server: a connection waits here until it has sent the head of a request and may go on.

A stranger who is idle, slow, or comes and goes costs one descriptor and some microseconds: neither a protocol nor a task is
made for it. A known caller goes on at once, with what was read. The others go on as fast as the limits of rate allow; until
then they wait, which slows a flood down, where a refusal would only make it come back.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections import deque
from collections.abc import Callable

from dashboards.admission import Admission, Guest

ACCEPT_FOR_S = 0.004
"""Real seconds of one turn of the event loop for new connections, so that a crowd at the door delays little else."""
ACCEPTS_A_TURN = 256
MIN_ACCEPTS_A_TURN = 64
"""Accepted in each turn whatever the clock says: on a busy machine its time passes while this process does not run."""
QUEUE = 4096
"""Connections that the system may keep waiting at the door."""
AGAIN_S = 0.05
"""Real seconds before connections are taken in again after the system refused one (no descriptors, no memory), and before
those that wait for the limits of rate are looked at again."""
LOOKS_A_TURN = 64
MAX_HEAD_BYTES = 32_768
_END_OF_HEAD = re.compile(rb"\n\r?\n")

Known = Callable[[bytes, Guest], bool]
"""Whether the head of a request carries a valid credential; notes whose it is."""
Enter = Callable[[socket.socket, bytes, Guest], object]
"""Takes over a connection, with the head of its first request."""


class Lobby:
    """Accepts connections on `listening` and hands those that have sent a whole head to `enter`."""

    def __init__(
        self, listening: socket.socket, admission: Admission, known: Known, enter: Enter, *, time_scale: float = 1.0
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listening = listening
        self._admission = admission
        self._known = known
        self._enter = enter
        self._scale = time_scale
        self._waiting: deque[_Visitor] = deque()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        listening.setblocking(False)
        listening.listen(QUEUE)
        self._open()

    def close(self) -> None:
        """Accept no more, and let nobody else go on."""
        for timer in self._timers.values():
            timer.cancel()
        self._loop.remove_reader(self._listening.fileno())

    async def wait_closed(self) -> None:
        """Nothing is left to wait for after :meth:`close`."""

    def ready(self, visitor: _Visitor) -> None:
        """Let a visitor go on whose head is whole, now or as soon as the limits of rate allow."""
        if self._known(visitor.head, visitor.guest):
            self._go_on(visitor)
        else:
            self._waiting.append(visitor)
            if "look" not in self._timers:
                self._look()

    def _go_on(self, visitor: _Visitor) -> None:
        self._admission.active(visitor.guest)
        self._enter(visitor.connection, visitor.head, visitor.guest)

    def _look(self) -> None:
        """Let those who wait go on, as many as the limits of rate allow."""
        self._timers.pop("look", None)
        for _ in range(min(LOOKS_A_TURN, len(self._waiting))):
            visitor = self._waiting.popleft()
            if visitor.left:
                continue
            if self._admission.may_ask(visitor.guest.holder):
                self._go_on(visitor)
            else:
                self._waiting.append(visitor)
        if self._waiting:
            self._timers["look"] = self._loop.call_later(AGAIN_S * self._scale, self._look)

    def _open(self) -> None:
        self._timers.pop("open", None)
        self._loop.add_reader(self._listening.fileno(), self._accept)

    def _accept(self) -> None:
        until_s = self._loop.time() + ACCEPT_FOR_S * self._scale
        for number in range(1, ACCEPTS_A_TURN + 1):
            try:
                connection, peer = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # no descriptors or no memory: without a pause the loop would spin
                self._loop.remove_reader(self._listening.fileno())
                self._timers["open"] = self._loop.call_later(AGAIN_S * self._scale, self._open)
                return
            connection.setblocking(False)
            _Visitor(connection, self._loop, self._admission, self).begin(str(peer[0]) if peer else "")
            if number >= MIN_ACCEPTS_A_TURN and self._loop.time() > until_s:
                return


class _Visitor:
    """One connection in the lobby. It is told apart by its descriptor: asking for the socket itself is slow."""

    def __init__(
        self,
        connection: socket.socket,
        loop: asyncio.AbstractEventLoop,
        admission: Admission,
        lobby: Lobby,
    ) -> None:
        self.connection = connection
        self.head = b""
        self.left = False
        """Closed while it waited."""
        self._loop = loop
        self._admission = admission
        self._lobby = lobby
        self._watched = False
        self.guest: Guest

    def begin(self, address: str) -> None:
        """Take in what has come already, and wait for the rest of the head.

        A known caller thus goes on without waiting for the crowd that was accepted with it, and a connection whose far end
        has gone costs no more than this.
        """
        data = self._received()
        if data == b"":
            self.connection.close()
            return
        self.guest = self._admission.come(address, self._leave)
        if data is None or not self._take(data):
            self._loop.add_reader(self.connection.fileno(), self._read)
            self._watched = True

    def _leave(self) -> None:
        self.left = True
        self._unwatch()
        self.connection.close()

    def _unwatch(self) -> None:
        if self._watched:
            self._watched = False
            self._loop.remove_reader(self.connection.fileno())

    def _read(self) -> None:
        data = self._received()
        if data is not None:
            self._take(data)

    def _received(self) -> bytes | None:
        """Return what has come, empty when the far end has gone; None when nothing has come yet."""
        try:
            return self.connection.recv(MAX_HEAD_BYTES)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            return b""

    def _take(self, data: bytes) -> bool:
        """Take in a piece of the head; return whether nothing more is waited for."""
        begin = max(0, len(self.head) - 3)
        self.head += data
        if data and _END_OF_HEAD.search(self.head, begin) is not None:
            self._unwatch()
            self._lobby.ready(self)
            return True
        if data and len(self.head) < MAX_HEAD_BYTES:
            return False
        if data:
            _refuse(self.connection, "the head of the request is too long")
        self._admission.go(self.guest)
        self._leave()
        return True


def _refuse(connection: socket.socket, why: str) -> None:
    """Send a short answer, as far as the far end takes it now; the caller closes the connection."""
    head = f"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: {len(why)}\r\nConnection: close"
    with contextlib.suppress(OSError):
        connection.send(f"{head}\r\n\r\n{why}".encode())
