"""The page's local socket: commands on this machine act through it, under the name of the user who runs them.

`page.sock` lies in the data folder with mode 0600, so that its owner alone connects, and the administrator of the machine.
The kernel tells who that is (SO_PEERCRED); no token is needed, and no certificate when the page has one.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

from controller.guard.wire import listen, login_of, peer_of
from controller.runs.people import command_line_of
from dashboards.auth import Role, User

SOCKET = "page.sock"


def listen_locally(data: Path) -> socket.socket:
    """Return the listening socket `page.sock` in `data`."""
    return listen(data, SOCKET, socket.SOCK_STREAM)


def local_user(connection: socket.socket) -> User | None:
    """Return the user at the other end of a local connection; None where it is neither this process's user nor root."""
    peer = peer_of(connection)
    return User(command_line_of(login_of(peer)), Role.ADMIN) if peer.uid in (0, os.geteuid()) else None
