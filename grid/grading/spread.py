"""Grade a model with one task for each episode, on an executor: processes of this machine, or a cluster of one trust domain.

A worker that runs a task holds the model and its seed, so a cluster is for graders of its owner alone. The grade is that of
:func:`grid.grading.grading.grade_model`, whatever the executor and the order in which tasks end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, as_completed
from typing import Any

from grid.boards.board import Board
from grid.grading.grading import EpisodeGrade, ModelGrade, episode_grade, episodes_of, grade_of
from grid.grading.model import ModelRejected
from grid.grading.sandbox import open_in_sandbox
from grid.grading.task import task_process


def grade_spread(
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
        TaskFailed: A task process failed; the model is not to blame.
    """
    wanted = episodes_of(board, seeds)
    plain = board.model_dump()
    futures: dict[Future[EpisodeGrade], int] = {
        executor.submit(one_episode, plain, model, control, seed): number
        for number, (control, seed) in enumerate(wanted)
    }
    found: dict[int, EpisodeGrade] = {}
    try:
        for finished, future in enumerate(as_completed(futures), 1):
            found[futures[future]] = future.result()
            done(finished, len(wanted))
    finally:
        for future in futures:
            future.cancel()
    return grade_of(board, seeds, [found[number] for number in range(len(wanted))])


def one_episode(plain: dict[str, Any], model: bytes, control: str | None, seed: int) -> EpisodeGrade:
    """Play one episode in processes of its own: the task, and the model in the sandbox."""
    return asyncio.run(_one_episode(Board.model_validate(plain), model, control, seed))


async def _one_episode(board: Board, model: bytes, control: str | None, seed: int) -> EpisodeGrade:
    try:
        async with (
            asyncio.timeout(board.limits.grading_s),
            task_process() as task,
            open_in_sandbox(model, board) as called,
        ):
            return await episode_grade(board, called, task, seed, control)
    except TimeoutError:
        raise ModelRejected(
            f"an episode took more than {board.limits.grading_s} s. Likely cause: the model is slow, or the cluster is busy."
            " Next: make the model smaller"
        ) from None
