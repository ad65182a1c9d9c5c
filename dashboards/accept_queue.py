"""Accept connections, and hand each over to HTTP when it has sent the head of a request.

An idle, slow or short-lived connection without a credential costs one descriptor and some microseconds: no protocol and no
task is created for it. A connection with a valid credential is handed over at once, with the bytes read so far. The others
are handed over as fast as the rate limits allow. Until then they wait: this slows a flood down, while a refusal would make
its clients connect again.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from dashboards.admission import Admission, AdmittedConnection
from dashboards.certificate import Certificate
from dashboards.local import local_user
from dashboards.sign_ins import source_of

ACCEPT_FOR_S = 0.004
"""Real seconds per turn of the event loop for new connections, so that many of them delay little else."""
ACCEPTS_A_TURN = 256
MIN_ACCEPTS_A_TURN = 64
"""Accepted in each turn at any time: on a busy machine the time passes while this process does not run."""
QUEUE = 4096
"""Maximum number of connections that wait in the system's queue."""
AGAIN_S = 0.05
"""Real seconds before the next accept after the system refused one (no descriptors, no memory), and before the next check of
the connections that wait for the rate limits."""
CHECKS_A_TURN = 64
HANDSHAKES_A_TURN = 8
"""Handed over of them with TLS, whose handshakes take the processor for a millisecond each."""
MAX_HEAD_BYTES = 32_768
_END_OF_HEAD = re.compile(rb"\n\r?\n")

Known = Callable[[bytes, AdmittedConnection], bool]
"""Returns whether the head of a request carries a valid credential; notes the user."""
Enter = Callable[[socket.socket, bytes, AdmittedConnection], object]
"""Takes over a connection, with the head of its first request."""


@dataclass(frozen=True, slots=True)
class Listener:
    """What kind of socket accepts: with TLS, behind which proxies, from which addresses."""

    certificate: Certificate | None = None
    """With TLS: as long as it cannot be used, no connection is accepted."""
    forwards: Callable[[str], bool] = lambda _: False
    """Whether an address is a trusted proxy, whose requests are counted by the address that they came from."""
    admits: Callable[[str], bool] = lambda _: True


class AcceptQueue:
    """Accept connections on `listening`; call `enter` with each that has sent a whole head."""

    def __init__(
        self,
        listening: socket.socket,
        admission: Admission,
        known: Known,
        enter: Enter,
        *,
        listener: Listener = Listener(),
        time_scale: float = 1.0,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listening = listening
        self._admission = admission
        self._known = known
        self._enter = enter
        self._scale = time_scale
        self.listener = listener
        self._connections: deque[_WaitingConnection] = deque()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        listening.setblocking(False)
        listening.listen(QUEUE)
        self._open()

    def close(self) -> None:
        """Accept no more connections, and hand none over."""
        for timer in self._timers.values():
            timer.cancel()
        if self._listening.fileno() >= 0:
            self._loop.remove_reader(self._listening.fileno())

    async def wait_closed(self) -> None:
        """Return at once: :meth:`close` leaves nothing to wait for."""

    def ready(self, waiting: _WaitingConnection) -> None:
        """Hand over a connection whose head is whole or encrypted, now or as soon as the rate limits allow."""
        if self._known(waiting.head, waiting.admitted) or self.listener.forwards(waiting.admitted.holder):
            self._hand_over(waiting)
        else:
            self._connections.append(waiting)
            if "retry" not in self._timers:
                self._retry()

    def _hand_over(self, waiting: _WaitingConnection) -> None:
        self._admission.active(waiting.admitted)
        self._enter(waiting.connection, waiting.head, waiting.admitted)

    def _retry(self) -> None:
        """Hand over waiting connections, as many as the rate limits allow."""
        self._timers.pop("retry", None)
        left = CHECKS_A_TURN if self.listener.certificate is None else HANDSHAKES_A_TURN
        for _ in range(min(CHECKS_A_TURN, len(self._connections))):
            if not left:
                break
            waiting = self._connections.popleft()
            if waiting.left:
                continue
            if self._admission.may_request(source_of(waiting.admitted.holder)):
                left -= 1
                waiting.admitted.counted = True
                self._hand_over(waiting)
            else:
                self._connections.append(waiting)
        if self._connections:
            self._timers["retry"] = self._loop.call_later(AGAIN_S * self._scale, self._retry)

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
            _WaitingConnection(connection, self._loop, self._admission, self).begin(str(peer[0]) if peer else "")
            if number >= MIN_ACCEPTS_A_TURN and self._loop.time() > until_s:
                return


class _WaitingConnection:
    """One connection that waits. It is identified by its descriptor, because asking the socket for it is slow."""

    def __init__(
        self,
        connection: socket.socket,
        loop: asyncio.AbstractEventLoop,
        admission: Admission,
        queue: AcceptQueue,
    ) -> None:
        self.connection = connection
        self.head = b""
        self.left = False
        """Whether it was closed while it waited."""
        self._loop = loop
        self._admission = admission
        self._queue = queue
        self._watched = False
        self.admitted: AdmittedConnection

    def begin(self, address: str) -> None:
        """Read the bytes that have arrived, and wait for the rest of the head.

        So a known caller does not wait for the other connections accepted in the same turn, and a connection that the
        client has closed costs no more than this.
        """
        listener, data = self._queue.listener, None
        accepted = listener.admits(address)
        if listener.certificate is not None:
            accepted = accepted and listener.certificate.context is not None
        elif accepted:
            data = self._received()
        if not accepted or data == b"":
            self.connection.close()
            return
        local = local_user(self.connection) if self.connection.family == socket.AF_UNIX else None
        self.admitted = self._admission.admit(address, self._leave)
        self.admitted.person = local
        if listener.certificate is not None:
            self._queue.ready(self)
        elif data is None or not self._take(data):
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
        """Return the bytes that have arrived; empty when the client has closed; None when none have arrived."""
        try:
            return self.connection.recv(MAX_HEAD_BYTES)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            return b""

    def _take(self, data: bytes) -> bool:
        """Add a piece of the head; return whether the head is complete or refused."""
        begin = max(0, len(self.head) - 3)
        self.head += data
        if data and _END_OF_HEAD.search(self.head, begin) is not None:
            self._unwatch()
            self._queue.ready(self)
            return True
        if data and len(self.head) < MAX_HEAD_BYTES:
            return False
        if data:
            _refuse(self.connection, "the head of the request is too long")
        self._admission.remove(self.admitted)
        self._leave()
        return True


def _refuse(connection: socket.socket, why: str) -> None:
    """Send a short answer, as far as the client takes it now; the caller closes the connection."""
    head = f"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: {len(why)}\r\nConnection: close"
    with contextlib.suppress(OSError):
        connection.send(f"{head}\r\n\r\n{why}".encode())
