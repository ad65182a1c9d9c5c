"""A virtual-time loop on which one program can be frozen or killed while the rest continues.

Controller, devices and guard share one loop in a campaign, but do not fail together. What belongs to a controller
is known by its context: every task, timer and callback that it makes inherits :data:`LIFE`. Nothing of a frozen
life runs until it is thawed, like a stopped process. Nothing of a killed life ever runs again: no `finally`, no
handler, as with SIGKILL.
"""

from __future__ import annotations

import asyncio
from contextvars import Context, ContextVar
from heapq import heapify, heappush
from typing import Any

from sim.virtual_time import VirtualTimeLoop

LIFE: ContextVar[int] = ContextVar("verification.campaign.life", default=0)
"""Number of the controller's life; 0 is everything else: devices, guard, people, the campaign itself."""
PRUNE_AT = 1000


class _Parked:
    """Deferred work of a frozen life."""

    __slots__ = ("ready", "timers")

    def __init__(self) -> None:
        self.ready: list[asyncio.Handle] = []
        self.timers: list[tuple[float, int, Any]] = []


class LifeLoop(VirtualTimeLoop):
    """A virtual-time loop with lives. Without a frozen life it behaves as its parent."""

    def __init__(self) -> None:
        self._parked: dict[int, _Parked] = {}
        self._dead: set[int] = set()
        self._tasks: dict[int, list[asyncio.Task[Any]]] = {}
        super().__init__()
        self._nothing = asyncio.Handle(lambda: None, (), self)
        self._nothing.cancel()
        self.set_task_factory(self._begin_task)

    # --- freezing and killing ---------------------------------------------------------------------------

    def freeze(self, life: int) -> None:
        """Run nothing of `life` from now on; a running step continues to its next await."""
        if life in self._parked:
            return
        parked = self._parked[life] = _Parked()
        ready = self._ready  # type: ignore[attr-defined]
        for index, handle in enumerate(ready):
            if handle._context.get(LIFE, 0) == life:
                parked.ready.append(handle)
                ready[index] = self._nothing  # the loop has already counted this round
        timers = self._timers
        parked.timers = [entry for entry in timers if entry[2]._context.get(LIFE, 0) == life]
        timers[:] = [entry for entry in timers if entry[2]._context.get(LIFE, 0) != life]
        heapify(timers)

    def thaw(self, life: int) -> None:
        """Continue `life`; overdue timers run at once, in order."""
        if life in self._dead:
            return
        parked = self._parked.pop(life, None)
        if parked is None:
            return
        self._ready.extend(parked.ready)  # type: ignore[attr-defined]
        for entry in parked.timers:
            heappush(self._timers, entry)

    def kill(self, life: int) -> None:
        """Never run anything of `life` again."""
        for task in self._tasks.get(life, ()):
            if task.done() and not task.cancelled():
                task.exception()  # retrieved: a dead process does not log it
        self.freeze(life)
        self._dead.add(life)
        self._parked[life].timers.clear()

    async def bury(self, life: int) -> None:
        """Let the killed tasks of `life` end, when nothing of theirs can have an effect any more."""
        self._dead.discard(life)
        self.thaw(life)
        for _ in range(10):
            left = self.tasks_of(life)
            if not left:
                return
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=1.0)
        for task in left:
            task._log_destroy_pending = False  # type: ignore[attr-defined]

    def tasks_of(self, life: int) -> list[asyncio.Task[Any]]:
        """Return every task of `life` that has not ended."""
        left = self._tasks[life] = [task for task in self._tasks.get(life, ()) if not task.done()]
        return list(left)

    # --- loop methods -----------------------------------------------------------------------------------

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """See :class:`asyncio.AbstractEventLoop`; defers the work of a frozen life."""
        handle = super().call_soon(callback, *args, context=context)
        if self._parked:
            life = LIFE.get() if context is None else context.get(LIFE, 0)
            if life in self._parked:
                self._ready.pop()  # type: ignore[attr-defined]
                self._parked[life].ready.append(handle)
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """See :class:`asyncio.AbstractEventLoop`; defers the work of a frozen life."""
        timer = super().call_at(when, callback, *args, context=context)
        if self._parked:
            life = LIFE.get() if context is None else context.get(LIFE, 0)
            if life in self._parked:
                timers = self._timers
                index = next(index for index, entry in enumerate(timers) if entry[2] is timer)
                entry = timers.pop(index)
                heapify(timers)
                if life not in self._dead:
                    self._parked[life].timers.append(entry)
        return timer

    def _begin_task(
        self, loop: asyncio.AbstractEventLoop, work: Any, context: Context | None = None
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, context=context)
        life = LIFE.get() if context is None else context.get(LIFE, 0)
        if life:
            tasks = self._tasks.setdefault(life, [])
            tasks.append(task)
            if len(tasks) > PRUNE_AT:
                self.tasks_of(life)
        return task
