"""SIGUSR1 as emergency stop: needs neither web server nor password, only the rights of the controller's user."""

from __future__ import annotations

import asyncio
import os
import signal

from controller.process.controller import Controller


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
