"""A toy board, its task in this process, and models that are Python functions: what is under test is the grading."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grid.boards.board import Board
from grid.boards.loading import parse_board
from grid.boards.manifest import sign_manifest
from grid.grading import grader as grader_module
from grid.grading import grading as grading_module
from grid.grading.frames import TaskFrame, Tensors
from grid.grading.grader import ModelGrader
from grid.grading.model import CalledModel, OpenModel
from grid.grading.sealing import SecretSeal
from grid.grading.service import BoardService
from grid.grading.store import BoardStore
from grid.grading.task import TaskProcess
from grid.identity.keys import IdentityKey
from grid.tasks.serve import TaskServer
from grid.tasks.task import BoardTask, Episode, Params, Policy, Scored, array, received
from tests.grid.boards.test_loading import TEXT

TOY = parse_board(TEXT.encode(), "toy.yaml")
STEPS = 3
Model = Callable[[Tensors], Tensors]


def _episode(seed: int, control: str | None, params: Params) -> Episode:
    """Ask for the sum of four numbers, three times."""
    rng = np.random.default_rng(seed)
    right = 0.0
    for _ in range(STEPS):
        x = array(rng.random(params["size"]))
        action = yield {"x": np.zeros_like(x) if control == "zero" else x}
        right += max(0.0, 1.0 - abs(float(received(action, "y", (1,))[0]) - float(x.sum())))
    return Scored(right / STEPS, {"steps": float(STEPS)})


def _nothing(seed: int, params: Params) -> Policy:
    return lambda _: {"y": np.zeros(1, np.float32)}


TASKS = {"toy": BoardTask("toy", _episode, ("zero",), {"nothing": _nothing})}


class ToyProcess(TaskProcess):
    """The task server without a process."""

    def __init__(self) -> None:
        self._server = TaskServer(TASKS)

    async def _exchange(self, frame: TaskFrame) -> TaskFrame:
        return self._server.answer(frame)


@asynccontextmanager
async def toy_process(module: str = "") -> AsyncIterator[TaskProcess]:
    yield ToyProcess()


def _with_memory(y: float, given: Tensors) -> Tensors:
    return {"y": np.array([y], np.float32), "memory_next": given["memory"] + 1}


def adds(given: Tensors) -> Tensors:
    return _with_memory(float(given["x"].sum()), given)


def adds_roughly(given: Tensors) -> Tensors:
    return _with_memory(float(given["x"].sum()) + 0.3, given)


def says_two(given: Tensors) -> Tensors:
    return _with_memory(2.0, given)


MODELS: Mapping[bytes, Model] = {b"adds": adds, b"roughly": adds_roughly, b"two": says_two}


def opener(models: Mapping[bytes, Model] = MODELS) -> OpenModel:
    @asynccontextmanager
    async def opened(model: bytes, board: Board) -> AsyncIterator[CalledModel]:
        async def call(inputs: Tensors) -> Tensors:
            return models[model](inputs)

        yield call

    return opened


class Clock:
    """UTC that the test sets."""

    def __init__(self) -> None:
        self.now_s = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now_s


class ToyHub:
    """A service with two graders, in a folder."""

    def __init__(
        self, folder: Path, models: Mapping[bytes, Model] = MODELS, other: Mapping[bytes, Model] | None = None
    ) -> None:
        self.clock = Clock()
        self.log: list[tuple[str, dict[str, Any]]] = []
        self.keys = [IdentityKey.in_folder(folder / name) for name in ("one", "two")]
        self.author = IdentityKey.in_folder(folder / "author")
        self.store = BoardStore(folder / "boards", SecretSeal(IdentityKey.in_folder(folder / "hub")))
        self.service = BoardService(
            {TOY.key: TOY},
            self.store,
            graders=frozenset(key.public.hex() for key in self.keys),
            append=lambda kind, body: self.log.append((kind, dict(body))),
            open_model=opener(models),
            clock=self.clock,
            entropy=lambda count: bytes([65 + len(self.log)]) * count,
        )
        sets = (models, models if other is None else other)
        self.graders = [
            ModelGrader(self.service, key, opener(each), clock=self.clock)
            for key, each in zip(self.keys, sets, strict=True)
        ]

    def submit(
        self, model: bytes, *, nonce: int = 0, name: str = "mine", author: IdentityKey | None = None
    ) -> dict[str, Any]:
        key = author or self.author
        manifest = sign_manifest(key.private, model, board=TOY.key, name=name, nonce=bytes([nonce]) * 32)
        return self.service.submit(key.id, manifest.to_json(), model)

    async def graded(self, submission: str) -> dict[str, Any]:
        for grader in self.graders:
            while await grader.step():
                pass
        return self.service.state(self.author.id, submission)


@contextmanager
def toy_tasks(monkeypatch: Any) -> Iterator[None]:
    """Let graders use the toy task instead of a process."""
    monkeypatch.setattr(grading_module, "task_process", toy_process)
    monkeypatch.setattr(grader_module, "task_process", toy_process)
    yield


def numbers(*values: float) -> NDArray[np.float32]:
    return np.array(values, np.float32)
