"""What signals mean to a process of a rig: an orderly end, or an emergency stop.

The emergency stop by SIGUSR1 needs neither web server nor password, only the rights of the controller's user.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controller.process.controller import Controller


def stop_on_signals(stop: asyncio.Event, duration_s: float | None) -> None:
    """Set `stop` on SIGINT, SIGTERM, or after `duration_s` real seconds (whatever the loop's speed)."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
        loop.add_signal_handler(number, stop.set)
    if duration_s is not None:
        signal.setitimer(signal.ITIMER_REAL, duration_s)


def stop_rig_on_usr1(controller: Controller) -> None:
    """Call :meth:`~controller.process.controller.Controller.emergency_stop` on SIGUSR1 to this process, from now
    on.
    """
    loop = asyncio.get_running_loop()
    stopping: set[asyncio.Task[None]] = set()

    def press() -> None:
        task = loop.create_task(controller.emergency_stop("signal", f"SIGUSR1 to process {os.getpid()}"))
        stopping.add(task)
        task.add_done_callback(stopping.discard)

    loop.add_signal_handler(signal.SIGUSR1, press)
