"""Worker processes that end with this process, however it ends."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import wait
from threading import Event, Thread, main_thread
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
TIDY_S = 30.0
"""Time for a worker whose parent is gone to remove its temporary files (s)."""
AGAIN_S = 10.0
"""Time after which it is interrupted again: Python drops an interrupt that falls into a destructor or a callback of C (s)."""
_idle = Event()
"""In a worker: no task is running."""
_idle.set()


class Workers(ProcessPoolExecutor):
    """A pool of `jobs` processes."""

    def __init__(self, jobs: int) -> None:
        os.environ["PYTHONSAFEPATH"] = (
            "1"  # keep stray modules in the working directory out of the workers (choroid.common.child)
        )
        super().__init__(jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_end_with_parent)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """See :class:`concurrent.futures.Executor`."""
        return super().submit(partial(_busily, fn, *args, **kwargs))


@contextmanager
def workers(jobs: int) -> Iterator[Workers]:
    """Yield a pool of `jobs` processes; an exception within the block cancels all tasks that have not started."""
    with Workers(jobs) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _busily(fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    _idle.clear()
    try:
        return fn(*args, **kwargs)
    finally:
        _idle.set()


def _end_with_parent() -> None:
    """End this worker when its parent dies: a killed parent cannot tell it, and a simulation would run on for an
    hour.

    A background process of a shell ignores SIGINT, and so would its children. SIGTERM keeps its default: a pool
    uses it to end its processes when one of them has died.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    wait([parent.sentinel])
    main = main_thread().ident or 0
    for _ in range(round(TIDY_S / AGAIN_S)):
        if _idle.is_set():
            break
        signal.pthread_kill(main, signal.SIGINT)  # interrupts a call that waits, too
        _idle.wait(AGAIN_S)
    os._exit(1)
