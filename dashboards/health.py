"""Health on a port of its own, apart from the web server: one short answer a connection, for monitors and containers.

200 while the control loop ticks and 503 when it does not (D6). Where the event loop itself stands there is no answer, which
a monitor counts as a failure too. It needs no credential, tells nothing else, and takes no orders.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import socket
from typing import Protocol

from controller.process.health import ControllerHealth
from dashboards.accept_queue import AcceptQueue
from dashboards.admission import Admission, AdmittedConnection

MAX_CONNECTIONS = 128


class Healthy(Protocol):
    """What can tell whether the control loop lives."""

    def health(self) -> ControllerHealth:
        """Whether it lives, and why not."""


async def serve_health(controller: Healthy, listening: socket.socket, *, time_scale: float = 1.0) -> None:
    """Answer on `listening` until cancelled; then it is closed."""
    admission = Admission(time_scale=time_scale, max_unknown=MAX_CONNECTIONS)

    def answer(connection: socket.socket, _: bytes, admitted: AdmittedConnection) -> None:
        with contextlib.suppress(OSError):  # the far end has gone
            connection.send(_answer(controller.health()))
        admission.remove(admitted)
        connection.close()

    queue = AcceptQueue(listening, admission, lambda *_: True, answer, time_scale=time_scale)
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        queue.close()
        admission.close()
        listening.close()


def body(found: ControllerHealth) -> dict[str, object]:
    """The health as JSON."""
    age_s = found.tick_age_s if math.isfinite(found.tick_age_s) else None
    return {"ok": found.ok, "reasons": list(found.reasons), "tick_age_s": age_s}


def _answer(found: ControllerHealth) -> bytes:
    text = json.dumps(body(found)).encode()
    status = "200 OK" if found.ok else "503 Service Unavailable"
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n"
    return f"{head}Cache-Control: no-store\r\nConnection: close\r\n\r\n".encode() + text
