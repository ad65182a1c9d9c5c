"""Keep the edges of a controller running: page, health port, electrode engine, sinks, delivery (B1).

An edge that fails, at its start or later, raises an alarm and is started again after a growing pause. It never ends
or delays the control loop, and only that ends the process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from nerves.summary import life_s

logger = logging.getLogger(__name__)

END_WITHIN_S = 5.0
"""Time (s) that cancelled edges get to end; one that takes longer is left alone."""


@dataclass(frozen=True, slots=True)
class Pauses:
    """Pauses (real s) before an edge is started again; each is twice the one before."""

    first_s: float = 1.0
    longest_s: float = 60.0
    steady_s: float = 60.0
    """After this time of working, the next failure counts as the first."""


class AlarmedFailure(Exception):
    """A failure for which the edge raises an alarm of its own."""


Up = Callable[[], None]
"""An edge calls it as soon as it works."""
Work = Callable[[Up], Awaitable[None]]
"""One life of an edge: returns or raises only when it has failed."""


class Edges:
    """Supervises edges. `causes`: present causes of alarms, detail by (alarm kind, source)."""

    def __init__(self) -> None:
        self.causes: dict[tuple[str, str], str] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def keep(
        self, name: str, work: Work, *, alarm: tuple[str, str] | None = None, pauses: Pauses | None = None
    ) -> asyncio.Task[None]:
        """Run `work` again and again, until cancelled.

        Args:
            name: The edge, for people.
            work: One life of it.
            alarm: Kind and source of its alarm; else `edge_lost` with its name.
            pauses: Pauses between its lives.
        """
        keeping = self._keep(name, work, alarm or ("edge_lost", name), pauses or Pauses())
        task = asyncio.create_task(keeping, name=name)
        self._tasks.append(task)
        return task

    def cancel(self) -> None:
        """Begin to end every edge; waits for none."""
        for task in self._tasks:
            if not task.cancelling():  # a second time would break off what ends it
                task.cancel()

    async def close(self) -> None:
        """End every edge, and wait briefly for it."""
        self.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=life_s(END_WITHIN_S))

    async def _keep(self, name: str, work: Work, alarm: tuple[str, str], pauses: Pauses) -> None:
        loop = asyncio.get_running_loop()
        pause_s = pauses.first_s
        logged = ""
        while True:
            up_s: list[float] = []

            def up(up_s: list[float] = up_s) -> None:
                up_s.append(loop.time())
                self.causes.pop(alarm, None)

            why = await self._lived(name, work, up, logged)
            if (task := asyncio.current_task()) is not None and task.cancelling():
                return  # its work took the cancellation for its own
            if up_s and loop.time() - up_s[0] > life_s(pauses.steady_s):
                pause_s = pauses.first_s
            if why:
                logged = why
                self.causes[alarm] = f"{why}. It is tried again by itself, at least every {pauses.longest_s:g} s"
            logger.warning("%s is started again in %g s", name, pause_s)
            await asyncio.sleep(life_s(pause_s))
            pause_s = min(2 * pause_s, pauses.longest_s)

    async def _lived(self, name: str, work: Work, up: Up, logged: str) -> str:
        """Run one life of an edge. Return why it has ended, for people; empty if it has an alarm of its own."""
        try:
            await work(up)
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            why = f"{name} was cancelled from inside"
        except AlarmedFailure as error:
            logger.error("%s: %s", name, error)
            return ""
        except OSError as error:
            why = f"{name}: {error.strerror or error}".rstrip(".")
        except (Exception, SystemExit) as error:  # a library that ends the process ends only its edge
            whole = "Next: " in str(error)  # a text for people
            why = f"{name}: {error if whole else repr(error)}".rstrip(".")
            if why != logged and not whole:
                logger.exception("%s has failed", name)
        else:
            why = f"{name} has ended by itself"
        if why != logged:
            logger.error("%s", why)
        return why
