"""TCP ports."""

from __future__ import annotations

import socket

MAX_PORT = 65535


def free_port(host: str, port: int) -> int:
    """Return `port` itself, or any free one when it is 0."""
    if port:
        return port
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
