"""The description of a board: what is measured on which seeds, what a model receives and returns, and the limits."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

NAME = r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$"
TENSOR_NAME = r"^[a-z][a-z0-9_]*$"
MEMORY, MEMORY_NEXT = "memory", "memory_next"
"""The input, and the output, that the grader passes from one call of a model to the next; zero at the start of an episode."""

Name = Annotated[str, Field(pattern=NAME, max_length=64)]
TensorName = Annotated[str, Field(pattern=TENSOR_NAME, max_length=64)]
Size = Annotated[int, Field(ge=1, le=1_000_000)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class TensorSpec(_Strict):
    """A named input or output of a model; a row-major array."""

    name: TensorName
    shape: Annotated[list[Size], Field(min_length=1, max_length=6)]
    type: Literal["float32"] = "float32"
    meaning: Annotated[str, Field(min_length=1)]
    """What the values are, with unit."""


class ModelInterface(_Strict):
    """What a model receives and returns. `memory` (values; 0: none) adds `memory` and `memory_next`."""

    inputs: Annotated[list[TensorSpec], Field(min_length=1, max_length=16)]
    outputs: Annotated[list[TensorSpec], Field(min_length=1, max_length=16)]
    memory: Annotated[int, Field(ge=0, le=65_536)] = 0

    @model_validator(mode="after")
    def _distinct(self) -> ModelInterface:
        for tensors in (self.inputs, self.outputs):
            names = [tensor.name for tensor in tensors]
            if len(set(names)) != len(names):
                raise ValueError("two tensors have the same name")
            if MEMORY in names or MEMORY_NEXT in names:
                raise ValueError(f"“{MEMORY}” and “{MEMORY_NEXT}” are reserved; give the size as memory: N")
        return self

    def shapes(self, side: Literal["inputs", "outputs"]) -> dict[str, tuple[int, ...]]:
        """Return the shape of each tensor of a side, the memory included."""
        tensors: list[TensorSpec] = getattr(self, side)
        found = {tensor.name: tuple(tensor.shape) for tensor in tensors}
        name = MEMORY if side == "inputs" else MEMORY_NEXT
        return found | ({name: (self.memory,)} if self.memory else {})


class TaskSpec(_Strict):
    """The process that makes the data or simulates the tissue, and its parameters."""

    name: Name
    params: dict[str, float | int | str | bool] = {}
    counterbalance: Annotated[str, Field(max_length=64)] = ""
    """A parameter with which each seed is played twice, false and true; the score of the seed is the mean. Empty: none."""

    @model_validator(mode="after")
    def _free(self) -> TaskSpec:
        if self.counterbalance in self.params:
            raise ValueError(f"“{self.counterbalance}” is counterbalanced; leave it out of the parameters")
        return self

    def variants(self) -> list[TaskSpec]:
        """Return the task once, or once with each value of the counterbalanced parameter."""
        if not self.counterbalance:
            return [self]
        return [TaskSpec(name=self.name, params=self.params | {self.counterbalance: value}) for value in (False, True)]


class BoardMetric(_Strict):
    """The figure that a task returns for an episode. Greater is better on every board."""

    name: Annotated[str, Field(pattern=TENSOR_NAME)]
    unit: Annotated[str, Field(min_length=1)]
    min: float
    max: float

    @model_validator(mode="after")
    def _ordered(self) -> BoardMetric:
        if not self.min < self.max:
            raise ValueError("min must be below max")
        return self


class RotationPolicy(_Strict):
    """Hidden seeds of one rotation: how many episodes, and when the next rotation begins (whichever is first)."""

    episodes: Annotated[int, Field(ge=2, le=1000)]
    days: Annotated[int, Field(ge=1, le=366)]
    submissions: Annotated[int, Field(ge=1, le=100_000)]


class ControlPolicy(_Strict):
    """Runs in which the score cannot come from what the board asks for.

    A model counts when, for each of them, the interval of the paired difference over the seeds lies above `margin`.
    """

    names: list[Name]
    margin: Annotated[float, Field(ge=0.0)]
    confidence: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.9
    """Of the interval: of a 90 % interval, 5 % are below its lower end."""


class BoardQuota(_Strict):
    """What one member may use of a board."""

    submissions_per_day: Annotated[int, Field(ge=1, le=1000)]
    calls_per_minute: Annotated[int, Field(ge=1, le=100_000)]


class BoardLimits(_Strict):
    """What a model may use while it is graded or called."""

    model_kib: Annotated[int, Field(ge=1, le=262_144)]
    memory_mib: Annotated[int, Field(ge=64, le=16_384)]
    call_ms: Annotated[int, Field(ge=1, le=60_000)]
    grading_s: Annotated[int, Field(ge=1, le=86_400)]
    calls: Annotated[int, Field(ge=1, le=10_000_000)]
    """Maximum calls of the model in one episode."""


class Board(_Strict):
    """One board, as its file describes it. A change of anything that changes scores needs a new version."""

    board: Name
    version: Annotated[int, Field(ge=1)]
    title: Annotated[str, Field(min_length=1, max_length=120)]
    about: Annotated[str, Field(min_length=1)]
    task: TaskSpec
    interface: ModelInterface
    metric: BoardMetric
    rotation: RotationPolicy
    controls: ControlPolicy
    baselines: Annotated[list[Name], Field(min_length=1)]
    ladder_step: Annotated[float, Field(gt=0.0)]
    """Minimum improvement that is published, and the grid to which published scores are rounded."""
    quota: BoardQuota
    limits: BoardLimits

    @model_validator(mode="after")
    def _sound(self) -> Board:
        if self.ladder_step >= self.metric.max - self.metric.min:
            raise ValueError("ladder_step must be below the range of the metric, or no score ever improves")
        for names in (self.baselines, self.controls.names):
            if len(set(names)) != len(names):
                raise ValueError("a name occurs twice among the baselines or the controls")
        return self

    @property
    def key(self) -> str:
        """Return name and version as `name@version`."""
        return f"{self.board}@{self.version}"


def split_key(key: str) -> tuple[str, str]:
    """Return name and selector of `BOARD@SELECTOR`; raise ValueError for any other text."""
    name, at, selector = key.partition("@")
    if not at or not re.match(NAME, name) or not selector:
        raise ValueError(f"“{key}” names no board: write BOARD@VERSION or BOARD@best, for example decode-stimulus@best")
    return name, selector
