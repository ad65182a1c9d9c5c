"""Serve the health on a separate port: one short answer per connection, for monitors and containers.

200 while the control loop ticks and 503 when it does not (D6). If the event loop itself stands still there is no
answer, which a monitor counts as a failure as well. It needs no credential, returns nothing else, and accepts no
commands.
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
    """An object that reports whether the control loop ticks."""

    def health(self) -> ControllerHealth:
        """Return whether the controller works, and the reasons if not."""


async def serve_health(controller: Healthy, listening: socket.socket, *, time_scale: float = 1.0) -> None:
    """Answer on `listening` until cancelled; then close it."""
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
    """Return the health as JSON."""
    age_s = found.tick_age_s if math.isfinite(found.tick_age_s) else None
    return {"ok": found.ok, "reasons": list(found.reasons), "tick_age_s": age_s}


def _answer(found: ControllerHealth) -> bytes:
    text = json.dumps(body(found)).encode()
    status = "200 OK" if found.ok else "503 Service Unavailable"
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n"
    return f"{head}Cache-Control: no-store\r\nConnection: close\r\n\r\n".encode() + text
