"""The process of a protocol on a kernel that lacks a layer: its system call fails. `old_kernel_child.py LAYER …`."""

from __future__ import annotations

import ctypes
import errno
import sys
from typing import Any

from controller.runs import python_child
from controller.sandbox import lock

missing = {"Landlock": 444, "seccomp": 317}[sys.argv.pop(1)]


class OldKernel:
    """The C library, with one system call that does not exist."""

    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def syscall(self, number: Any, *arguments: Any) -> int:
        if number.value == missing:
            ctypes.set_errno(errno.ENOSYS)
            return -1
        return int(ctypes.CDLL(None, use_errno=True).syscall(number, *arguments))


lock._libc = OldKernel  # type: ignore[assignment]
python_child.main()
