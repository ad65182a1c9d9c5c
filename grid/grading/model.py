"""Calling a submitted model: the types of the board's interface, and the errors that are the model's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from grid.boards.board import MEMORY, MEMORY_NEXT, Board, ModelInterface
from grid.grading.frames import Tensors


class ModelRejected(Exception):
    """A model that is not run, or was stopped: by its form, its operators, or a limit. The message is for its author."""


class CalledModel(Protocol):
    """A model in its sandbox."""

    async def __call__(self, inputs: Tensors) -> Tensors:
        """Return the outputs; raise :class:`ModelRejected` where it fails or exceeds a limit."""
        ...


OpenModel = Callable[[bytes, Board], AbstractAsyncContextManager[CalledModel]]


class BoardModel:
    """A model with the interface of its board: tensors are checked, and the memory is passed on."""

    def __init__(self, model: CalledModel, interface: ModelInterface) -> None:
        self._model = model
        self._inputs = interface.shapes("inputs")
        self._outputs = interface.shapes("outputs")
        self._memory = np.zeros(interface.memory, np.float32) if interface.memory else None

    async def __call__(self, observation: Mapping[str, NDArray[np.float32]]) -> Tensors:
        """Return the outputs for an observation, the memory left out.

        Raises:
            ModelRejected: An input or output has another name, shape or type than the interface says.
        """
        inputs = dict(observation)
        if self._memory is not None:
            inputs[MEMORY] = self._memory
        _check(inputs, self._inputs, "input")
        outputs = dict(await self._model(inputs))
        _check(outputs, self._outputs, "output")
        if self._memory is not None:
            self._memory = outputs.pop(MEMORY_NEXT)
        return outputs


def _check(tensors: Tensors, shapes: Mapping[str, tuple[int, ...]], side: str) -> None:
    for name in sorted(set(tensors) ^ set(shapes)):
        what = "is not in the interface of the board" if name in tensors else "is missing"
        raise ModelRejected(f"{side} “{name}” {what}. Next: the tensors of the board are {', '.join(sorted(shapes))}")
    for name, shape in shapes.items():
        found = tensors[name]
        if found.dtype != np.float32 or found.shape != shape:
            raise ModelRejected(
                f"{side} “{name}” is {found.dtype} of shape {list(found.shape)}; the board has float32 of shape"
                f" {list(shape)}. Next: export the model with these shapes"
            )
