"""Notifications to a service manager: systemd's protocol (sd_notify(3)), one datagram a message."""

from __future__ import annotations

import os
import socket
from contextlib import suppress


def notify(state: str) -> bool:
    """Send `state`, such as READY=1 or WATCHDOG=1. Return whether a service manager received it."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
        sender.connect(address)
        sender.send(state.encode())
        return True
    return False
