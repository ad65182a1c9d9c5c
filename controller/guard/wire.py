"""Messages between controller, guard and command line: JSON objects in packets on a local socket.

The guard owns the socket `guard.sock` in the data directory (mode 0600). Each packet is one object, named by one of its keys.
The kernel identifies process and user of the other side (SO_PEERCRED).

controller → guard
    `hello` {rig, plan, command, folder}: take me under watch; `plan` is the SHA-256 of the plan file.
    `beat` N, `tick` M: my loop turns, and so many ticks of control are done.
    `verified` {DEVICE: [MODEL, SERIAL]}: these devices are verified now. Once a second, at most `MAX_DEVICES` in one
        message. `counted` {OUTPUT: UL}: what these pumps themselves have counted; likewise.
    `stopping` N: the emergency stop N has begun. `stopped` N: every output has been dealt with. `unstopped` N: it failed.
    `goodbye` true: I end in order and every output is at rest. `leave` true: I end, and some outputs are not at rest.
guard → controller
    `welcome` {service, rig, given_up}: you are under watch; `given_up` {LINK: WHY}: what I have left alone since the last
        controller. `refused` TEXT: you are not.
    `beat` N: beat N was received.
    `stop` TEXT, `number` N, `who` TEXT: emergency stop. `end` TEXT: bring the rig to rest and end.
command line → guard
    `stop` TEXT: emergency stop, in the name of the user at the other end. Answer: `done` TEXT, or `failed` TEXT.
    `status` true. Answer: `status` {...}.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOCKET = "guard.sock"
LOCK = "guard.lock"
PLAN = "guard.json"
LOG = "guard.log"
SEEN = "guard.controller"
"""Files of the guard in a data directory; the last one says which controller was under watch, and its devices."""
MAX_BYTES = 16_384
MAX_DEVICES = 50
"""Maximum number of devices or outputs in one message; all of them may exceed `MAX_BYTES`."""
NO_LOGIN = 2**32 - 1
USERS = Path("/etc/passwd")
_CREDENTIALS = struct.Struct("3i")

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SocketPeer:
    """Who is on the other end of a local socket. `pid` is 0 when this process cannot see it (another PID namespace)."""

    pid: int
    uid: int


def peer_of(connection: socket.socket) -> SocketPeer:
    """Ask the kernel who is on the other end."""
    size = _CREDENTIALS.size
    pid, uid, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return SocketPeer(pid, uid)


def digest(text: str) -> str:
    """Return the SHA-256 of a plan's text, by which both sides know that they mean the same one."""
    return hashlib.sha256(text.encode()).hexdigest()


def login_of(peer: SocketPeer) -> str:
    """Return the name of the user at the other end: the one who logged in, also behind `sudo`, else the user of the process.

    Needs the kernel's record of logins (`/proc/PID/loginuid`), which containers and services lack. The name comes from
    `/etc/passwd` alone: a directory server that does not answer would hold an emergency stop up. Other users are numbers.
    """
    login = NO_LOGIN
    with suppress(OSError, ValueError):
        login = int(Path(f"/proc/{peer.pid}/loginuid").read_text(encoding="ascii"))
    uid = peer.uid if login == NO_LOGIN else login
    with suppress(OSError):
        for line in USERS.read_text(encoding="utf-8", errors="replace").splitlines():
            name, *fields = line.split(":")
            if fields[1:2] == [str(uid)]:
                return name
    return f"user {uid}"


def listen(data: Path, name: str = SOCKET, kind: int = socket.SOCK_SEQPACKET) -> socket.socket:
    """Return a listening socket at `data`/`name`, for its owner only. The caller must hold the lock of its owner."""
    listening = socket.socket(socket.AF_UNIX, kind)
    try:
        with _short(data) as folder:
            path = folder / name
            path.unlink(missing_ok=True)
            listening.bind(str(path))
            with suppress(OSError):  # a file system without modes
                path.chmod(0o600)  # before it listens; the umask would be that of all threads
        listening.listen(16)
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    return listening


def connect(data: Path) -> socket.socket:
    """Return a connection to the guard of `data`.

    Raises:
        OSError: no process listens there (FileNotFoundError, ConnectionRefusedError), or the guard does not accept in time.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.settimeout(1.0)
        with _short(data) as folder:
            connection.connect(str(folder / SOCKET))
        connection.setblocking(False)
    except BaseException:
        connection.close()
        raise
    return connection


def send(connection: socket.socket, message: Message) -> bool:
    """Send one message without waiting. Returns whether the other end could take it; False when its queue is full.

    Raises:
        OSError: the other end is gone.
    """
    try:
        connection.send(json.dumps(message).encode(), socket.MSG_NOSIGNAL)
    except BlockingIOError:
        return False
    return True


def receive(connection: socket.socket) -> list[Message] | None:
    """Return all messages that are there, without waiting; None when the other end is gone.

    What is no message is left out: a peer that talks nonsense gets no answer.
    """
    messages: list[Message] = []
    while True:
        try:
            packet = connection.recv(MAX_BYTES)
        except BlockingIOError:
            return messages
        except ConnectionResetError:
            continue  # it ended without reading all answers; what it had sent before is still there
        except OSError:
            return messages or None
        if not packet:
            return messages or None
        with suppress(ValueError):
            message = json.loads(packet)
            if isinstance(message, dict):
                messages.append(message)


@contextmanager
def _short(data: Path) -> Iterator[Path]:
    """Give a path to the directory that fits into a socket address (108 bytes), however long its own path is."""
    descriptor = os.open(data, os.O_PATH | os.O_DIRECTORY)
    try:
        yield Path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
