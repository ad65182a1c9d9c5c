"""Defects of a driver in its process: leaks, blocking, other clocks."""
# The forbidden calls below are intentional.
# ruff: noqa: TID251, S311, ASYNC251

from __future__ import annotations

import asyncio
import datetime
import os
import random
import threading
import time
from typing import Any

from drivers.device import Device
from verification.conformance.broken.making import Broken, any_driver, around_calls

_BLOCK_S = 0.02
_THREAD_S = 0.5


def _kept(device: Device) -> list[Any]:
    """Return the list that keeps a driver's leaks alive."""
    kept: list[Any] = device.__dict__.setdefault("left_behind", [])
    return kept


async def _leave_a_task(device: Device) -> None:
    _kept(device).append(asyncio.ensure_future(asyncio.sleep(1e7)))


async def _leave_a_descriptor(device: Device) -> None:
    if len(_kept(device)) < 4:
        _kept(device).append(os.open(os.devnull, os.O_RDONLY))


async def _leave_a_thread(device: Device) -> None:
    if not _kept(device):
        _kept(device).append(threading.Thread(target=time.sleep, args=(_THREAD_S,), daemon=True))
        _kept(device)[0].start()


async def _leave_bytes(device: Device) -> None:
    _kept(device).append(bytes(300))


async def _block(device: Device) -> None:
    until_s = time.perf_counter() + _BLOCK_S
    while time.perf_counter() < until_s:
        pass


async def _sleep(device: Device) -> None:
    time.sleep(0.002)


async def _spin(device: Device) -> None:
    for _ in range(2000):
        await asyncio.sleep(0)


async def _look_at_the_clock(device: Device) -> None:
    _kept(device)[:] = [time.time()]


async def _look_at_the_date(device: Device) -> None:
    _kept(device)[:] = [datetime.datetime.now(datetime.UTC)]


async def _draw_lots(device: Device) -> None:
    _kept(device)[:] = [random.random()]


MANNERS: tuple[Broken, ...] = (
    Broken("task left", "each poll leaves a task behind", "left-behind", around_calls(_leave_a_task), any_driver),
    Broken(
        "descriptor left",
        "polls leave file descriptors open",
        "left-behind",
        around_calls(_leave_a_descriptor),
        any_driver,
    ),
    Broken("thread started", "a thread is started", "one-clock", around_calls(_leave_a_thread), any_driver),
    Broken(
        "memory grows", "each poll keeps some bytes for ever", "left-behind", around_calls(_leave_bytes), any_driver
    ),
    Broken("blocks for 20 ms", "each poll keeps the loop for 20 ms", "no-blocking", around_calls(_block), any_driver),
    Broken("spins", "each poll goes round the loop without waiting", "no-blocking", around_calls(_spin), any_driver),
    Broken(
        "sleeps in truth", "each poll sleeps for 2 ms on the real clock", "one-clock", around_calls(_sleep), any_driver
    ),
    Broken("wall clock", "each poll reads the wall clock", "one-clock", around_calls(_look_at_the_clock), any_driver),
    Broken("date", "each poll asks for the date", "one-clock", around_calls(_look_at_the_date), any_driver),
    Broken("chance", "each poll draws lots", "one-clock", around_calls(_draw_lots), any_driver),
)
"""Defects of any driver in its process."""
