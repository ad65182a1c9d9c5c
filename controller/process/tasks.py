"""Named background tasks of the controller, their intervals, and calls whose failure must not stop it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any


class Timer:
    """Come due every `period_s` of loop time; the first time is at once."""

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s
        self._next_s = 0.0

    def due(self, now_s: float) -> bool:
        """Return whether the period has passed, and begin the next one if so."""
        if now_s < self._next_s:
            return False
        self._next_s = now_s + self._period_s
        return True


class Tasks:
    """Runs work in parallel to the tick. `failed(name, error)` receives every exception."""

    def __init__(self, failed: Callable[[str, BaseException], None]) -> None:
        self._failed = failed
        self._running: dict[str, asyncio.Task[object]] = {}

    def running(self, name: str) -> bool:
        """Return whether the task `name` is running."""
        return name in self._running

    def start(self, name: str, work: Coroutine[Any, Any, object]) -> None:
        """Start `work` as the task `name`."""
        task = self._running[name] = asyncio.create_task(work, name=name)
        task.add_done_callback(lambda done: self._ended(name, done))

    def isolate(self, name: str, work: Callable[..., object], *arguments: object) -> None:
        """Call `work`; an exception is reported and ends nothing."""
        try:
            work(*arguments)
        except Exception as error:
            self._failed(name, error)

    async def isolated(self, name: str, work: Awaitable[object]) -> None:
        """Await `work`; an exception is reported and ends nothing."""
        try:
            await work
        except Exception as error:
            self._failed(name, error)

    async def cancel(self) -> None:
        """Cancel every task and wait until it has ended."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _ended(self, name: str, task: asyncio.Task[object]) -> None:
        self._running.pop(name, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(name, error)
