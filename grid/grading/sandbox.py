"""Models of a board in the sandbox: limits of the board, errors in terms of the board."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from controller.sandbox.errors import ModelFailed, ModelRefused, ModelTooSlow, SandboxUnavailable
from controller.sandbox.limits import MIB, ModelLimits
from controller.sandbox.model import SandboxedModel
from controller.sandbox.wire import BadTensors
from grid.boards.board import Board
from grid.grading.frames import Tensors
from grid.grading.model import CalledModel, ModelRejected
from grid.grading.task import TaskFailed

SLOW_RUNTIME_S = 60.0
"""Maximum time in which a worker starts on a busy machine; the model has no part in it."""


def limits_of(board: Board) -> ModelLimits:
    """Return the sandbox's limits for models of a board."""
    size = board.limits.model_kib * 1024
    return ModelLimits(
        max_model=size,
        max_initializers=size,
        max_memory=board.limits.memory_mib * MIB,
        max_cpu_s=board.limits.grading_s,
        max_start_s=SLOW_RUNTIME_S,
    )


class SandboxedCalls:
    """Calls of one model with the board's deadline."""

    def __init__(self, model: SandboxedModel, deadline_s: float) -> None:
        self._model = model
        self._deadline_s = deadline_s

    async def __call__(self, inputs: Tensors) -> Tensors:
        """As :class:`CalledModel`."""
        try:
            return await self._model.run_async(dict(inputs), self._deadline_s)
        except BadTensors as error:
            raise ModelRejected(
                f"the model does not fit the board: {error}. Next: export it with the board's tensors"
            ) from None
        except ModelTooSlow:
            raise ModelRejected(
                f"the model did not answer within {self._deadline_s * 1000:g} ms. Likely cause: a loop, or a model that"
                " is too large. Next: make it smaller"
            ) from None
        except ModelFailed as error:
            raise ModelRejected(f"the model failed: {error}. Next: run it with `choroid grid model try`") from None


@asynccontextmanager
async def open_in_sandbox(model: bytes, board: Board) -> AsyncIterator[CalledModel]:
    """Open a model in a locked process for the time of the block.

    Raises:
        ModelRejected: The check or the runtime refuses it, or it died while it was loaded.
        TaskFailed: This machine has no sandbox; no model is run without it.
    """
    try:
        opened = await SandboxedModel.open_async(model, limits_of(board))
    except SandboxUnavailable as error:
        raise TaskFailed(f"no model is run on this machine: {error}") from None
    except (ModelRefused, ModelFailed) as error:
        raise ModelRejected(
            f"the model is refused: {error}. Next: export it again with the operators of docs/sandbox.md"
        ) from None
    try:
        yield SandboxedCalls(opened, board.limits.call_ms / 1000.0)
    finally:
        opened.close()
