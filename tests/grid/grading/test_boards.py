"""X6, G17: the shipped boards with real task processes, and models in the sandbox."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

from grid.boards.board import Board
from grid.boards.loading import load_boards, newest
from grid.grading.agreement import disagreement, sign_verdict
from grid.grading.frames import LENGTH
from grid.grading.grading import ModelGrade, baseline_score, grade_model
from grid.grading.sandbox import open_in_sandbox
from grid.grading.task import EpisodeScore, TaskFailed, task_process
from grid.identity.keys import IdentityKey
from grid.tasks.catalogue import TASKS
from grid.tasks.decode import TRAINING_SEEDS, data
from grid.tasks.held_out import bits_per_spike
from grid.tasks.recycling import IdealHand, bounded
from grid.tasks.spikes import ridge
from grid.tasks.task import play
from tests.grid import make_boards_page
from tests.grid.boards.models import linear_decoder

BOARDS = load_boards()
SEED = 2**33 + 1
QUICK = {"steering": {"settle_s": 5.0}}
"""Parameters that make the first observation of a board quick."""


def test_the_list_of_the_boards_is_of_their_files() -> None:
    assert make_boards_page.PAGE.read_text(encoding="utf-8") == make_boards_page.text(), (
        "next: python -m tests.grid.make_boards_page"
    )


def a_decoder() -> bytes:
    params = newest(BOARDS, "decode-stimulus").task.params
    made = [data(seed, params) for seed in TRAINING_SEEDS]
    stimulus = np.concatenate([each["stimulus"] for each in made]).astype(int)
    return linear_decoder(ridge(np.concatenate([each["spikes"] for each in made]), np.eye(8)[stimulus], 10.0))


def graded(board: Board, model: bytes, seeds: list[int]) -> ModelGrade:
    return asyncio.run(grade_model(board, model, seeds, open_in_sandbox))


@pytest.mark.parametrize("board", BOARDS.values(), ids=list(BOARDS))
def test_X6_every_board_names_a_task_with_its_baselines_and_controls(board: Board) -> None:
    task = TASKS[board.task.name]
    assert set(board.baselines) <= set(task.baselines)
    assert set(board.controls.names) == set(task.controls)
    first = next(task.episode(SEED, None, board.task.variants()[0].params | QUICK.get(board.board, {})))
    shapes = {name: array.shape for name, array in first.items()}
    assert shapes == {each.name: tuple(each.shape) for each in board.interface.inputs}


@pytest.mark.long
def test_X6_a_decoder_is_graded_in_the_sandbox_and_two_graders_agree() -> None:
    board = newest(BOARDS, "decode-stimulus")
    model = a_decoder()
    grades = [graded(board, model, [SEED, SEED + 1]) for _ in range(2)]
    keys = [IdentityKey.generate() for _ in grades]
    verdicts = [
        sign_verdict(key.private, submission="s", rotation=1, platform="here", grade=grade)
        for key, grade in zip(keys, grades, strict=True)
    ]
    assert disagreement(*verdicts) == ""
    grade = grades[0]
    assert grade.mean > 0.6
    assert grade.void == ""
    assert max(max(scores) for scores in grade.controls.values()) < 0.3


def test_X6_a_decoder_that_ignores_the_spikes_is_void() -> None:
    grade = graded(newest(BOARDS, "decode-stimulus"), linear_decoder(np.zeros((161, 8))), [SEED, SEED + 1])
    assert "zero" in grade.void


def test_X7_a_task_gives_no_score_to_an_action_that_is_not_finite() -> None:
    board = newest(BOARDS, "decode-stimulus")
    (shape,) = board.interface.shapes("outputs").values()

    async def acted(value: float) -> object:
        async with task_process() as task:
            await task.begin(board.task, SEED)
            return await task.act({"logits": np.full(shape, value, np.float32)})

    assert isinstance(asyncio.run(acted(0.0)), EpisodeScore)
    for value in (np.nan, np.inf, -np.inf):
        with pytest.raises(TaskFailed, match="is not finite"):
            asyncio.run(acted(value))


@pytest.mark.parametrize(
    ("name", "better", "worse"),
    [("decode-stimulus", "ridge", "chance"), ("held-out-spikes", "ridge", "window-rate")],
)
def test_X6_baselines_are_ordered_as_they_should_be(name: str, better: str, worse: str) -> None:
    board = newest(BOARDS, name)

    async def scores() -> dict[str, float]:
        async with task_process() as task:
            return {each: await baseline_score(board, each, SEED, task) for each in board.baselines}

    found = asyncio.run(scores())
    assert found[better] > found[worse] + 0.2


def test_X6_half_of_the_medium_keeps_hard_working_tissue_alive_and_none_does_not() -> None:
    task, params = TASKS["recycle-medium"], {"days": 5.0, "fresh_weight": 0.5}
    seed = next(n for n in range(100) if IdealHand(n).plant.fleet.tissues["count"][0] > 110.0)
    found = {
        name: play(task.episode(seed, None, params), task.baselines[name](seed, params))
        for name in ("nothing", "half-exchange")
    }
    assert found["half-exchange"].figures["viability"] > 0.9
    assert found["nothing"].figures["viability"] < 0.7
    assert found["half-exchange"].value > found["nothing"].value


@pytest.mark.parametrize(
    "asked", [[99.0, 99.0, 99.0, 99.0], [18.0, 30.0, 5.0, 5.0], [-5.0, 9.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0]]
)
def test_X6_proposals_are_cut_to_the_limits(asked: list[float]) -> None:
    hand = IdealHand(1)
    found = bounded(hand, np.array(asked))
    assert 0.0 <= found["batch"] <= min(35_000.0, hand.volume_ul("loop") - hand.rig.vessels["loop"].floor_ul)
    assert found["fresh"] + found["glucose"] + found["base"] <= found["batch"] + 1e-9
    assert found["glucose"] <= 2000.0
    assert found["base"] <= 2000.0
    assert found["cut"] >= 0.0


def test_X6_metrics_of_known_cases() -> None:
    real = np.array([[4.0, 0.0], [0.0, 2.0]], np.float32)
    mean = np.tile(real.mean(axis=0), (2, 1)).astype(np.float64)
    assert bits_per_spike(mean, real) == pytest.approx(0.0)
    assert bits_per_spike(real.astype(np.float64), real) == pytest.approx(1.0, abs=0.01)
    assert bits_per_spike(real[::-1].astype(np.float64), real) < -1.0


@pytest.mark.parametrize("name", ["decode-stimulus", "steering"])
def test_X6_the_same_seed_gives_the_same_episode_in_another_process(name: str) -> None:
    board = newest(BOARDS, name)

    async def first() -> bytes:
        async with task_process() as task:
            variant = board.task.variants()[0]
            quick = variant.model_copy(update={"params": variant.params | QUICK.get(name, {})})
            observed = await task.begin(quick, SEED)
            assert not isinstance(observed, EpisodeScore)
            return b"".join(observed[each].tobytes() for each in sorted(observed))

    assert asyncio.run(first()) == asyncio.run(first())


def _unknown(**change: object) -> Callable[[], None]:
    async def begin() -> None:
        board = newest(BOARDS, "decode-stimulus")
        task = board.task.model_copy(update={"name": change.get("task", board.task.name)})
        async with task_process() as process:
            await process.begin(task, SEED, control=change.get("control"), baseline=change.get("baseline"))  # type: ignore[arg-type]

    return lambda: asyncio.run(begin())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"task": "other"}, "no task “other”"),
        ({"control": "odd"}, "no control “odd”"),
        ({"baseline": "odd"}, "no baseline"),
    ],
)
def test_X6_unknown_names_are_reported_with_the_known_ones(change: dict[str, object], says: str) -> None:
    with pytest.raises(TaskFailed, match=f"{says}.*known"):
        _unknown(**change)()


def test_X6_a_task_process_that_dies_is_an_error_with_its_last_words() -> None:
    async def begin() -> None:
        async with task_process("choroid.no_such_module") as process:
            await process.begin(newest(BOARDS, "decode-stimulus").task, SEED)

    with pytest.raises(TaskFailed, match="no_such_module"):
        asyncio.run(begin())


def test_X6_rubbish_ends_the_task_process() -> None:
    found = subprocess.run(
        [sys.executable, "-P", "-m", "grid.tasks"], input=LENGTH.pack(2**31), capture_output=True, timeout=60
    )
    assert found.returncode != 0
    assert found.stdout == b""
