"""Attempt what a locked rank must not do; print what came of each: `python locked_attempts.py SOCKET DATAGRAM OWNER OWNED`.

It is run by :mod:`tests.grid.test_locked`, once locked in and once not.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import resource
import socket
import sys
from collections.abc import Callable

LIBC = ctypes.CDLL(None, use_errno=True)
SERVICE, DATAGRAM, OWNER, OWNED = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]


def _call(name: str, *arguments: object) -> None:
    words = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    if getattr(LIBC, name)(*words) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _number(number: int, *arguments: object) -> None:
    _call("syscall", number, *arguments)


def _service() -> None:
    with socket.socket(socket.AF_UNIX) as found:
        found.connect(SERVICE)


def _datagram() -> None:
    first, second = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with first, second:
        first.sendto(b"act for me", DATAGRAM)


def _signal_by_a_file() -> None:
    first, second = socket.socketpair()
    with first, second:
        fcntl.fcntl(first, fcntl.F_SETOWN, OWNER)


def _owner_by_ioctl() -> None:
    first, second = socket.socketpair()
    with first, second:
        fcntl.ioctl(first, 0x8901, OWNER.to_bytes(4, sys.byteorder))


def _child(then: Callable[[], object]) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            then()
        except OSError as error:
            os._exit(error.errno or 1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status:
        raise OSError(status, os.strerror(abs(status)))


def _new_session() -> None:
    _child(os.setsid)


def _namespace() -> None:
    _child(lambda: _call("unshare", 0x10000000))


def _io_uring() -> None:
    parameters = ctypes.create_string_buffer(120)
    _number(425, 2, parameters)


def _queue() -> None:
    _call("mq_open", b"/choroid-test-queue", os.O_CREAT | os.O_RDWR, 0o600, None)


ATTEMPTS: dict[str, Callable[[], object]] = {
    "a service of the user": _service,
    "a service by datagrams": _datagram,
    "an abstract address": lambda: socket.socket(socket.AF_UNIX).bind("\0choroid-test-abstract"),
    "packets": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM).close(),
    "io_uring": _io_uring,
    "trace": lambda: _child(lambda: _call("ptrace", 0, 0, None, None)),
    "memory of another process": lambda: _number(310, os.getpid(), None, 0, None, 0, 0),
    "keys": lambda: _call("syscall", 250, 0, -3, 0),
    "a file without a path": lambda: os.close(os.memfd_create("code")),
    "a namespace": _namespace,
    "mode of a file": lambda: os.chmod(OWNED, 0o700),
    "times of a file": lambda: os.utime(OWNED, (1.0, 1.0)),
    "attributes of a file": lambda: os.setxattr(OWNED, "user.choroid", b"1"),
    "watch of a file": lambda: _call("inotify_init1", 0),
    "signal to the owner": lambda: os.kill(OWNER, 0),
    "signal by a file": _signal_by_a_file,
    "signal by ioctl": _owner_by_ioctl,
    "limits of the owner": lambda: resource.prlimit(OWNER, resource.RLIMIT_NOFILE),
    "processors of the owner": lambda: os.sched_setaffinity(OWNER, os.sched_getaffinity(0)),
    "priority of the owner": lambda: os.setpriority(os.PRIO_PROCESS, OWNER, os.getpriority(os.PRIO_PROCESS, OWNER)),
    "a session of its own": _new_session,
    "shared memory by number": lambda: _call("shmget", 0, 4096, 0o600),
    "a queue by name": _queue,
}


def _thread() -> None:
    import threading

    started = threading.Event()
    thread = threading.Thread(target=started.set)
    thread.start()
    thread.join()
    assert started.is_set()


def _loop() -> None:
    import asyncio

    async def echo() -> bytes:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readexactly(4))
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"back")
            found = await reader.readexactly(4)
            writer.close()
            return found

    assert asyncio.run(echo()) == b"back"


NEEDED: dict[str, Callable[[], object]] = {
    "threads": _thread,
    "TCP and an event loop": _loop,
    "processes": lambda: _child(lambda: None),
    "interfaces": socket.if_nameindex,
    "signal to itself": lambda: os.kill(os.getpid(), 0),
    "own limits": lambda: resource.getrlimit(resource.RLIMIT_NOFILE),
    "names": lambda: socket.getaddrinfo("127.0.0.1", 80),
}


def outcome(attempt: Callable[[], object]) -> str:
    """Return what came of an attempt."""
    try:
        attempt()
    except OSError as error:
        return type(error).__name__
    return "done"


print(json.dumps({name: outcome(each) for name, each in {**ATTEMPTS, **NEEDED}.items()}), flush=True)
