"""Concurrent branches of one run: their positions, and their exclusive use of vessels.

Each branch numbers its own steps, so that recorded results are fed back to the same steps after a restart, whatever the
order in which the branches ran. A branch's path is its origin: the steps of `feeding`, begun by the fourth step, are
`4.feeding.1`, `4.feeding.2`, and so on; those of the protocol itself are `1`, `2`, …
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from protocols.host import ProtocolError, RunEnded


@dataclass(slots=True, eq=False)
class Branch:
    """A sequence of steps: the protocol itself, or a branch of it."""

    path: str = ""
    """Prefix of its step numbers: empty, or `4.feeding.`."""
    volumes: Mapping[str, Any] = field(default_factory=dict)
    """Volumes at the end of its latest step: a branch sees the same when it is replayed, whatever the others did."""
    last: int = 0
    """Number of the latest step."""
    worker: asyncio.Task[Any] | None = None
    """The task that executes a verb of this branch."""
    quiet: bool = False
    """Whether it moves nothing, and will not before it has checked the run's state."""
    now_s: float = 0.0
    """Its time in a rehearsal (s since the start)."""

    @property
    def at(self) -> str:
        """Position of the latest step."""
        return f"{self.path}{self.last}"

    def child(self, name: str) -> Branch:
        """Return a branch that begins at the latest step."""
        return Branch(f"{self.at}.{name}.", self.volumes, now_s=self.now_s)


def spoken(place: str) -> str:
    """Return a branch's name for people, from its path or a position in it: `feeding`, `feeding/rinsing`, or empty."""
    return "/".join(place.split(".")[1::2])


BRANCH: ContextVar[Branch] = ContextVar("branch")
"""The branch whose verb is being awaited; each branch is a task with its own context."""


@contextlib.contextmanager
def in_verb(branch: Branch, verb: str, at_work: set[Branch]) -> Iterator[None]:
    """Keep `branch` in `at_work` during a verb. A second verb meanwhile raises :class:`ProtocolError`."""
    if branch.worker is not None:
        raise ProtocolError(
            f"{verb} was asked while another verb was at work. Next: await one verb at a time, or several with"
            " lab.together()"
        )
    branch.worker = asyncio.current_task()
    at_work.add(branch)
    try:
        yield
    finally:
        branch.worker = None
        at_work.discard(branch)


async def abreast(
    branches: Sequence[Branch], works: Sequence[Coroutine[Any, Any, Any]], *, ended: Callable[[Branch], None]
) -> list[Any]:
    """Run each coroutine of `works` as its branch, and return the results in order.

    `ended(branch)` is called for each branch that is over. The first error cancels the other branches and is raised.
    :class:`RunEnded` is raised only when every branch has reached it: a stop lets the motion of each branch end.
    """

    pairs = list(zip(branches, works, strict=True))
    tasks = [asyncio.create_task(_along(branch, work, ended)) for branch, work in pairs]
    try:
        waiting = set(tasks)
        while waiting and not any(_failed(task) for task in tasks):
            _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        failed = next((task for task in tasks if _failed(task)), None)
        await _cancelled(tasks)
        for branch, work in pairs:
            work.close()  # a task that was cancelled before its first step never began its coroutine
            ended(branch)
    if failed is not None:
        failed.result()
    return [task.result() for task in tasks]


async def _cancelled(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel all tasks and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _along(branch: Branch, work: Coroutine[Any, Any, Any], ended: Callable[[Branch], None]) -> Any:
    BRANCH.set(branch)
    try:
        return await work
    finally:
        ended(branch)


def _failed(task: asyncio.Task[Any]) -> bool:
    """Return whether a branch has ended with an error other than the end of the run."""
    return task.done() and not task.cancelled() and not isinstance(task.exception(), RunEnded | None)


class Claims:
    """Exclusive use of vessels, pumps and valves by a branch during a verb; first come, first served.

    Two doses that share a vessel would spoil each other's weighing, and the gate refuses the second. A branch that waits
    here is not refused.
    """

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}

    @contextlib.asynccontextmanager
    async def hold(
        self, names: Iterable[str | None], branch: Branch, changed: Callable[[], None]
    ) -> AsyncIterator[None]:
        """Hold all of `names`. `changed()` is called when `branch` has to wait for one."""
        async with contextlib.AsyncExitStack() as stack:
            # One order for all branches prevents a deadlock.
            for name in sorted({name for name in names if name is not None}):
                lock = self._locks.setdefault(name, asyncio.Lock())
                branch.quiet = True
                if lock.locked():
                    changed()
                try:
                    await stack.enter_async_context(lock)
                finally:
                    branch.quiet = False
            yield
