"""Branches of one run that are at work at the same time: where each of them stands, and who may use a vessel meanwhile.

Each branch numbers its own steps, so that what is recorded of them is fed back to it after a restart in whatever order
the branches got their turns before. A branch's path is where it began: the steps of `feeding`, begun by the fourth
step, are `4.feeding.1`, `4.feeding.2`, and so on; those of the protocol itself are `1`, `2`, …
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from protocols.language import ProtocolError, RunEnded


@dataclass(slots=True, eq=False)
class Branch:
    """One line of work: the protocol itself, or a branch of it."""

    path: str = ""
    """Before the number of each of its steps: empty, or `4.feeding.`."""
    volumes: Mapping[str, Any] = field(default_factory=dict)
    """As of the end of its latest step: a branch sees the same when it runs again, whatever the others did."""
    last: int = 0
    """Number of its latest step."""
    worker: asyncio.Task[Any] | None = None
    """The task that is in a verb of it."""
    quiet: bool = False
    """It moves nothing and will not before the run's state has been looked at again."""
    now_s: float = 0.0
    """Where it stands in a rehearsal (s since the start)."""

    @property
    def at(self) -> str:
        """Place of its latest step."""
        return f"{self.path}{self.last}"

    def child(self, name: str) -> Branch:
        """A branch that its latest step begins."""
        return Branch(f"{self.at}.{name}.", self.volumes, now_s=self.now_s)


def spoken(place: str) -> str:
    """A branch's name for people, from its path or the place of a step in it: `feeding`, `feeding/rinsing`, or nothing."""
    return "/".join(place.split(".")[1::2])


BRANCH: ContextVar[Branch] = ContextVar("branch")
"""Whose verb is being awaited; each branch is a task with a context of its own."""


@contextlib.contextmanager
def in_verb(branch: Branch, verb: str, at_work: set[Branch]) -> Iterator[None]:
    """While a verb of `branch` is at work, `at_work` has it; a second verb meanwhile raises :class:`ProtocolError`."""
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
    """Run each coroutine of `works` as its branch; their results in order. `ended` hears of each that is over.

    The first error ends the others where they are and is raised. :class:`RunEnded` is raised when every branch has come
    to its own end of it: a stop lets what is moving come to its end.
    """

    async def along(branch: Branch, work: Coroutine[Any, Any, Any]) -> Any:
        BRANCH.set(branch)
        try:
            return await work
        finally:
            ended(branch)

    tasks = [asyncio.create_task(along(branch, work)) for branch, work in zip(branches, works, strict=True)]
    try:
        waiting = set(tasks)
        while waiting and not any(_failed(task) for task in tasks):
            _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        failed = next((task for task in tasks if _failed(task)), None)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for branch, work in zip(branches, works, strict=True):
            work.close()  # one that was ended before its first step was never begun
            ended(branch)
    if failed is not None:
        failed.result()
    return [task.result() for task in tasks]


def _failed(task: asyncio.Task[Any]) -> bool:
    """Whether a branch is over for another reason than its end or the run's."""
    return task.done() and not task.cancelled() and not isinstance(task.exception(), RunEnded | None)


class Claims:
    """Vessels, pumps and valves that a branch has to itself for as long as a verb uses them; first come, first served.

    Two doses that share a vessel would each spoil the other's weighing, and the gate refuses the second. What waits here
    is not refused: it has its turn.
    """

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}

    @contextlib.asynccontextmanager
    async def hold(
        self, names: Iterable[str | None], branch: Branch, changed: Callable[[], None]
    ) -> AsyncIterator[None]:
        """Have all of `names`; `changed` hears when `branch` has to wait for them."""
        async with contextlib.AsyncExitStack() as stack:
            # One order for all, so that no two wait in a ring.
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
