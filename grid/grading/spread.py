"""Grade a model with one task for each episode, on an executor: processes of this machine, or a cluster of one trust domain.

A worker that runs a task holds the model and its seed, so a cluster is for graders of its owner alone. The grade is that of
:func:`grid.grading.grading.grade_model`, whatever the executor and the order in which tasks end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from typing import Any

from grid.boards.board import Board
from grid.grading.grading import EpisodeGrade, ModelGrade, PlannedEpisode, episode_grade, episodes_of, grade_of
from grid.grading.model import ModelRejected
from grid.grading.sandbox import open_in_sandbox
from grid.grading.task import TaskFailed, task_process


async def grade_spread(
    board: Board,
    model: bytes,
    seeds: Sequence[int],
    executor: Executor,
    done: Callable[[int, int], None] = lambda finished, wanted: None,
) -> ModelGrade:
    """Grade a model on seeds and with every control.

    Args:
        board: The board.
        model: The ONNX file.
        seeds: One for each episode.
        executor: Where tasks run; it runs the task of a lost worker again.
        done: Called after each episode with the number of finished ones and of all.

    Raises:
        ModelRejected: The model is malformed, failed, or exceeded a limit.
        TaskFailed: A task process or the executor failed; the model is not to blame.
    """
    wanted = episodes_of(board, seeds)
    plain = board.model_dump()

    def submitted() -> list[Future[EpisodeGrade]]:
        return [executor.submit(one_episode, plain, model, episode) for episode in wanted]

    futures: list[Future[EpisodeGrade]] = []
    playing: list[asyncio.Future[EpisodeGrade]] = []
    try:
        futures = await asyncio.to_thread(submitted)
        playing = [asyncio.wrap_future(each) for each in futures]
        async with asyncio.timeout(board.limits.grading_s):
            for finished, ended in enumerate(asyncio.as_completed(playing), 1):
                await ended
                done(finished, len(wanted))
        return grade_of(board, seeds, [each.result() for each in playing])
    except (ModelRejected, TaskFailed):
        raise
    except Exception as error:
        raise TaskFailed(
            f"episodes could not be played on the executor ({type(error).__name__}: {error}). Likely cause: the Ray cluster"
            " is gone, is too busy, or has another release of Choroid. Next: look at `ray status`, then try again; a hub does"
            " so by itself"
        ) from error
    finally:
        for each in futures:
            each.cancel()
        for played in playing:
            if not played.cancel() and not played.cancelled():
                played.exception()  # one failure is reported; the others say the same


def one_episode(plain: dict[str, Any], model: bytes, episode: PlannedEpisode) -> EpisodeGrade:
    """Play one episode in processes of its own: the task, and the model in the sandbox."""
    return asyncio.run(_one_episode(Board.model_validate(plain), model, episode))


async def _one_episode(board: Board, model: bytes, episode: PlannedEpisode) -> EpisodeGrade:
    try:
        async with (
            asyncio.timeout(board.limits.grading_s),
            task_process() as task,
            open_in_sandbox(model, board) as called,
        ):
            return await episode_grade(board, called, task, episode)
    except TimeoutError:
        raise ModelRejected(
            f"an episode took more than {board.limits.grading_s} s. Likely cause: the model is slow, or the cluster is busy."
            " Next: make the model smaller"
        ) from None
