"""Event loops with virtual or scaled time for the whole, unchanged stack.

:class:`VirtualTimeLoop` has no real input or output. When nothing is ready it jumps its own clock to the next
timer, so a day passes as fast as its work can be done, and the same program gives the same order of events every
time. :class:`ScaledLoop` is an ordinary selector loop whose `time()` runs a constant factor faster than life, for
the demo.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections import deque
from collections.abc import AsyncGenerator, Coroutine
from contextvars import Context, copy_context
from heapq import heapify, heappop, heappush
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")

MAX_CANCELLED = 100
"""So many cancelled timers, and more than half of all, are swept out of the heap."""
LEAP_S = 0.1
"""By how much a scaled clock may run on while its loop is busy: less than any device or limit waits for."""
LONGEST_S = 86_400.0
EPOLL_STEP_S = 0.001
MAX_SPEED = 600.0
"""Above this a scaled loop over real sockets can no longer keep its own timers."""


class VirtualDeadlock(RuntimeError):
    """Every task waits, and no event is left that could wake one."""


class _NoFiles(selectors.BaseSelector):
    """A selector that watches no files and refuses to."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> NoReturn:
        raise RuntimeError(
            "A virtual-time loop has no real input or output, but something opened a socket, a file or a subprocess"
            " on it. Likely cause: a component that belongs to real time. Next: give it an in-memory link, or use"
            " run_scaled()"
        )

    def unregister(self, fileobj: Any) -> NoReturn:
        raise KeyError(fileobj)

    def get_map(self) -> dict[Any, selectors.SelectorKey]:
        return {}


class _Soon(asyncio.Handle):
    """A handle without asyncio's debug bookkeeping: a simulation makes two dozen of these for each second of life."""

    __slots__ = ()
    _repr = None
    _source_traceback = None

    def __init__(self, callback: Any, args: Any, loop: asyncio.AbstractEventLoop, context: Context | None) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False


class _Timer(asyncio.TimerHandle):
    """A timer handle without asyncio's debug bookkeeping."""

    __slots__ = ()
    _repr = None
    _source_traceback = None

    _loop: VirtualTimeLoop

    def __init__(self, when: float, callback: Any, args: Any, loop: VirtualTimeLoop, context: Context | None) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._when = when
        self._scheduled = True

    def cancel(self) -> None:
        """Cancel this; its entry in the heap is removed later."""
        if not self._cancelled:
            self._cancelled = True
            self._callback, self._args = None, ()
            if self._scheduled:
                self._loop.cancelled += 1


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop on its own clock (seconds from `start_s`), deterministic and without waiting.

    Timers of the same moment run in the order in which they were set.
    """

    time_stands_still = True
    """While something else than this loop computes, such as the process of a Python protocol."""

    def __init__(self, *, start_s: float = 0.0) -> None:
        self._now_s = start_s
        self._timers: list[tuple[float, int, _Timer]] = []
        self._set = 0
        self.cancelled = 0
        """Timers in the heap that will never run."""
        super().__init__(_NoFiles())

    def time(self) -> float:
        """Return virtual seconds."""
        return self._now_s

    # This is the hottest path of a simulation. asyncio's own spends most of it on a selector that has nothing, on
    # comparing handles in Python, and on what its debug mode would want to know.

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Call soon, as asyncio does."""
        if self._closed:  # type: ignore[attr-defined]
            raise RuntimeError("Event loop is closed")
        handle = _Soon(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call after a delay, as asyncio does."""
        if self._closed:  # type: ignore[attr-defined]
            raise RuntimeError("Event loop is closed")
        when = self._now_s + delay
        timer = _Timer(when, callback, args, self, context)
        self._set = number = self._set + 1
        heappush(self._timers, (when, number, timer))
        return timer

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call at a time, as asyncio does; timers of the same moment run in the order of these calls."""
        if self._closed:  # type: ignore[attr-defined]
            raise RuntimeError("Event loop is closed")
        timer = _Timer(when, callback, args, self, context)
        self._set = number = self._set + 1
        heappush(self._timers, (when, number, timer))
        return timer

    def _run_once(self) -> None:
        """Run what is ready, round by round until the loop is stopped; jump to the next timer when nothing is ready."""
        ready: deque[asyncio.Handle] = self._ready  # type: ignore[attr-defined]
        take = ready.popleft
        while True:
            if self.cancelled > MAX_CANCELLED:
                self._sweep()
            self._queue_due(ready)
            for _ in range(len(ready)):
                handle = take()
                if not handle._cancelled:
                    try:
                        handle._context.run(handle._callback, *handle._args)  # type: ignore[attr-defined]
                    except (SystemExit, KeyboardInterrupt):
                        raise
                    except BaseException as error:
                        self.call_exception_handler(
                            {"message": f"Exception in callback {handle!r}", "exception": error, "handle": handle}
                        )
            if self._stopping:  # type: ignore[attr-defined]
                return

    def _sweep(self) -> None:
        """Remove the cancelled timers from the heap if they are more than half of it."""
        timers = self._timers
        if self.cancelled * 2 > len(timers):
            timers[:] = [each for each in timers if not each[2]._cancelled]
            heapify(timers)
            self.cancelled = 0

    def _queue_due(self, ready: deque[asyncio.Handle]) -> None:
        """Append the due timers to `ready`; if it is empty, jump to the next timer first."""
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heappop(timers)
            self.cancelled -= 1
        if not ready and not self._stopping:  # type: ignore[attr-defined]
            if not timers:
                raise VirtualDeadlock(self._deadlock())
            self._now_s = max(self._now_s, timers[0][0])
        now_s = self._now_s
        while timers and timers[0][0] <= now_s:
            timer = heappop(timers)[2]
            timer._scheduled = False
            if timer._cancelled:
                self.cancelled -= 1
            else:
                ready.append(timer)

    def _deadlock(self) -> str:
        waiting = [repr(task.get_coro()) for task in asyncio.all_tasks(self) if not task.done()]
        return (
            f"At {self._now_s:.3f} s of virtual time nothing is scheduled any more, yet {len(waiting)} task(s) wait:"
            f" {'; '.join(waiting)}. Likely cause: a future that is never completed, or real input and output awaited."
            " Next: look at what the named coroutines await"
        )

    def add_signal_handler(self, *_: Any, **__: Any) -> NoReturn:  # type: ignore[override]
        """Refuse, as on platforms without signal handlers; Python's own ones (Ctrl-C) work as usual."""
        raise NotImplementedError(
            "A virtual-time loop reads no file and so receives no signal; Ctrl-C still raises KeyboardInterrupt"
        )

    def _asyncgen_finalizer_hook(self, agen: AsyncGenerator[Any, Any]) -> None:
        """Close an abandoned generator: asyncio's own way goes through call_soon_threadsafe()."""
        self._asyncgens.discard(agen)  # type: ignore[attr-defined]
        if not self.is_closed():
            self.create_task(agen.aclose())

    def _make_self_pipe(self) -> None:
        """Make no self-pipe: no other thread wakes this loop."""

    def _close_self_pipe(self) -> None:
        """See :meth:`_make_self_pipe`."""

    def call_soon_threadsafe(self, *_: Any, **__: Any) -> NoReturn:  # type: ignore[override]
        """Refuse: a thread would make the order of events depend on the machine."""
        raise RuntimeError("A virtual-time loop has no threads: call_soon_threadsafe() would break determinism")

    def run_in_executor(self, *_: Any, **__: Any) -> NoReturn:  # type: ignore[override]
        """Refuse: a thread would make the order of events depend on the machine."""
        raise RuntimeError("A virtual-time loop has no threads: run_in_executor() would break determinism")


class ScaledLoop(asyncio.SelectorEventLoop):
    """A selector loop on real sockets whose `time()` runs at `speed` times real time; `set_speed` changes it without a jump.

    Time slows down rather than jump: when a round of callbacks, or the machine, takes longer than its share, the loop's
    clock goes on by :data:`LEAP_S` at most. At 60 times real time a busy twentieth of a second would otherwise be three
    seconds without any request, and a healthy rig would exceed every limit on silence.
    """

    def __init__(self, speed: float = 1.0) -> None:
        self._base_real_s = time.monotonic()  # noqa: TID251  (this loop is the clock)
        self._base_s = self._base_real_s
        self._max_s = LEAP_S
        super().__init__(_ScaledSelector(self))
        try:
            self._speed = _checked(speed)
        except ValueError:
            self.close()
            raise

    @property
    def speed(self) -> float:
        """Return the speed in multiples of real time, if the machine is fast enough."""
        return self._speed

    def time(self) -> float:
        """Return scaled seconds."""
        elapsed_s = (time.monotonic() - self._base_real_s) * self._speed  # noqa: TID251
        return self._base_s + min(elapsed_s, self._max_s)

    def set_speed(self, speed: float) -> None:
        """Change the speed from now on (1 to 600), without a jump of time."""
        checked = _checked(speed)
        self.may_pass(LEAP_S)
        self._speed = checked

    def may_pass(self, max_s: float) -> None:
        """Let at most `max_s` scaled seconds pass from now to the next such call."""
        self._base_s = self.time()
        self._base_real_s = time.monotonic()  # noqa: TID251
        self._max_s = max_s


class _ScaledSelector(selectors.DefaultSelector):
    """Waits `timeout / speed` real seconds, to the microsecond."""

    def __init__(self, loop: ScaledLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        loop = self._loop
        loop.may_pass(LEAP_S + (LONGEST_S if timeout is None else max(timeout, 0.0)))
        try:
            if timeout is None or timeout <= 0:
                return super().select(timeout)
            real_s = timeout / loop.speed
            if real_s > EPOLL_STEP_S:
                return super().select(real_s - EPOLL_STEP_S)  # it rounds up; the rest is waited for in the next round
            time.sleep(real_s)  # noqa: TID251  (real time is what this loop scales)
            return super().select(0)
        finally:
            loop.may_pass(LEAP_S)


def _checked(speed: float) -> float:
    if not 1.0 <= speed <= MAX_SPEED:
        raise ValueError(f"speed {speed:g} is out of range; choose 1 to {MAX_SPEED:g} times real time")
    return float(speed)


def run_virtual(coroutine: Coroutine[Any, Any, T], *, start_s: float = 0.0, loop: VirtualTimeLoop | None = None) -> T:
    """Run `coroutine` to its end in virtual time and return its result; leftover tasks are cancelled.

    On `loop` if one is given (it is closed then), else on a fresh one that begins at `start_s`.
    """
    return _run(loop or VirtualTimeLoop(start_s=start_s), coroutine)


def run_scaled(coroutine: Coroutine[Any, Any, T], speed: float) -> T:
    """Run `coroutine` in `speed` times real time over real sockets and return its result."""
    return _run(ScaledLoop(speed), coroutine)


def _run(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> T:
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(coroutine)
    finally:
        try:
            left = [task for task in asyncio.all_tasks(loop) if not task.done()]
            for task in left:
                task.cancel()
            if left:
                loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            asyncio.set_event_loop(None)
            loop.close()
