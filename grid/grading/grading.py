"""Grade one model: every hidden seed, and every control, each in the same task process."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import numpy as np

from grid.boards.board import Board
from grid.grading.frames import Tensors
from grid.grading.model import BoardModel, CalledModel, ModelRejected, OpenModel
from grid.grading.task import EpisodeScore, TaskFailed, TaskProcess, task_process


@dataclass(frozen=True, slots=True)
class ModelGrade:
    """The exact result of grading; secret until the rotation is over.

    `scores` has one value for each seed, `controls` the same for each control. `outputs_sha256` covers every output of the
    model in every episode, so that two graders are compared by what the model did, not by the mean alone. `void` is empty or
    says why the score does not count.
    """

    scores: tuple[float, ...]
    controls: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    outputs_sha256: str = ""
    void: str = ""

    @property
    def mean(self) -> float:
        """Return the mean score."""
        return fmean(self.scores)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "scores": list(self.scores),
            "controls": {name: list(scores) for name, scores in sorted(self.controls.items())},
            "outputs_sha256": self.outputs_sha256,
            "void": self.void,
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> ModelGrade:
        """Return the grade in plain data."""
        controls = {name: tuple(scores) for name, scores in plain["controls"].items()}
        return cls(tuple(plain["scores"]), controls, plain["outputs_sha256"], plain["void"])

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the exact result."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class EpisodeGrade:
    """The score of one episode, and the SHA-256 of the outputs of the model in it."""

    value: float
    outputs_sha256: str


async def grade_model(
    board: Board, model: bytes, seeds: Sequence[int], open_model: OpenModel, *, task: TaskProcess | None = None
) -> ModelGrade:
    """Grade a model on seeds.

    Args:
        board: The board.
        model: The ONNX file.
        seeds: One for each episode.
        open_model: Opens the model in a sandbox; its graph has no state, its memory begins again with each episode.
        task: A running task process; by default one is started.

    Raises:
        ModelRejected: The model is malformed, failed, or exceeded a limit.
        TaskFailed: The task process failed; the model is not to blame.
    """
    if task is None:
        async with task_process() as task:
            return await grade_model(board, model, seeds, open_model, task=task)
    try:
        async with asyncio.timeout(board.limits.grading_s):
            return await _graded(board, model, seeds, open_model, task)
    except TimeoutError:
        raise ModelRejected(
            f"grading took more than {board.limits.grading_s} s. Likely cause: the model is slow, or the grader is busy."
            " Next: make the model smaller, or submit again later"
        ) from None


async def _graded(
    board: Board, model: bytes, seeds: Sequence[int], open_model: OpenModel, task: TaskProcess
) -> ModelGrade:
    async with open_model(model, board) as called:
        played = [
            await episode_grade(board, called, task, seed, control) for control, seed in episodes_of(board, seeds)
        ]
    return grade_of(board, seeds, played)


def episodes_of(board: Board, seeds: Sequence[int]) -> list[tuple[str | None, int]]:
    """Return control (None: the task itself) and seed of each episode of a grade, in their order."""
    return [(control, seed) for control in (None, *board.controls.names) for seed in seeds]


def grade_of(board: Board, seeds: Sequence[int], played: Sequence[EpisodeGrade]) -> ModelGrade:
    """Return the grade of the episodes of :func:`episodes_of`."""
    parts = [tuple(each.value for each in played[n : n + len(seeds)]) for n in range(0, len(played), len(seeds))]
    own, controls = parts[0], dict(zip(board.controls.names, parts[1:], strict=True))
    outputs = hashlib.sha256("".join(each.outputs_sha256 for each in played).encode()).hexdigest()
    return ModelGrade(own, controls, outputs, void_by(board, own, controls))


async def episode_grade(
    board: Board, model: CalledModel, task: TaskProcess, seed: int, control: str | None
) -> EpisodeGrade:
    """Play one episode to its end."""
    called, seen = BoardModel(model, board.interface), hashlib.sha256()
    answer = await task.begin(board.task, seed, control=control)
    for _ in range(board.limits.calls):
        if isinstance(answer, EpisodeScore):
            break
        outputs = await called(answer)
        _take_in(seen, outputs)
        answer = await task.act(outputs)
    if isinstance(answer, EpisodeScore):
        return EpisodeGrade(answer.value, seen.hexdigest())
    raise TaskFailed(f"an episode of {board.key} needs more than the {board.limits.calls} calls that its file allows")


def void_by(board: Board, scores: Sequence[float], controls: Mapping[str, Sequence[float]]) -> str:
    """Return why a score does not count: the controls that come within the margin; empty if none does."""
    reached = [name for name, each in sorted(controls.items()) if fmean(each) > fmean(scores) - board.controls.margin]
    if not reached:
        return ""
    return (
        f"with the control {' and '.join(reached)} the model comes within {board.controls.margin:g} of its score."
        " Likely cause: it does not use what the board asks for. Next: test it against the controls with `choroid grid try`"
    )


async def baseline_score(board: Board, name: str, seed: int, task: TaskProcess) -> float:
    """Return the score of a baseline on a seed, played by the task itself."""
    answer = await task.begin(board.task, seed, baseline=name)
    if not isinstance(answer, EpisodeScore):
        raise TaskFailed(f"the baseline {name} of {board.key} returned no score")
    return answer.value


def _take_in(seen: Any, outputs: Tensors) -> None:
    for name in sorted(outputs):
        seen.update(name.encode())
        seen.update(np.ascontiguousarray(outputs[name], "<f4").tobytes())
