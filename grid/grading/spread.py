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

EPISODE_SHARE = 0.5
"""Of the time that a board allows for a grade: what one episode may take. One process could not play two that take longer."""
PLAYED_SHARE = 0.4
"""If finished episodes took more than this share when the time is over, the model is too slow; else the executor is too busy.

It is less than what one slow episode leaves, so that a slow model is not graded again and again.
"""


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

    def submitted() -> list[Future[tuple[EpisodeGrade, float]]]:
        return [executor.submit(one_episode, plain, model, episode) for episode in wanted]

    futures: list[Future[tuple[EpisodeGrade, float]]] = []
    playing: list[asyncio.Future[tuple[EpisodeGrade, float]]] = []
    spent_s = 0.0
    try:
        futures = await asyncio.to_thread(submitted)
        playing = [asyncio.wrap_future(each) for each in futures]
        async with asyncio.timeout(board.limits.grading_s):
            for finished, ended in enumerate(asyncio.as_completed(playing), 1):
                spent_s += (await ended)[1]
                done(finished, len(wanted))
        return grade_of(board, seeds, [each.result()[0] for each in playing])
    except (ModelRejected, TaskFailed):
        raise
    except Exception as error:
        if isinstance(error, TimeoutError) and spent_s > PLAYED_SHARE * board.limits.grading_s:
            raise ModelRejected(
                f"grading took more than {board.limits.grading_s} s. Likely cause: the model is slow, or the cluster is busy."
                " Next: make the model smaller, or submit again later"
            ) from None
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


def one_episode(plain: dict[str, Any], model: bytes, episode: PlannedEpisode) -> tuple[EpisodeGrade, float]:
    """Play one episode in processes of its own: the task, and the model in the sandbox. Return its grade and its seconds."""
    return asyncio.run(_one_episode(Board.model_validate(plain), model, episode))


async def _one_episode(board: Board, model: bytes, episode: PlannedEpisode) -> tuple[EpisodeGrade, float]:
    loop, longest_s = asyncio.get_running_loop(), EPISODE_SHARE * board.limits.grading_s
    start = loop.time()
    try:
        async with (
            asyncio.timeout(longest_s),
            task_process() as task,
            open_in_sandbox(model, board) as called,
        ):
            return await episode_grade(board, called, task, episode), loop.time() - start
    except TimeoutError:
        raise ModelRejected(
            f"an episode took more than {longest_s:g} s. Likely cause: the model is slow, or the cluster is busy. Next: make"
            " the model smaller, or submit again later"
        ) from None
