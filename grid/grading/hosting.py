"""The boards of a running hub: service, two graders, rotations."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path

from grid.boards.board import Board
from grid.boards.loading import SHIPPED, load_boards
from grid.clock import UtcSeconds
from grid.grading.grader import ModelGrader
from grid.grading.model import OpenModel
from grid.grading.sandbox import open_in_sandbox
from grid.grading.service import GRADERS, AppendLog, BoardService
from grid.grading.store import BoardStore
from grid.grading.task import TaskFailed
from grid.identity.keys import IdentityKey

logger = logging.getLogger(__name__)

ROTATION_EVERY_S = 60.0


class HostedBoards:
    """Boards in a folder, with their graders.

    Attributes:
        service: What members call.
    """

    def __init__(
        self,
        folder: Path,
        *,
        append: AppendLog,
        clock: UtcSeconds,
        boards: Mapping[str, Board] | None = None,
        open_model: OpenModel = open_in_sandbox,
    ) -> None:
        keys = [IdentityKey.in_folder(folder / f"grader-{number + 1}") for number in range(GRADERS)]
        self._store = BoardStore(folder)
        self.service = BoardService(
            load_boards(SHIPPED) if boards is None else boards,
            self._store,
            graders=frozenset(key.public.hex() for key in keys),
            append=append,
            open_model=open_model,
            clock=clock,
        )
        self._graders = [ModelGrader(self.service, key, open_model, clock=clock) for key in keys]

    async def run(self) -> None:
        """Grade, measure baselines and rotate until cancelled."""
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            for grader in self._graders:
                tasks.create_task(grader.run(stop))
            tasks.create_task(self._rotate())

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    async def _rotate(self) -> None:
        while True:
            self.service.rotate_due()
            try:
                await self._graders[0].measure_baselines()
            except TaskFailed as error:
                logger.error("baselines: %s", error)
            await asyncio.sleep(ROTATION_EVERY_S)
