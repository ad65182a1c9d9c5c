"""G19: rollouts over processes and over Ray give what one process gives; a killed worker's task is run again."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from concurrent.futures import Executor, Future
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from choroid.common.failure import UserError
from grid.grading.grading import grade_model
from grid.grading.sandbox import open_in_sandbox
from grid.tasks.rollouts import RolloutPlan, rollouts
from tests.grid.small_board import decoder, small_board

PLAN = RolloutPlan(
    "decode-stimulus",
    ({"electrodes": 16, "specimen": 7, "classes": 4, "trials": 16, "bins": 5, "bin_ms": 20.0, "current_ua": 1.0},),
    "nearest-centroid",
    (3, 4, 5),
    (None, "zero"),
)


class Inline(Executor):
    """One process, in the opposite order."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def test_G19_rollouts_are_reported_by_control_and_seed() -> None:
    steps: list[tuple[int, int]] = []
    answer = rollouts(PLAN, Inline(), lambda *each: steps.append(each))
    assert steps == [(n, 6) for n in range(1, 7)]
    assert list(answer["controls"]) == ["none", "zero"]
    assert answer["controls"]["zero"]["scores"] == [0.25] * 3
    assert answer["controls"]["none"]["mean"] > 0.3
    assert rollouts(PLAN, Inline()) == answer


@pytest.mark.parametrize(
    ("change", "says"),
    [({"task": "odd"}, "no task"), ({"baseline": "odd"}, "no baseline"), ({"controls": ("odd",)}, "no control")],
)
def test_G19_unknown_names_are_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        rollouts(RolloutPlan(**(asdict(PLAN) | change)), Inline())


@pytest.mark.long
@pytest.mark.needs_module("ray", "bulk")
def test_G19_ray_gives_the_same_results_and_runs_the_task_of_a_killed_worker_again(tmp_path: Path) -> None:
    board = small_board(tmp_path)
    (tmp_path / "model.onnx").write_bytes(decoder())
    script = Path(__file__).with_name("ray_rollouts.py")
    environment = os.environ | {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    done = subprocess.run(
        [sys.executable, str(script), json.dumps(asdict(PLAN)), str(tmp_path / "marker")],
        capture_output=True,
        text=True,
        timeout=600,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    alone = rollouts(PLAN, Inline())
    assert {name: answer[name] for name in alone} == json.loads(json.dumps(alone))
    graded = asyncio.run(grade_model(board, decoder(), [3], open_in_sandbox))
    assert answer["grade"] == graded.to_json()
    assert graded.mean > max(each[0] for each in graded.controls.values())
    assert answer["steps"] == [1, 2, 3, 4, 5, 6]
    assert (tmp_path / "marker").exists()
    assert answer["retried"] == 49
    assert "no square of 7" in answer["error"]
    assert answer["cancelled"] == [True] * 4
    assert (answer["next"], answer["ended"]) == (7, 0), "cancelled tasks make room for others"
    assert answer["attempts"] == 1  # only lost workers are replaced; a task that fails is not repeated
