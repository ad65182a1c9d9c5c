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
from grid.grading.interval import paired_interval
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
        played = [await episode_grade(board, called, task, each) for each in episodes_of(board, seeds)]
    return grade_of(board, seeds, played)


@dataclass(frozen=True, slots=True)
class PlannedEpisode:
    """One episode of a grade: the seed, the control (None: the task itself), and the number of the task's variant."""

    seed: int
    control: str | None
    variant: int


def episodes_of(board: Board, seeds: Sequence[int]) -> list[PlannedEpisode]:
    """Return the episodes of a grade in their order: those of a seed follow one another, as they share its tissue."""
    return [
        PlannedEpisode(seed, control, variant)
        for seed in seeds
        for control in (None, *board.controls.names)
        for variant in range(len(board.task.variants()))
    ]


def grade_of(board: Board, seeds: Sequence[int], played: Sequence[EpisodeGrade]) -> ModelGrade:
    """Return the grade of the episodes of :func:`episodes_of`: the score of a seed is the mean over the variants."""
    found: dict[str | None, list[float]] = {}
    arms, variants = (None, *board.controls.names), len(board.task.variants())
    for number in range(0, len(played), variants):
        arm = arms[number // variants % len(arms)]
        found.setdefault(arm, []).append(fmean(each.value for each in played[number : number + variants]))
    own, controls = tuple(found[None]), {name: tuple(found[name]) for name in board.controls.names}
    outputs = hashlib.sha256("".join(each.outputs_sha256 for each in played).encode()).hexdigest()
    return ModelGrade(own, controls, outputs, void_by(board, own, controls))


async def episode_grade(board: Board, model: CalledModel, task: TaskProcess, episode: PlannedEpisode) -> EpisodeGrade:
    """Play one episode to its end."""
    called, seen = BoardModel(model, board.interface), hashlib.sha256()
    answer = await task.begin(board.task.variants()[episode.variant], episode.seed, control=episode.control)
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
    """Return why a score does not count; empty if it does.

    A control is beaten if the interval of the paired difference over the seeds lies above the margin.
    """
    rule = board.controls
    reached = [
        name
        for name, each in sorted(controls.items())
        if not paired_interval(scores, each, rule.confidence).low > rule.margin
    ]
    if not reached:
        return ""
    return (
        f"with the control {' and '.join(reached)} the model comes within {rule.margin:g} of its score: the"
        f" {rule.confidence * 100:g} % interval of the difference over {len(scores)} seeds does not lie above this."
        " Likely cause: it does not use what the board asks for. Next: test it against the controls with `choroid grid model"
        " try`"
    )


async def baseline_score(board: Board, name: str, seed: int, task: TaskProcess) -> float:
    """Return the score of a baseline on a seed, played by the task itself."""
    scores: list[float] = []
    for variant in board.task.variants():
        answer = await task.begin(variant, seed, baseline=name)
        if not isinstance(answer, EpisodeScore):
            raise TaskFailed(f"the baseline {name} of {board.key} returned no score")
        scores.append(answer.value)
    return fmean(scores)


def _take_in(seen: Any, outputs: Tensors) -> None:
    for name in sorted(outputs):
        seen.update(name.encode())
        seen.update(np.ascontiguousarray(outputs[name], "<f4").tobytes())
