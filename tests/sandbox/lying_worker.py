"""A worker, locked in as it should be, whose answers are lies. `lying_worker.py LIE SOCKET LIFELINE LIMITS`."""

from __future__ import annotations

import struct
import sys
from typing import Any

from controller.sandbox import worker
from controller.sandbox.wire import Kind

lie = sys.argv.pop(1)
truthful = worker.Socket.send


def send(socket: worker.Socket, kind: Kind, number: int, body: bytes) -> None:
    if kind == Kind.ANSWER:
        if lie == "answer 7":
            number += 6
        elif lie == "length":
            body = bytes(20 << 20)
        elif lie == "shape":
            body = struct.pack("=qqq", 2, 1 << 40, 8) + body[24:]
        elif lie == "negative":
            body = struct.pack("=qqq", 2, -1, -8) + body[24:]
        elif lie == "more":
            body += b"\0"
    truthful(socket, kind, number, body)


spoilt: Any = worker.Socket
spoilt.send = send
worker.main()
