"""Lock this process in, without one layer if asked, and attempt something; write what came of it to the standard output.

`python locked_attempt.py ATTEMPT LAYERS`: LAYERS are names of functions of controller.sandbox.lock, or "all".
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import socket
import subprocess
import sys
import threading

from controller.sandbox import lock as locking
from controller.sandbox.limits import MIB, ModelLimits

LIBC = ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _fork() -> None:
    if os.fork() == 0:
        os._exit(0)


def _thread() -> None:
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()


def _memory() -> None:
    block = bytearray(200 * MIB)
    block[-1] = 1


ATTEMPTS = {
    "nothing": lambda: None,
    "read a file": lambda: os.close(os.open("/etc/hostname", os.O_RDONLY)),
    "write a file": lambda: os.close(os.open("/tmp/choroid-escaped", os.O_CREAT | os.O_WRONLY)),
    "list files": lambda: os.listdir("/"),
    "remove a file": lambda: os.unlink("/tmp/choroid-no-such-file"),
    "open a socket": lambda: socket.socket().close(),
    "fork": _fork,
    "execute": lambda: subprocess.run(["/bin/true"]),
    "start a thread": _thread,
    "trace": lambda: _checked(LIBC.ptrace(16, os.getppid(), None, None)),
    "signal the owner": lambda: os.kill(os.getppid(), 0),
    "raise a limit": lambda: _checked(LIBC.prctl(4, 1, 0, 0, 0)),
    "map code": lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close(),
    "read another process": lambda: _checked(LIBC.syscall(ctypes.c_long(310), os.getppid(), None, 0, None, 0, 0)),
    "take much memory": _memory,
}


def main() -> None:
    attempt, layers = sys.argv[1], sys.argv[2].split(",")
    limits = ModelLimits(max_memory=100 * MIB)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if layers == ["all"]:
        locking.lock(limits)
    if "no_new_privileges" in layers:
        locking.no_new_privileges()
    if "limit_resources" in layers:
        locking.limit_resources(limits)
    if "restrict_files" in layers:
        locking.restrict_files()
    if "filter_calls" in layers:
        locking.filter_calls(locking._machine())
    try:
        ATTEMPTS[attempt]()
    except (OSError, MemoryError, RuntimeError) as error:
        os.write(1, f"denied: {type(error).__name__}".encode())
    else:
        os.write(1, b"done")
    os._exit(0)


main()
