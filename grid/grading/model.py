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


CAUSES = {
    "input": "Next: give finite values",
    "output": (
        "Likely cause: a logarithm or a root of a negative number, a division by 0, or weights of a training that diverged."
        " Next: find the first operator whose result is not finite"
    ),
}
"""Of values that are not finite, by the side they are on."""
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
            ModelRejected: An input or output has another name, shape or type than the interface says, or is not finite.
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
    odd = {name: np.count_nonzero(~np.isfinite(found)) for name, found in sorted(tensors.items())}
    for name, count in odd.items():
        if count:
            raise ModelRejected(
                f"{side}s are not finite: “{name}” has {count} of {tensors[name].size} values that are NaN or infinite."
                f" {CAUSES[side]}"
            )
