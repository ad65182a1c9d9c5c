"""`choroid grid try`: grade a model on this computer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from pathlib import Path
from statistics import fmean
from typing import Any

from grid.boards.board import Board
from grid.boards.loading import SUFFIXES, BoardError, UnknownBoard, load_board, load_boards, newest
from grid.errors import GridError, GridRefused
from grid.grading.grading import grade_model
from grid.grading.model import ModelRejected
from grid.grading.rotation import HIDDEN_FROM
from grid.grading.sandbox import open_in_sandbox
from grid.grading.spread import grade_spread
from grid.grading.task import TaskFailed


def described(name: str) -> Board:
    """Return a board that comes with Choroid, or that of a file (.yaml, .json). Raises :class:`GridRefused`."""
    try:
        if Path(name).suffix in SUFFIXES:
            return load_board(Path(name))
        return newest(load_boards(), name)
    except (UnknownBoard, BoardError) as error:
        raise GridRefused(str(error)) from None


def try_model(
    name: str,
    model: Path,
    seeds: list[int],
    executor: Executor | None = None,
    done: Callable[[int, int], None] = lambda finished, wanted: None,
) -> dict[str, Any]:
    """Grade a model on public seeds and with every control.

    Args:
        name: Name or file of the board.
        model: The ONNX file.
        seeds: Public seeds.
        executor: Where episodes are played; None plays them here, one after the other.
        done: Called after each episode on an executor with the number of finished ones and of all.

    Raises:
        GridRefused: The board is unknown, a seed is not public, or the model is refused.
        GridError: This computer has no sandbox, or the task failed.
    """
    board = described(name)
    if any(not 0 <= seed < HIDDEN_FROM for seed in seeds):
        raise GridRefused(f"a public seed is a whole number below {HIDDEN_FROM}. Next: choose another --seed")
    try:
        content = model.read_bytes()
        if executor is None:
            grade = asyncio.run(grade_model(board, content, seeds, open_in_sandbox))
        else:
            grade = grade_spread(board, content, seeds, executor, done)
    except ModelRejected as error:
        raise GridRefused(str(error)) from None
    except TaskFailed as error:
        raise GridError(str(error)) from None
    return {"board": board.key, "seeds": seeds, "mean": grade.mean, **grade.to_json()}


def try_text(answer: Mapping[str, Any]) -> str:
    """Return the result of a trial as lines."""
    lines = [f"{answer['board']}: {answer['mean']:.4g} on the public seeds {', '.join(map(str, answer['seeds']))}"]
    lines += [f"  control {name}: {fmean(scores):.4g}" for name, scores in answer["controls"].items()]
    return "\n".join([*lines, f"  void: {answer['void']}" if answer["void"] else "  above every control"])
