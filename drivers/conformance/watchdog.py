"""Time limit for a driver under trial: ends a call that hangs, blocks the thread, or spins."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

REPEAT_S = 0.5
"""Interval at which the alarm is repeated for a driver that swallows it (s)."""


class GaveUp(BaseException):
    """The trial has lasted too long; not an Exception, so that a driver which swallows those does not swallow this."""


@contextmanager
def watchdog(max_s: float) -> Iterator[None]:
    """Raise :class:`GaveUp` in the running code when the block has not ended after `max_s` seconds of real time.

    Works only in the main thread of a system with interval timers; elsewhere the block runs without a limit.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    rung: list[float] = []
    text = f"it has not ended after {max_s:g} s of real time: it hangs, blocks or spins"

    def ring(*_: object) -> NoReturn:
        rung.append(max_s)
        if (loop := asyncio._get_running_loop()) is not None:
            loop.stop()  # an exception within a callback ends only that callback
        raise GaveUp(text)

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max_s, REPEAT_S)
    try:
        yield
    except Exception as error:
        if rung:
            raise GaveUp(text) from error
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
