"""G19: grading that is spread over tasks gives what one process gives, whatever the order in which they end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from grid.boards.board import Board
from grid.grading import spread
from grid.grading.frames import Tensors
from grid.grading.grader import RETRY_S, ModelGrader
from grid.grading.grading import grade_model
from grid.grading.model import CalledModel, ModelRejected
from grid.grading.task import TaskFailed
from tests.grid.grading import toy
from tests.grid.grading.toy import TOY, ToyHub, opener


class Lost(Executor):
    """A cluster that is gone."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_exception(ConnectionError("no route to the cluster"))
        return future


class Inline(Executor):
    """One process."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


@pytest.fixture(autouse=True)
def _toy_tasks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(spread, "task_process", toy.toy_process)
    monkeypatch.setattr(spread, "open_in_sandbox", opener())
    with toy.toy_tasks(monkeypatch):
        yield


@pytest.mark.parametrize("model", [b"adds", b"roughly", b"two"])
def test_G19_the_grade_is_that_of_one_process(model: bytes) -> None:
    steps: list[tuple[int, int]] = []
    found = asyncio.run(spread.grade_spread(TOY, model, [3, 1, 2], Inline(), lambda *each: steps.append(each)))
    assert found == asyncio.run(grade_model(TOY, model, [3, 1, 2], opener()))
    assert found.digest != asyncio.run(spread.grade_spread(TOY, model, [3, 2, 1], Inline())).digest
    assert bool(found.void) == (model == b"two")
    assert steps == [(n, 6) for n in range(1, 7)]


def test_G19_a_model_that_fails_is_rejected_as_in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(given: Any) -> Any:
        raise ModelRejected("the model failed")

    monkeypatch.setattr(spread, "open_in_sandbox", opener({b"m": fails}))
    with pytest.raises(ModelRejected, match="the model failed"):
        asyncio.run(spread.grade_spread(TOY, b"m", [1], Inline()))


def test_G19_a_lost_cluster_is_no_fault_of_the_model() -> None:
    with pytest.raises(TaskFailed, match=r"no route to the cluster.*try again"):
        asyncio.run(spread.grade_spread(TOY, b"adds", [1], Lost()))


@pytest.mark.parametrize(("jobs", "call_s"), [(1, 0.15), (4, 0.3), (1, 1.2)])
def test_G19_a_model_that_is_too_slow_is_rejected_and_not_graded_again_and_again(
    jobs: int, call_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    @asynccontextmanager
    async def opened(model: bytes, board: Board) -> AsyncIterator[CalledModel]:
        async def call(inputs: Tensors) -> Tensors:
            await asyncio.sleep(call_s)
            return toy.adds(inputs)

        yield call

    monkeypatch.setattr(spread, "open_in_sandbox", opened)
    board = TOY.model_copy(update={"limits": TOY.limits.model_copy(update={"grading_s": 2})})
    with ThreadPoolExecutor(jobs) as threads, pytest.raises(ModelRejected, match="the model is slow"):
        asyncio.run(spread.grade_spread(board, b"m", range(20), threads))


def test_G19_a_cluster_that_is_busy_with_other_work_is_no_fault_of_the_model() -> None:
    board = TOY.model_copy(update={"limits": TOY.limits.model_copy(update={"grading_s": 1})})
    over = Event()
    with ThreadPoolExecutor(1) as threads:
        threads.submit(over.wait, 30.0)
        with pytest.raises(TaskFailed, match="too busy"):
            asyncio.run(spread.grade_spread(board, b"adds", [1], threads))
        over.set()


def test_G19_a_submission_waits_while_the_cluster_is_lost_and_is_graded_as_on_one_machine(tmp_path: Path) -> None:
    hub = ToyHub(tmp_path)
    try:
        submission = hub.submit(b"roughly")["submission"]

        def graders(executor: Executor) -> list[ModelGrader]:
            return [ModelGrader(hub.service, key, opener(), executor=executor, clock=hub.clock) for key in hub.keys]

        hub.graders = graders(Lost())
        assert asyncio.run(hub.graded(submission))["state"] == "queued"
        assert all("no route to the cluster" in grader.problem for grader in hub.graders)
        hub.clock.now_s += RETRY_S + 1.0
        hub.graders = graders(Inline())
        found = asyncio.run(hub.graded(submission))
        assert (found["state"], found["published"]) == ("graded", 0.7)
        seeds = hub.store.rotation(TOY.key).seeds(TOY.rotation.episodes)  # type: ignore[union-attr]
        alone = asyncio.run(grade_model(TOY, b"roughly", seeds, opener()))
        assert [each.grade for each in hub.store.verdicts(submission, 1)] == [alone, alone]
    finally:
        hub.store.close()
