"""The boards of a running hub: service, two graders, baselines, rotations."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from concurrent.futures import Executor
from pathlib import Path

from grid.boards.loading import OWN, BoardError, boards_of
from grid.clock import UtcSeconds
from grid.errors import GridError
from grid.grading.grader import ModelGrader
from grid.grading.rotation import DAY_S
from grid.grading.sandbox import open_in_sandbox
from grid.grading.sealing import SecretSeal
from grid.grading.service import GRADERS, AppendLog, BoardService
from grid.grading.store import BoardStore, HubDatabase
from grid.grading.task import TaskFailed
from grid.identity.keys import IdentityKey

logger = logging.getLogger(__name__)

ROTATION_EVERY_S = 60.0


class HostedBoards:
    """The boards of a hub's folder, with their graders.

    Attributes:
        service: What members call.
    """

    def __init__(
        self,
        folder: Path,
        hub: HubDatabase,
        *,
        append: AppendLog,
        clock: UtcSeconds,
        executor: Executor | None = None,
    ) -> None:
        """Open the boards; `executor` is where graders spread episodes.

        Raises:
            GridError: A file of a board is malformed.
        """
        try:
            (folder / OWN).mkdir(exist_ok=True)  # the page gets access to it at its start
            boards = boards_of(folder)
        except BoardError as error:
            raise GridError(str(error)) from None
        except OSError as error:
            raise GridError(
                f"{folder / OWN} cannot be used ({error.strerror}). Next: check the rights of the folder and the disk"
            ) from None
        keys = [IdentityKey.in_folder(folder / f"grader-{number + 1}") for number in range(GRADERS)]
        store = BoardStore(folder, SecretSeal(IdentityKey.in_folder(folder)), hub=hub)
        store.not_after(clock())
        self._clock = clock
        self.service = BoardService(
            boards,
            store,
            graders=frozenset(key.public.hex() for key in keys),
            append=append,
            open_model=open_in_sandbox,
            clock=clock,
        )
        self._graders = [
            ModelGrader(self.service, key, open_in_sandbox, executor=executor, clock=clock) for key in keys
        ]

    def move(self, by_s: float) -> None:
        """Move noted times with the clock, in the caller's transaction; quotas and rotations last as long as before."""
        self.service.store.move(by_s, self._clock() - DAY_S)

    async def run(self) -> None:
        """Grade, measure baselines and rotate until cancelled."""
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            for grader in self._graders:
                tasks.create_task(grader.run(stop))
            tasks.create_task(self._rotate())

    async def _rotate(self) -> None:
        while True:
            try:
                self.service.rotate_due()
                await self._graders[0].measure_baselines()
            except (TaskFailed, GridError, OSError, sqlite3.Error) as error:
                logger.error("rotation and baselines of the boards: %s", error)
            await asyncio.sleep(ROTATION_EVERY_S)
