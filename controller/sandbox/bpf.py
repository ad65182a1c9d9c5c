"""Assemble seccomp filters: an allow-list of system calls, of which any other one ends the process or is refused; or a list
of calls that are refused (:mod:`controller.sandbox.refused`), for programs that use files and the network.

Sources: linux/seccomp.h, linux/bpf_common.h, linux/audit.h, and the system call tables of x86-64 and arm64.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LOAD, JUMP_EQUAL, JUMP_FROM, JUMP_ANY_BIT, JUMP, MASK, RETURN = 0x20, 0x15, 0x35, 0x45, 0x05, 0x54, 0x06
ALLOW, KILL_PROCESS, REFUSE = 0x7FFF0000, 0x80000000, 0x00050000 | errno.EACCES
UNKNOWN = 0x00050000 | errno.ENOSYS
"""The answer of a kernel without the call: a library then does it in another way."""
NUMBER, MACHINE, FIRST_ARGUMENT = 0, 4, 16
"""Offsets in `struct seccomp_data`."""

PROT_EXEC = 4
SIGABRT = 6


@dataclass(frozen=True, slots=True)
class Machine:
    """Describes one processor architecture: its number in `seccomp_data.arch`, its number of seccomp(2), and the system
    calls that are allowed.
    """

    audit: int
    seccomp: int
    calls: Mapping[str, int]
    waiting: Mapping[str, int]
    """What an event loop over files that are open needs as well."""


@dataclass(frozen=True, slots=True)
class CallArgument:
    """A condition on one argument of a system call: its lower 32 bits, masked, are one of the values."""

    place: int
    values: Sequence[int]
    mask: int = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class CallChoice:
    """What is decided of a call: one verdict if all conditions of any of the alternatives hold, another one otherwise."""

    alternatives: Sequence[Sequence[CallArgument]]
    hit: int
    miss: int


X86_64 = Machine(
    audit=0xC000003E,
    seccomp=317,
    calls={
        "read": 0, "write": 1, "futex": 202, "clock_gettime": 228, "mmap": 9, "munmap": 11, "madvise": 28, "brk": 12,
        "mprotect": 10, "mremap": 25, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "sigaltstack": 131,
        "sched_yield": 24, "nanosleep": 35, "clock_nanosleep": 230, "gettimeofday": 96, "getrandom": 318, "getpid": 39,
        "gettid": 186, "getcpu": 309, "restart_syscall": 219, "tgkill": 234, "exit": 60, "exit_group": 231,
    },
    waiting={"epoll_wait": 232, "epoll_pwait": 281, "epoll_ctl": 233, "close": 3, "fstat": 5, "lseek": 8},
)  # fmt: skip
ARM64 = Machine(
    audit=0xC00000B7,
    seccomp=277,
    calls={
        "read": 63, "write": 64, "futex": 98, "clock_gettime": 113, "mmap": 222, "munmap": 215, "madvise": 233, "brk": 214,
        "mprotect": 226, "mremap": 216, "rt_sigaction": 134, "rt_sigprocmask": 135, "rt_sigreturn": 139, "sigaltstack": 132,
        "sched_yield": 124, "nanosleep": 101, "clock_nanosleep": 115, "gettimeofday": 169, "getrandom": 278, "getpid": 172,
        "gettid": 178, "getcpu": 168, "restart_syscall": 128, "tgkill": 131, "exit": 93, "exit_group": 94,
    },
    waiting={"epoll_pwait": 22, "epoll_ctl": 21, "close": 57, "fstat": 80, "lseek": 62},
)  # fmt: skip
MACHINES: Mapping[str, Machine] = {"x86_64": X86_64, "aarch64": ARM64}
"""Machines that a filter is known for, by the name that uname(2) gives."""

X32_CALLS = 0x40000000
"""System calls of the x32 interface of x86-64 begin here; they would bypass a filter by number."""


def assemble(machine: Machine, pid: int, *, waits: bool = False) -> bytes:
    """Return the filter program for a process.

    Memory can be mapped but not made executable, and the only signal is that of `abort`, to the process itself.

    Args:
        machine: Whose numbers to use.
        pid: The process that is to be locked in.
        waits: Whether the process has an event loop. A call that is not allowed then fails as "permission denied", so that
            the process can say in which line it was.
    """
    other = REFUSE if waits else KILL_PROCESS
    calls = {**machine.calls, **(machine.waiting if waits else {})}
    program = _begin(machine)
    for name, number in calls.items():
        program += _allow(name, number, pid, other)
    program.append(_step(RETURN, other))
    return b"".join(program)


def assemble_refusing(machine: Machine, choices: Mapping[int, CallChoice | int], known: int) -> bytes:
    """Return a filter program that allows all calls but those of a list.

    Args:
        machine: Whose numbers are used.
        choices: What is decided of a call, by its number; a number is the verdict itself.
        known: Numbers from here on are of later kernels; they are unknown.
    """
    program = [*_begin(machine), _step(JUMP_FROM, known, no=1), _step(RETURN, UNKNOWN)]
    for number, choice in choices.items():
        body = [_step(RETURN, choice)] if isinstance(choice, int) else _choose(choice)
        program += [_step(JUMP_EQUAL, number, no=len(body)), *body]
    program.append(_step(RETURN, ALLOW))
    return b"".join(program)


def _begin(machine: Machine) -> list[bytes]:
    """Return the steps that end the process of another machine or interface, and load the number of the call."""
    return [
        _step(LOAD, MACHINE),
        _step(JUMP_EQUAL, machine.audit, yes=1),
        _step(RETURN, KILL_PROCESS),
        _step(LOAD, NUMBER),
        _step(JUMP_FROM, X32_CALLS, no=1),
        _step(RETURN, KILL_PROCESS),
    ]


def _choose(choice: CallChoice) -> list[bytes]:
    """Return the steps that end the filter by a choice."""
    program: list[bytes] = []
    for alternative in choice.alternatives:
        steps = [_step(RETURN, choice.hit)]
        for each in reversed(alternative):
            values = [_step(JUMP_EQUAL, value, yes=len(each.values) - at) for at, value in enumerate(each.values)]
            loads = [_step(LOAD, FIRST_ARGUMENT + 8 * each.place), _step(MASK, each.mask)]
            steps = [*loads, *values, _step(JUMP, len(steps)), *steps]
        program += steps
    return [*program, _step(RETURN, choice.miss)]


def _allow(name: str, number: int, pid: int, other: int) -> list[bytes]:
    """Return the steps that end the filter if the call is `number`."""
    if name in ("mmap", "mprotect"):
        body = [_step(LOAD, FIRST_ARGUMENT + 2 * 8), _step(JUMP_ANY_BIT, PROT_EXEC, no=1), _step(RETURN, other)]
    elif name == "tgkill":
        body = [_step(LOAD, FIRST_ARGUMENT), _step(JUMP_EQUAL, pid, yes=1), _step(RETURN, other)]
        body += [_step(LOAD, FIRST_ARGUMENT + 2 * 8), _step(JUMP_EQUAL, SIGABRT, yes=1), _step(RETURN, other)]
    else:
        body = []
    body.append(_step(RETURN, ALLOW))
    return [_step(JUMP_EQUAL, number, no=len(body)), *body]


def _step(code: int, k: int, *, yes: int = 0, no: int = 0) -> bytes:
    """Return one `struct sock_filter`: code, steps to skip if true and if false, operand."""
    return struct.pack("=HBBI", code, yes, no, k)
