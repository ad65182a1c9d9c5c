"""G19: grading that is spread over tasks gives what one process gives, whatever the order in which they end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from typing import Any

import pytest

from grid.grading import spread
from grid.grading.grading import grade_model
from grid.grading.model import ModelRejected
from tests.grid.grading import toy
from tests.grid.grading.toy import TOY, opener


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
    found = spread.grade_spread(TOY, model, [3, 1, 2], Inline(), lambda *each: steps.append(each))
    assert found == asyncio.run(grade_model(TOY, model, [3, 1, 2], opener()))
    assert found.digest != spread.grade_spread(TOY, model, [3, 2, 1], Inline()).digest
    assert bool(found.void) == (model == b"two")
    assert steps == [(n, 6) for n in range(1, 7)]


def test_G19_a_model_that_fails_is_rejected_as_in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(given: Any) -> Any:
        raise ModelRejected("the model failed")

    monkeypatch.setattr(spread, "open_in_sandbox", opener({b"m": fails}))
    with pytest.raises(ModelRejected, match="the model failed"):
        spread.grade_spread(TOY, b"m", [1], Inline())
