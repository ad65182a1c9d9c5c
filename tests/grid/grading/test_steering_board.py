"""G17: the board steering. The tissue of a closed loop learns; an open loop has 0.5; controls cannot reach the score."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from statistics import fmean
from typing import Any

import numpy as np
import onnxruntime
import pytest

from grid.boards.board import Board
from grid.boards.loading import load_boards, newest
from grid.grading.grading import ModelGrade, grade_model, void_by
from grid.grading.sandbox import open_in_sandbox
from grid.tasks.steering import STEERING, FeedbackAgent
from grid.tasks.task import Policy, Values, array, play
from tests.grid.boards.models import alternating_agent, feedback_agent

BOARD = newest(load_boards(), "steering")
TINY = {"settle_s": 2.0, "before": 1, "training": 3, "test": 2, "probes": 4, "repeats": 5, "pause_s": 0.2}
SHORT = {"settle_s": 60.0, "before": 2, "training": 10, "test": 4, "probes": 20, "repeats": 60, "pause_s": 2.0}
SEEDS = (301, 302, 303)


def with_params(params: dict[str, Any], *controls: str) -> Board:
    task = BOARD.task.model_copy(update={"params": params})
    return BOARD.model_copy(
        update={"task": task, "controls": BOARD.controls.model_copy(update={"names": list(controls)})}
    )


def graded(board: Board, model: bytes, seeds: tuple[int, ...]) -> ModelGrade:
    return asyncio.run(grade_model(board, model, seeds, open_in_sandbox))


def played(policy: Policy, control: str | None, *, swapped: bool, **change: Any) -> tuple[float, list[Values]]:
    """Play a tiny episode; return its score and what the agent saw."""
    episode = STEERING.episode(7, control, TINY | {"swapped": swapped} | change)
    seen: list[Values] = []
    try:
        seen.append(next(episode))
        while True:
            seen.append(episode.send(policy(seen[-1])))
    except StopIteration as end:
        return float(end.value.value), seen


def mean_score(policy: Callable[[], Policy], control: str | None, seed: int) -> float:
    return fmean(
        play(STEERING.episode(seed, control, SHORT | {"swapped": swapped}), policy()).value for swapped in (False, True)
    )


@pytest.mark.long
def test_G17_a_closed_loop_teaches_plastic_tissue_and_not_the_frozen() -> None:
    """Fewer rounds than the board has; docs/boards.md has the figures of the board itself, against every control."""
    plastic, frozen = ([mean_score(FeedbackAgent, control, seed) for seed in SEEDS] for control in (None, "frozen"))
    assert min(plastic) > 0.55
    assert fmean(frozen) == pytest.approx(0.5, abs=0.05)
    board, half = with_params(SHORT, "zero", "frozen"), [0.5] * len(SEEDS)
    assert void_by(board, plastic, {"zero": half, "frozen": frozen}) == ""
    assert "zero" in void_by(board, frozen, {"zero": half, "frozen": frozen})


def test_G17_an_open_loop_has_exactly_one_half_and_is_void() -> None:
    grade = graded(with_params(TINY, "zero"), alternating_agent(), (7, 8))
    assert grade.scores == pytest.approx((0.5, 0.5), abs=1e-12)
    assert grade.controls["zero"] == grade.scores
    assert "zero" in grade.void


@pytest.mark.parametrize("control", [None, "zero"])
def test_G17_what_never_looks_drives_as_far_to_the_wrong_side(control: str | None) -> None:
    make = STEERING.baselines["alternate"] if control is None else lambda seed, params: FeedbackAgent()
    one, other = (played(make(7, TINY), control, swapped=swapped)[0] for swapped in (False, True))
    assert one != 0.5
    assert one + other == pytest.approx(1.0, abs=1e-12)


def test_G17_the_agent_acts_on_the_spikes_that_it_received() -> None:
    better_left, better_right = (array([0, 0, 0, 0, left, right, 0]) for left, right in ((0.3, -0.3), (-0.3, 0.3)))
    chosen = [int(FeedbackAgent()({"state": each})["pattern"].argmax()) for each in (better_left, better_right)]
    assert chosen == [3, 1], "it trains the side that is worse"
    agent = FeedbackAgent()
    agent({"state": better_right})
    worse = agent({"state": array([0, 0, 0, 0, -0.9, 0.3, 0])})
    assert int(worse["pattern"].argmax()) == 2, "what made the side worse is not chosen again"


def test_G17_zero_shows_no_spikes_and_shuffled_shows_those_of_rounds_so_far() -> None:
    true = [each["state"][:6] for each in played(FeedbackAgent(), None, swapped=False)[1]]
    assert any(each[:4].any() for each in true)
    zero = played(FeedbackAgent(), "zero", swapped=False)[1]
    assert not any(each["state"][:6].any() for each in zero)
    never = STEERING.baselines["never"](7, TINY)
    own = [each["state"][:6].tolist() for each in played(never, None, swapped=False, training=8)[1]]
    shuffled = [each["state"][:6].tolist() for each in played(never, "shuffled", swapped=False, training=8)[1]]
    assert all(each in own[: number + 1] for number, each in enumerate(shuffled))
    assert shuffled != own


def test_G17_random_stimulates_as_often_with_other_patterns() -> None:
    scores = {
        control: [
            played(STEERING.baselines["alternate"](7, TINY), control, swapped=swapped)[0] for swapped in (False, True)
        ]
        for control in (None, "random")
    }
    assert scores["random"] != scores[None]
    assert (
        played(STEERING.baselines["never"](7, TINY), "random", swapped=False)[0]
        == (played(STEERING.baselines["never"](7, TINY), None, swapped=False)[0])
    ), "it draws a pattern only where the agent chooses one"


def test_G17_the_model_on_the_board_is_the_baseline() -> None:
    session, rng = onnxruntime.InferenceSession(feedback_agent()), np.random.default_rng(0)
    memory, agent = np.zeros(16, np.float32), FeedbackAgent()
    for _ in range(20):
        state = rng.uniform(-1.0, 1.0, 7).astype(np.float32)
        pattern, memory = session.run(["pattern", "memory_next"], {"state": state, "memory": memory})
        np.testing.assert_array_equal(pattern, agent({"state": state})["pattern"])
