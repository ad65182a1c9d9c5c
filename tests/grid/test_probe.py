"""The probe of a code package in the training environment: what it measures, repetition, and a throttled member."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from grid.planning.candidates import LinkTable, read_candidate
from grid.planning.links import LinkFigures
from grid.planning.plan import PlanRequest, plan
from tests.grid.shaped_ranks import PACKAGE, TORCH, environment
from tests.grid.training_environment import torch_python

pytestmark = [
    pytest.mark.long,
    pytest.mark.usefixtures("training"),
]
LIMIT_S = 600


@pytest.fixture(scope="module")
def training() -> None:
    """Make the training environment if there is none."""
    torch_python()


PERIOD_S = 0.1


def started(preset: str, sizes: str, cpu_s: float = 5.0) -> subprocess.Popen[str]:
    words = (str(TORCH), "-m", "engines.probe", str(PACKAGE), preset, "--micro-batches", sizes, "--threads", "1")
    return subprocess.Popen(
        (*words, "--cpu-s", str(cpu_s)), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    )


def probed(preset: str, sizes: str, cpu_s: float = 5.0) -> dict[str, Any]:
    process = started(preset, sizes, cpu_s)
    out, error = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, error
    found: dict[str, Any] = json.loads(out)
    return found


def case(found: dict[str, Any], size: int, *, recomputed: bool) -> dict[str, Any]:
    return next(each for each in found["cases"] if (each["micro_batch"], each["recomputed"]) == (size, recomputed))


def test_memory_is_states_and_activations_and_the_probe_keeps_its_time() -> None:
    found = probed("small", "8,32", 20.0)
    few, many = (case(found, size, recomputed=False) for size in (8, 32))
    assert sum(each["steps"] for each in found["cases"]) >= 10
    assert found["cpu_s"] < 22.0
    assert found["parameters"] == 2_125_072
    states = 24 * found["parameters"]
    activations = [each["peak_bytes"] - states for each in (few, many)]
    # what the layers keep: 64 places, 4 blocks of (norm, 4 wide, gelu, sum), in single precision; gradients pass through more
    floats = 64 * 4 * 256 * (1 + 1 + 4 + 4 + 1)
    assert 1.0 <= (activations[1] - activations[0]) / (4 * floats * (32 - 8)) <= 2.0


def test_a_probe_repeats_within_a_tenth() -> None:
    found = [probed("small", "8") for _ in range(3)]
    cases = [case(each, 8, recomputed=False) for each in found]
    for figure in ("step_cpu_s", "peak_bytes"):  # processor time: other work on the machine lengthens the step
        low, middle, high = sorted(each[figure] for each in cases)
        assert min(middle / low, high / middle) <= 1.1, f"{figure}: {[low, middle, high]}"


def test_a_preset_that_is_not_there_is_named() -> None:
    process = started("huge", "8")
    _, error = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1
    assert "no preset “huge”. Next: take one of tiny, small, base, large" in error


@contextlib.contextmanager
def throttled(process: subprocess.Popen[str], share: float) -> Iterator[None]:
    """Let a process and its children run for a share of the time only."""
    over = threading.Event()

    def duty() -> None:
        while not over.wait(PERIOD_S * share):
            for what, pause_s in ((signal.SIGSTOP, PERIOD_S * (1 - share)), (signal.SIGCONT, 0.0)):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, what)
                time.sleep(pause_s)

    thread = threading.Thread(target=duty)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGCONT)


def test_a_throttled_member_is_left_out() -> None:
    """One after the other, so that the two that are not throttled do not slow each other."""

    def measured(name: str, share: float) -> dict[str, Any]:
        words = (str(TORCH), "-m", "engines.probe", str(PACKAGE), "small", "--micro-batches", "8", "--threads", "1")
        process = subprocess.Popen(
            (*words, "--cpu-s", "3"), text=True, stdout=subprocess.PIPE, env=environment(), start_new_session=True
        )
        with throttled(process, share) if share < 1 else contextlib.nullcontext():
            out, _ = process.communicate(timeout=LIMIT_S)
        return {"name": name, **json.loads(out)}

    found = [measured("alpha", 1.0), measured("slow", 0.4), measured("beta", 1.0)]
    steps = [case(each, 8, recomputed=False)["step_s"] for each in found]
    assert steps[1] > 1.3 * max(steps[0], steps[2])
    members = [read_candidate(each, "") for each in found]
    members[2] = members[2].model_copy(update={"cases": members[0].cases})  # other work may have slowed one of the two
    link = LinkFigures(1e-4, 1e10, 1e10)
    links = LinkTable({("alpha", "beta"): link, ("alpha", "slow"): link, ("beta", "slow"): link})
    answer = plan(PlanRequest(batch=8), members, links)
    assert answer.chosen is not None
    assert answer.chosen.members == ("alpha", "beta")
    assert "times the step time of the others; at most 15% apart train together" in answer.left_out["slow"]
