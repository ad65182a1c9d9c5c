"""How long to wait for a child process: a busy machine is not a broken child.

A limit counts only the time in which the child could have gone on. Time in which it waited for a processor, was stopped, or
in which this process itself was late is counted apart. A child that used up its limit is silent (:class:`ChildSilent`); one
that did not get the machine for long is not (:class:`MachineBusy`). Only a process whose end the kernel reports is dead.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Awaitable, Callable, Collection
from math import inf
from typing import Protocol, TypeVar

from controller.children.accounts import ThreadAccount, family_of, max_starved_s, now_s, threads_of

T = TypeVar("T")

LOOK_S = 0.1
"""Time between two looks at a child (s)."""
MAX_LOOK_S = 0.3
"""A look that comes later than this was delayed by the machine; no more of it is counted (s)."""
NEVER = inf


class ChildSilent(TimeoutError):
    """A child could run for its whole limit and did not answer."""


class MachineBusy(TimeoutError):
    """A child got no processor for too long, so its answer is not waited for any more. It is not broken."""


class HasFileno(Protocol):
    """What :func:`wait_readable` waits for."""

    def fileno(self) -> int:
        """Return the descriptor."""


class Patience:
    """Counts how long children kept this process waiting although they could run. Call :meth:`update` regularly."""

    def __init__(
        self,
        pids: int | Callable[[], Collection[int]],
        limit_s: float,
        *,
        busy_s: float = NEVER,
        disk: bool = False,
        max_look_s: float = MAX_LOOK_S,
    ) -> None:
        """Begin to count.

        Args:
            pids: The child; or what returns the children that have to run for the answer, at present.
            limit_s: Longest time without an answer in which they could run (s).
            busy_s: Longest time in which they could not (s).
            disk: Whether their wait for a disk is excused as well.
            max_look_s: Longest time between two looks that is counted (s). One that is longer than :data:`MAX_LOOK_S` is for
                a caller that looks seldom, and names its own process among `pids`: its own delays are excused then.
        """
        self._pids = (lambda: (pids,)) if isinstance(pids, int) else pids
        self.limit_s = limit_s
        self.waited_s = 0.0
        """Time in which the children could run (s)."""
        self.starved_s = 0.0
        """Time in which one of them could not (s)."""
        self._busy_s = busy_s
        self._disk = disk
        self._max_look_s = max_look_s
        self._looked_s = now_s()
        self._threads = self._now()

    @classmethod
    def of_family(cls, pid: int, limit_s: float) -> Patience:
        """Begin to count for a child that waits for children of its own."""
        return cls(lambda: family_of(pid), limit_s)

    def update(self) -> None:
        """Count the time since the last look.

        Raises:
            ChildSilent: The children used up their limit.
            MachineBusy: They could not run for too long.
        """
        at_s, before = now_s(), self._threads
        passed_s, self._looked_s = at_s - self._looked_s, at_s
        self._threads = self._now()
        starved_s = max((self._starved_s(pid, passed_s, before.get(pid, {})) for pid in self._threads), default=0.0)
        starved_s = max(starved_s, passed_s - self._max_look_s)
        self.starved_s += starved_s
        self.waited_s += passed_s - starved_s
        if self.waited_s > self.limit_s:
            raise ChildSilent(f"no answer within {self.limit_s:g} s")
        if self.starved_s > self._busy_s:
            named = ", ".join(map(str, self._threads))
            raise MachineBusy(
                f"process {named} got no processor for {self.starved_s:.0f} s. Likely cause: the machine is busy, or the"
                " process was stopped. Next: end what uses the processors, then try again"
            )

    def _now(self) -> dict[int, dict[str, ThreadAccount]]:
        return {pid: threads_of(pid) for pid in self._pids()}

    def _starved_s(self, pid: int, passed_s: float, before: dict[str, ThreadAccount]) -> float:
        """Return how long (s) a child could not run within `passed_s`."""
        threads = self._threads[pid]
        main = threads.get(str(pid))
        if main is not None and main.state in ("T", "t"):
            return passed_s
        return max_starved_s(passed_s, before, threads, disk_of=str(pid) if self._disk else "")


def wait_readable(file: HasFileno, patience: Patience) -> None:
    """Return when `file` can be read, or has ended. Raises as :meth:`Patience.update`."""
    poll = select.poll()
    poll.register(file.fileno(), select.POLLIN)
    while not poll.poll(LOOK_S * 1000.0):
        patience.update()


async def patiently(work: Awaitable[T], patience: Patience) -> T:
    """Return the result of `work`, which waits for the child; cancel it when patience ends.

    Raises as :meth:`Patience.update`.
    """
    task = asyncio.ensure_future(work)
    step_s = LOOK_S * float(getattr(asyncio.get_running_loop(), "speed", 1.0))
    try:
        while not (await asyncio.wait((task,), timeout=step_s))[0]:
            patience.update()
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
