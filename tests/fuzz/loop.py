"""Running one coroutine after another in virtual time as fast as Python can: millions of them, each from a clean state."""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Coroutine
from functools import cache
from heapq import heappop
from typing import Any, TypeVar

from sim.virtual_time import VirtualTimeLoop

T = TypeVar("T")


class FuzzLoop(VirtualTimeLoop):
    """A virtual-time loop that keeps the first exception of any callback, and can be moved ahead in time."""

    def __init__(self) -> None:
        super().__init__()
        self.failure: BaseException | None = None

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """What escaped from a timer or a callback is a finding."""
        if self.failure is None:
            self.failure = context.get("exception") or RuntimeError(context["message"])

    def pass_s(self, seconds: float) -> None:
        """Let time go by without running what falls due meanwhile; that runs, late, when the loop runs next."""
        self._now_s += seconds

    def enter(self) -> None:
        """Be the running loop, though it does not run: what asks for the time and sets timers needs no more."""
        asyncio._set_running_loop(self)

    def leave(self) -> None:
        """No longer be it."""
        asyncio._set_running_loop(None)

    def drive(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run `coroutine` to its end. One that never really waits, which are most, costs no task and no round."""
        self.enter()
        try:
            while True:
                try:
                    future = coroutine.send(None)
                except StopIteration as end:
                    result: T = end.value
                    return result
                if future is None:  # asyncio.sleep(0)
                    self.advance(0.0)
                else:
                    future._asyncio_future_blocking = False
                    while not future.done():
                        self._round(float("inf"))
        finally:
            self.leave()

    def advance(self, seconds: float) -> None:
        """Let time go by and run what falls due, with this loop as the running one (:meth:`enter`)."""
        end_s = self._now_s + seconds
        while self._round(end_s):
            pass
        self._now_s = end_s

    def _round(self, until_s: float) -> bool:
        """Run what is ready, else what falls due next; False when that is later than `until_s`.

        asyncio's own rounds would do, and take three times as long as what is fuzzed.
        """
        timers, ready = self._timers, self._ready  # type: ignore[attr-defined]
        if not ready:
            while timers and timers[0][2]._cancelled:
                heappop(timers)
            if not timers or timers[0][0] > until_s:
                if until_s == float("inf"):
                    raise RuntimeError("it waits for something that nothing will ever bring")
                return False
            due_s, _, timer = heappop(timers)
            self._now_s = max(self._now_s, due_s)
            timer._scheduled = False
            ready.append(timer)
        while ready:
            handle = ready.popleft()
            if not handle._cancelled:
                try:
                    handle._context.run(handle._callback, *handle._args)
                except Exception as error:
                    self.call_exception_handler({"message": "a callback failed", "exception": error})
        return True

    def forget(self) -> None:
        """Drop all timers and callbacks, and the failure: the next run begins clean, at time 0."""
        self._timers.clear()
        self._ready.clear()  # type: ignore[attr-defined]
        self.cancelled = 0
        self.failure = None
        self._now_s = 0.0


@cache
def the_loop() -> FuzzLoop:
    """The loop of this process: each user begins with :meth:`FuzzLoop.forget`."""
    loop = FuzzLoop()
    atexit.register(loop.close)
    return loop
