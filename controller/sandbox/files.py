"""Wait for a file to the microsecond: `select.poll` knows milliseconds only, and `select.select` only small file numbers."""

from __future__ import annotations

import ctypes

from controller.children.accounts import now_s

POLLIN, POLLOUT = 1, 4


class _PollFile(ctypes.Structure):
    """`struct pollfd`."""

    _fields_ = (("file", ctypes.c_int), ("events", ctypes.c_short), ("returned", ctypes.c_short))


class _Timespec(ctypes.Structure):
    """`struct timespec`."""

    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


_ppoll = ctypes.CDLL(None, use_errno=True).ppoll


def ready(file: int, events: int, until: float) -> bool:
    """Wait until a file is ready; return False at the deadline, a time of :func:`now_s`."""
    while True:
        left_ns = max(0, int((until - now_s()) * 1e9))
        entry = _PollFile(file, events, 0)
        limit = _Timespec(left_ns // 1_000_000_000, left_ns % 1_000_000_000)
        result = int(_ppoll(ctypes.byref(entry), ctypes.c_ulong(1), ctypes.byref(limit), None))
        if result >= 0:
            return result > 0
        if not left_ns:  # interrupted by a signal at the deadline
            return False
