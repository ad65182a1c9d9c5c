"""On which TCP ports the processes of a job listen on this machine, as the kernel says (Linux, sock_diag).

A listener of this user counts if it is bound to the address of the rank; one on all addresses, or of another user, counts if
its process has the lease in its environment, so that no other server of this machine is reached from outside.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from grid.errors import GridError

MARK = "CHOROID_WORK"
"""Variable in the environment of the processes of a job; its value is the lease."""
PROC = Path("/proc")
SOCK_DIAG = 4
"""The netlink family that lists sockets; unlike /proc/net/tcp it need not walk all connections."""
HEADER = struct.Struct("=IHHII")
GET_SOCKETS, DONE, FAILED = 18, 3, 2
REQUEST_ALL = 0x301
LISTENING = 1 << 10
"""The state TCP_LISTEN in a set of states."""
MAPPED = bytes(10) + b"\xff\xff"
"""Before an IPv4 address that is written as one of IPv6."""
Listener = tuple[bytes, int, int, int]
"""Address, port, user, number of the socket (inode)."""


class Listeners:
    """The listeners of one job at one rank."""

    def __init__(self, address: str, lease: str, proc: Path = PROC) -> None:
        """Prepare it.

        Args:
            address: IPv4 address of the rank.
            lease: Name of the work lease.
            proc: Where the kernel's accounts of processes are.

        Raises:
            GridError: The kernel does not list sockets.
        """
        own = socket.inet_aton(address)
        self._own = (own + bytes(12), MAPPED + own)
        self._mark = f"{MARK}={lease}".encode()
        self._proc = proc
        self._judged: dict[int, bool] = {}
        """Listeners on all addresses and of other users, by the number of their socket: whether they are the job's."""
        try:
            self._kernel = _kernel()
            self.listening()
        except (OSError, AttributeError) as error:
            raise GridError(
                f"the kernel does not say which ports are open ({error}). Likely cause: this is not Linux, or its module"
                " tcp_diag is missing. Next: load it (modprobe tcp_diag), or take work leases on another machine"
            ) from None

    def close(self) -> None:
        """Close the connection to the kernel."""
        self._kernel.close()

    def ports(self) -> frozenset[int]:
        """Return the ports on which the job listens now."""
        found: set[int] = set()
        anywhere: dict[int, int] = {}
        for address, port, user, inode in self.listening():
            if address in self._own and user == os.getuid():
                found.add(port)
            elif address in self._own or not any(address):
                anywhere[inode] = port
        if anywhere.keys() != self._judged.keys():
            unknown = anywhere.keys() - self._judged.keys()
            known = self._of_the_job() if unknown else set()
            self._judged = {each: self._judged.get(each, each in known) for each in anywhere}
        return frozenset(found | {port for inode, port in anywhere.items() if self._judged[inode]})

    def listening(self) -> list[Listener]:
        """Return every TCP socket of this network namespace that listens. Raises OSError."""
        try:
            return self._listed()
        except OSError:
            self._kernel.close()
            self._kernel = _kernel()  # a late answer must not be taken for the next one
            raise

    def _listed(self) -> list[Listener]:
        request = struct.pack("=BBBB48xII", 0, 0, 0, 0, LISTENING, 0)
        self._kernel.send(HEADER.pack(HEADER.size + len(request), GET_SOCKETS, REQUEST_ALL, 1, 0) + request)
        found: list[Listener] = []
        while True:
            for kind, body in _messages(self._kernel.recv(1 << 17)):
                if kind == DONE:
                    return found
                if kind == FAILED:
                    raise OSError(-struct.unpack_from("=i", body)[0], "sock_diag")
                found.append((body[8:24], *struct.unpack_from(">H", body, 4), *struct.unpack_from("=II", body, 64)))

    def _of_the_job(self) -> set[int]:
        """Return the numbers of all sockets of processes that have the lease in their environment."""
        found = set()
        for process in self._proc.glob("[0-9]*"):
            with suppress(OSError):
                if self._mark not in (process / "environ").read_bytes().split(b"\0"):
                    continue
                for link in (process / "fd").iterdir():
                    with suppress(OSError, ValueError):
                        found.add(int(os.readlink(link).removeprefix("socket:[").removesuffix("]")))
        return found


def _kernel() -> socket.socket:
    found = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, SOCK_DIAG)
    found.settimeout(1.0)
    return found


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    while data:
        length, kind, *_ = HEADER.unpack_from(data)
        yield kind, data[HEADER.size : length]
        data = data[(length + 3) & ~3 :]
