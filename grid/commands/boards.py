"""`choroid grid model try`: grade a model on this computer."""

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
from grid.grading.grading import grade_model, void_by
from grid.grading.interval import paired_interval
from grid.grading.model import ModelRejected
from grid.grading.rotation import HIDDEN_FROM
from grid.grading.sandbox import open_in_sandbox
from grid.grading.spread import grade_spread
from grid.grading.task import TaskFailed

FIRST_SEED = 3
"""Of a trial; the seeds before are those on which examples train."""


def described(name: str) -> Board:
    """Return a board that comes with Choroid, or that of a file (.yaml, .json). Raises :class:`GridRefused`."""
    try:
        if Path(name).suffix in SUFFIXES:
            return load_board(Path(name))
        return newest(load_boards(), name)
    except (UnknownBoard, BoardError) as error:
        raise GridRefused(str(error)) from None


def public_seeds(name: str) -> list[int]:
    """Return as many public seeds as a rotation of the board has episodes."""
    return list(range(FIRST_SEED, FIRST_SEED + described(name).rotation.episodes))


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
            grade = asyncio.run(grade_spread(board, content, seeds, executor, done))
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


def compared(board: Board, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rollouts of a board, each control with the interval of the paired difference to it, and what is void."""
    played = {name: dict(each) for name, each in answer["controls"].items()}
    own = played["none"]["scores"]
    controls = {name: each for name, each in played.items() if name != "none"}
    for each in controls.values():
        found = paired_interval(own, each["scores"], board.controls.confidence)
        each |= {"difference": found.difference, "low": found.low, "high": found.high}
    void = void_by(board, own, {name: each["scores"] for name, each in controls.items()})
    return {"board": board.key, **answer, "controls": played, "confidence": board.controls.confidence, "void": void}


def bulk_text(answer: Mapping[str, Any]) -> str:
    """Return rollouts as lines."""
    seeds = answer["seeds"]
    lines = [f"{answer['board']}, {answer['baseline']}, {len(seeds)} seeds ({seeds[0]} to {seeds[-1]})"]
    share = f"{answer['confidence'] * 100:g} %"
    for name, each in answer["controls"].items():
        beaten = (
            ""
            if name == "none"
            else (f"difference {each['difference']:+.4g}, {share} interval {each['low']:+.4g} to {each['high']:+.4g}")
        )
        lines.append(f"  {name:<12}{each['mean']:<9.4g}{beaten}".rstrip())
    if len(answer["controls"]) > 1:
        lines.append(f"  void: {answer['void']}" if answer["void"] else "  above every control")
    return "\n".join(lines)
