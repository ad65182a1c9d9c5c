"""Processes that compute beside this one, and end with it however it ends."""

from __future__ import annotations

import _thread
import multiprocessing
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import wait
from threading import Thread

TIDY_S = 30.0
"""How long a process whose parent is gone may take to remove its temporary files."""


@contextmanager
def workers(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of `jobs` processes; what raises within the block cancels all that has not begun."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_end_with_parent) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _end_with_parent() -> None:
    """A parent that is killed cannot tell its workers, and a simulation would go on for an hour for nobody."""
    Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    wait([parent.sentinel])
    _thread.interrupt_main()
    time.sleep(TIDY_S)  # noqa: TID251  (a worker that nobody waits for; the simulation in it has virtual time)
    os._exit(1)
