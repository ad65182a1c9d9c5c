"""A grader: claims queued submissions, grades them in a sandbox, and signs what it finds.

Two graders run on the hub's machine, or on machines of the same operator: they hold models and hidden seeds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import platform
import sqlite3
from concurrent.futures import Executor
from importlib.metadata import version

from grid.boards.board import Board
from grid.clock import UtcSeconds, utc_s
from grid.errors import GridError
from grid.grading.agreement import sign_verdict
from grid.grading.grading import ModelGrade, baseline_score, grade_model
from grid.grading.model import ModelRejected, OpenModel
from grid.grading.service import GRADERS, BoardService
from grid.grading.spread import grade_spread
from grid.grading.task import TaskFailed, task_process
from grid.identity.keys import IdentityKey

logger = logging.getLogger(__name__)

POLL_S = 1.0
RETRY_S = 60.0
"""Time until a grader that failed claims the same submission again."""
MARGIN_S = 60.0
"""What a claim lasts beyond the time that a board allows for grading."""


class ModelGrader:
    """One grader with its own key."""

    def __init__(
        self,
        service: BoardService,
        key: IdentityKey,
        open_model: OpenModel,
        *,
        executor: Executor | None = None,
        clock: UtcSeconds = utc_s,
    ) -> None:
        """Make a grader.

        Args:
            service: What submissions come from and verdicts go to.
            key: What signs the verdicts.
            open_model: Opens a model in a sandbox.
            executor: Where the episodes of a grade are spread; None plays them here, one after the other.
            clock: Source of UTC.
        """
        self._service = service
        self._key = key
        self._open_model = open_model
        self._executor = executor
        self._clock = clock
        self.problem = ""
        """Why the last attempt of this grader failed, empty if it did not."""

    async def run(self, stop: asyncio.Event) -> None:
        """Grade until `stop` is set. What a killed process of this grader had claimed is graded again."""
        with contextlib.suppress(GridError):  # the disk may have failed; the claim then ends by its time
            self._service.store.give_back(self._key.public.hex())
        while not stop.is_set():
            if not await self.step():
                await _wait(stop, POLL_S)

    async def step(self) -> bool:
        """Grade one submission; return whether there was one."""
        try:
            return await self._step()
        except (TaskFailed, GridError, OSError, sqlite3.Error) as error:
            if str(error) != self.problem:
                self.problem = str(error)
                logger.warning("grading: %s", error)
            return False

    async def _step(self) -> bool:
        store, public = self._service.store, self._key.public.hex()
        now_s = self._clock()
        longest = max(board.limits.grading_s for board in self._service.boards.values())
        claim = store.claim(public, now_s, now_s + longest + MARGIN_S, GRADERS)
        if claim is None:
            return False
        submission, number = claim
        try:
            grade, refused = await self._graded(submission, number)
            verdict = sign_verdict(
                self._key.private,
                submission=submission,
                rotation=number,
                platform=platform_text(),
                grade=grade,
                refused=refused,
            )
            self._service.take_verdict(verdict)
        except (TaskFailed, GridError, OSError, sqlite3.Error):
            store.postpone(public, self._clock() + RETRY_S)
            raise
        except BaseException:
            with contextlib.suppress(GridError):  # the disk may have failed; the claim then ends by its time
                store.give_back(public)
            raise
        self.problem = ""
        return True

    async def measure_baselines(self) -> None:
        """Measure the baselines of every board whose rotation has none yet; submissions go first.

        Raises:
            TaskFailed: Those of some boards could not be measured; those of the others were.
        """
        failed = []
        for board in self._service.boards.values():
            try:
                await self._measure_baselines_of(board)
            except TaskFailed as error:
                failed.append(f"{board.key}: {error}")
        if failed:
            raise TaskFailed("; ".join(failed))

    async def _measure_baselines_of(self, board: Board) -> None:
        store = self._service.store
        rotation = store.rotation(board.key)
        if rotation is None or store.baselines(board.key, rotation.number) is not None:
            return
        scores: dict[str, list[float]] = {}
        async with task_process() as task:
            for name in board.baselines:
                for seed in rotation.seeds(board.rotation.episodes):
                    await self._quiet()
                    scores.setdefault(name, []).append(await baseline_score(board, name, seed, task))
        store.set_baselines(board.key, rotation.number, scores)

    async def _quiet(self) -> None:
        """Wait until no submission is to be graded."""
        while True:
            if not self._service.store.waiting():
                return
            await asyncio.sleep(POLL_S)

    async def _graded(self, submission: str, number: int) -> tuple[ModelGrade | None, str]:
        store = self._service.store
        manifest = store.manifest_of(submission)
        board = self._board(manifest.board)
        rotation = store.rotation(board.key, number)
        if rotation is None:
            raise GridError(f"{board.key} has no rotation {number}. Next: restore hub.sqlite")
        model = store.model_path(manifest.model_sha256).read_bytes()
        seeds = rotation.seeds(board.rotation.episodes)
        try:
            if self._executor is not None:
                return await grade_spread(board, model, seeds, self._executor), ""
            return await grade_model(board, model, seeds, self._open_model), ""
        except ModelRejected as error:
            return None, str(error)

    def _board(self, key: str) -> Board:
        board = self._service.boards.get(key)
        if board is None:
            raise GridError(f"the file of {key} is gone. Next: put it back into the hub's folder of boards")
        return board


def platform_text() -> str:
    """Return what exact agreement of two graders depends on: the machine, numpy and the runtime."""
    return f"{platform.machine()}, numpy {version('numpy')}, onnxruntime {version('onnxruntime')}"


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return
