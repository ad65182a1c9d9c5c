"""Lock this process in: rlimits, Landlock, seccomp, none of which can be undone. Linux only.

The layers overlap on purpose: files are out of reach by Landlock, by the limit of zero open files and by seccomp. A function
raises :class:`SandboxUnavailable` when its layer is not to be had; a process that is not locked must not run a model or a
protocol of people.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import resource
import signal
import struct
from collections.abc import Iterable
from pathlib import Path

from controller.sandbox.bpf import MACHINES, Machine, assemble, assemble_refusing
from controller.sandbox.errors import SandboxUnavailable
from controller.sandbox.limits import ProcessLimits
from controller.sandbox.refused import KNOWN_CALLS, refused_calls

PR_SET_NO_NEW_PRIVS = 38
SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC = 1, 1
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
LANDLOCK_RULE_PATH_BENEATH = 1
EXECUTE, READ_FILE, READ_FOLDER = 0b1, 0b100, 0b1000
WRITE = 0b1_1011_0010
"""Write files, remove files and folders, make folders and files."""
TRUNCATE, TRUNCATE_SINCE = 1 << 14, 3
LANDLOCK_CREATE_RULESET_VERSION = 1
FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}
"""Version of Landlock → number of its rights on files, which are the lowest bits."""


def lock(limits: ProcessLimits, *, waits: bool = False) -> None:
    """Apply all layers, and check from inside that they hold.

    Args:
        limits: Memory (over what the process has now) and processor time.
        waits: Whether the process has an event loop (:func:`controller.sandbox.bpf.assemble`).

    Raises:
        SandboxUnavailable: A layer cannot be applied; the process must end.
    """
    machine = _machine()
    require_one_thread()
    no_new_privileges()
    limit_resources(limits)
    restrict_files()
    require_closed(errno.EACCES, "Landlock")
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
    require_closed(errno.EMFILE, "the limit of open files")
    filter_calls(machine, waits=waits)


def die_with_the_owner(lifeline: int, *, group: bool = False) -> None:
    """Let the kernel kill this process when the other end of a pipe closes, also in the midst of a computation.

    Args:
        lifeline: The own end of the pipe.
        group: Whether all processes of the group die, which this process leads.
    """
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpid() if group else os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)


def require_one_thread() -> None:
    """Check that no other thread exists: Landlock binds only the thread that calls it."""
    threads = os.listdir("/proc/self/task")
    if len(threads) != 1:
        raise SandboxUnavailable(
            f"the worker has {len(threads)} threads before it is locked. Likely cause: a library started some at its import."
            " Next: report this with the versions of its libraries"
        )


def no_new_privileges() -> None:
    """Rule out that an executed file gives privileges."""
    _call("no_new_privs", _libc().prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def limit_resources(limits: ProcessLimits) -> None:
    """Limit memory and processor time; no new files, processes, locked memory, messages or core dumps."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    memory = pages * os.sysconf("SC_PAGE_SIZE") + limits.max_memory
    wanted = {
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_NPROC: 0,
        resource.RLIMIT_NOFILE: _first_free_file() + 1,  # Landlock needs one for its rules
    }
    if limits.max_cpu_s is not None:
        wanted[resource.RLIMIT_CPU] = limits.max_cpu_s + int(sum(os.times()[:2])) + 1
    for what, limit in wanted.items():
        resource.setrlimit(what, (limit, limit))


def restrict_files(
    readable: Iterable[Path] = (),
    *,
    writable: Iterable[Path] = (),
    runnable: Iterable[Path] = (),
    network: bool = False,
) -> None:
    """Deny all files, TCP ports and signals to others, as far as this version of Landlock knows them.

    Args:
        readable: Files and folders that may still be read. What is open already stays usable, also for writing.
        writable: Those that may be read and written, with all below them.
        runnable: Those that may be read and executed.
        network: Whether TCP ports stay open.
    """
    libc = _libc()
    version = _call("Landlock", libc.syscall, LANDLOCK_CREATE_RULESET, None, 0, LANDLOCK_CREATE_RULESET_VERSION)
    rights = max(count for since, count in FILE_RIGHTS.items() if since <= version)
    attributes = [(1 << rights) - 1]
    if version >= 4:
        attributes.append(0 if network else 0b11)  # bind and connect TCP
    if version >= 6:
        attributes.append(0b11)  # abstract sockets and signals outside the sandbox
    packed = struct.pack(f"={len(attributes)}Q", *attributes)
    rules = _call("Landlock", libc.syscall, LANDLOCK_CREATE_RULESET, packed, len(packed), 0)
    write = WRITE | (TRUNCATE if version >= TRUNCATE_SINCE else 0)
    try:
        for paths, more in ((readable, 0), (writable, write), (runnable, EXECUTE)):
            for path in paths:
                _allow(rules, path, READ_FILE | READ_FOLDER | more)
        _call("Landlock", libc.syscall, LANDLOCK_RESTRICT_SELF, rules, 0)
    finally:
        os.close(rules)


OF_FILES = EXECUTE | READ_FILE | 0b10 | TRUNCATE
"""Rights that a file can have; the others are of folders."""


def _allow(rules: int, path: Path, rights: int) -> None:
    beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = struct.pack("=Qi", rights if path.is_dir() else rights & OF_FILES, beneath)
        words = (rules, LANDLOCK_RULE_PATH_BENEATH, rule, 0)
        _call("Landlock", _libc().syscall, LANDLOCK_ADD_RULE, *words)
    finally:
        os.close(beneath)


def require_closed(error: int, layer: str) -> None:
    """Check from inside that a layer denies a file, by its error number."""
    try:
        file = os.open("/proc/self/status", os.O_RDONLY)
    except OSError as denied:
        if denied.errno == error:
            return
        raise SandboxUnavailable(f"{layer} did not deny a file, but: {denied}") from None
    os.close(file)
    raise SandboxUnavailable(
        f"a file could be opened in spite of {layer}. Next: report this with the version of the kernel"
    )


def filter_calls(machine: Machine, *, waits: bool = False) -> None:
    """Allow only the system calls of computing and of answering; with `waits`, those of an event loop as well."""
    _filter(machine, assemble(machine, os.getpid(), waits=waits))


def refuse_calls() -> None:
    """Refuse the system calls that lead around the restriction of files, or to other processes and services of the user.

    The program keeps files, TCP, threads and processes of its own; what it executes and starts is bound as well.
    """
    machine = _machine()
    _filter(machine, assemble_refusing(machine, refused_calls(machine, os.getpid()), KNOWN_CALLS))


def _filter(machine: Machine, program: bytes) -> None:
    steps = ctypes.create_string_buffer(program, len(program))

    class Program(ctypes.Structure):
        """`struct sock_fprog`."""

        _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_void_p)]

    filtering = Program(len(program) // 8, ctypes.addressof(steps))
    flags = SECCOMP_FILTER_FLAG_TSYNC
    _call("seccomp", _libc().syscall, machine.seccomp, SECCOMP_SET_MODE_FILTER, flags, ctypes.byref(filtering))


def _machine() -> Machine:
    name = platform.machine()
    if name not in MACHINES or platform.system() != "Linux":
        raise SandboxUnavailable(
            f"the sandbox needs Linux on {' or '.join(MACHINES)}; this is {platform.system()} on {name}"
        )
    return MACHINES[name]


def _first_free_file() -> int:
    free = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    os.close(free)
    return free


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(layer: str, function: ctypes._NamedFuncPointer, *arguments: object) -> int:
    """Call a C function; return its result. Raises SandboxUnavailable when the kernel refuses."""
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    result = int(function(*words))
    if result < 0:
        error = os.strerror(ctypes.get_errno())
        raise SandboxUnavailable(
            f"{layer} cannot be applied: {error}. Likely cause: the kernel is older than 5.13, or was built or started"
            f" without {layer}, or a container forbids it. Next: see docs/sandbox.md; nothing foreign runs without it"
        )
    return result
