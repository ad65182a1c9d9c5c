"""Models in the sandbox: what they compute, how they fail, and that they end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from controller.sandbox import model as sandbox
from controller.sandbox.errors import ModelFailed, ModelRefused, ModelTooSlow, SandboxUnavailable
from controller.sandbox.limits import MIB, ModelLimits
from controller.sandbox.model import SandboxedModel
from controller.sandbox.wire import BadTensors
from tests.processes import lives
from tests.sandbox.models import constant, floats, linear, loop, memory_bomb, model_of

ONES = {"x": np.ones((1, 64), np.float32)}
ONE = {"x": np.ones(1, np.float32)}
FOREVER = 1 << 60
LONG_S = 30.0


@pytest.fixture(scope="module")
def worker() -> Iterator[SandboxedModel]:
    with SandboxedModel.open(linear().SerializeToString()) as model:
        yield model


def test_a_model_computes(worker: SandboxedModel) -> None:
    for factor in (1.0, 2.0):
        answer = worker.run({"x": ONES["x"] * np.float32(factor)}, LONG_S)
        assert answer["y"].tolist() == [[64.0 * factor] * 8]
    assert [port.name for port in worker.inputs] == ["x"]
    assert worker.outputs[0].shape == (1, 8)


def test_a_model_computes_in_asyncio() -> None:
    async def several() -> list[float]:
        model = await SandboxedModel.open_async(loop(5).SerializeToString())
        with model:
            return [float((await model.run_async({"x": np.full(1, n, np.float32)}, LONG_S))["y"][0]) for n in range(3)]

    assert asyncio.run(several()) == [5.0, 6.0, 7.0]


def test_large_tensors_pass(worker: SandboxedModel) -> None:
    shape = (1000, 1000)
    relu = model_of([helper.make_node("Neg", ["x"], ["y"])], [floats("x", *shape)], [floats("y", *shape)])
    data = np.arange(1_000_000, dtype=np.float32).reshape(shape)
    with SandboxedModel.open(relu.SerializeToString()) as model:
        assert np.array_equal(model.run({"x": data}, LONG_S)["y"], -data)
        model.start({"x": data})
        answer = None
        while answer is None:
            answer = model.result(0.001)
        assert np.array_equal(answer["y"], -data)


def test_inputs_that_do_not_fit_are_refused_and_the_model_goes_on(worker: SandboxedModel) -> None:
    for inputs in (
        {},
        {"y": ONES["x"]},
        {"x": ONES["x"], "z": ONES["x"]},
        {"x": ONES["x"].astype(np.float64)},
        {"x": ONES["x"][:, :-1]},
        {"x": ONES["x"][0]},
    ):
        with pytest.raises(BadTensors):
            worker.run(inputs, LONG_S)
    assert worker.run(ONES, LONG_S)["y"][0, 0] == 64.0


def test_N11_an_endless_model_is_killed_at_its_deadline() -> None:
    with SandboxedModel.open(loop(FOREVER).SerializeToString()) as model:
        began = time.monotonic()
        with pytest.raises(ModelTooSlow, match="deadline"):
            model.run(ONE, 0.3)
        assert time.monotonic() - began >= 0.3
        assert gone(model.pid)
        with pytest.raises(ModelFailed, match="deadline"):
            model.run(ONE, LONG_S)


def test_N11_an_endless_model_is_killed_at_its_deadline_in_asyncio() -> None:
    async def too_slow() -> int:
        model = await SandboxedModel.open_async(loop(FOREVER).SerializeToString())
        with model, pytest.raises(ModelTooSlow):
            await model.run_async(ONE, 0.3)
        return model.pid

    assert gone(asyncio.run(too_slow()))


def test_N11_a_cancelled_call_leaves_no_worker() -> None:
    async def cancelled() -> int:
        model = await SandboxedModel.open_async(loop(FOREVER).SerializeToString())
        call = asyncio.create_task(model.run_async(ONE, LONG_S))
        await asyncio.sleep(0.1)
        call.cancel()
        with model, pytest.raises(asyncio.CancelledError):
            await call
        return model.pid

    assert gone(asyncio.run(cancelled()))


def test_N11_a_worker_that_does_not_start_in_time_is_killed() -> None:
    never_ready = ("-I", "-c", "import time; time.sleep(3600)")
    with pytest.raises(ModelTooSlow):
        SandboxedModel.open(linear().SerializeToString(), ModelLimits(max_start_s=0.3), command=never_ready)


def test_N11_a_late_answer_can_be_left_and_the_model_killed() -> None:
    with SandboxedModel.open(loop(FOREVER).SerializeToString()) as model:
        model.start(ONE)
        assert model.result(0.05) is None
        assert model.busy
        with pytest.raises(ModelFailed, match="under way"):
            model.start(ONE)
        model.kill("ten blocks late")
        with pytest.raises(ModelFailed, match="ten blocks late"):
            model.start(ONE)
        assert gone(model.pid)


def test_N11_a_memory_bomb_ends_its_worker() -> None:
    limits = ModelLimits(max_memory=64 * MIB)
    with SandboxedModel.open(memory_bomb(1).SerializeToString(), limits) as model:
        assert model.run(ONE, LONG_S)["y"].tolist() == [0.0]
    for megabytes in (100, 1_000_000):
        with SandboxedModel.open(memory_bomb(megabytes).SerializeToString(), limits) as model:
            with pytest.raises(ModelFailed, match=r"(?i)alloc|memory"):
                model.run(ONE, LONG_S)
            assert gone(model.pid)


def test_N11_more_output_than_the_limit_is_not_taken() -> None:
    limits = ModelLimits(max_io=1 * MIB)
    huge = model_of(
        [helper.make_node("Expand", ["x", "shape"], ["y"])],
        [floats("x", 1)],
        [floats("y", 1 << 20)],
        [constant("shape", np.array([1 << 20]))],
    )
    with (
        SandboxedModel.open(huge.SerializeToString(), limits) as model,
        pytest.raises(ModelFailed, match="the limit is"),
    ):
        model.run(ONE, LONG_S)


def test_N11_a_model_that_the_runtime_refuses_is_an_error_with_its_reason() -> None:
    wrong = linear()
    wrong.graph.node[0].input[1] = "nothing"
    with pytest.raises(ModelRefused, match="nothing"):
        SandboxedModel.open(wrong.SerializeToString())


def test_N11_a_killed_worker_is_an_error_with_its_reason() -> None:
    with SandboxedModel.open(linear().SerializeToString()) as model:
        os.kill(model.pid, signal.SIGKILL)
        with pytest.raises(ModelFailed, match="SIGKILL"):
            model.run(ONES, LONG_S)
    with SandboxedModel.open(linear().SerializeToString()) as model:
        os.kill(model.pid, signal.SIGSEGV)
        with pytest.raises(ModelFailed, match="SIGSEGV: it crashed"):
            model.run(ONES, LONG_S)


def test_N11_processor_time_is_limited_over_the_life_of_a_worker() -> None:
    limits = ModelLimits(max_cpu_s=1)
    endless = loop(FOREVER).SerializeToString()
    with SandboxedModel.open(endless, limits) as model, pytest.raises(ModelFailed, match=r"SIGKILL|SIGXCPU"):
        model.run(ONE, LONG_S)


def test_N11_a_worker_ends_with_its_owner_even_in_an_endless_loop() -> None:
    script = (
        "import sys, numpy as np\n"
        "from controller.sandbox.model import SandboxedModel\n"
        "model = SandboxedModel.open(sys.stdin.buffer.read())\n"
        "model.start({'x': np.ones(1, np.float32)})\n"
        "print(model.pid, flush=True)\n"
        "model.result(60)\n"
    )
    with subprocess.Popen([sys.executable, "-P", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdin is not None
        assert owner.stdout is not None
        owner.stdin.write(loop(FOREVER).SerializeToString())
        owner.stdin.close()
        pid = int(owner.stdout.readline())
        assert not gone(pid, within_s=0.2)
        owner.kill()
    assert gone(pid)


def test_N11_a_worker_sees_nothing_of_the_owners_environment_and_files(worker: SandboxedModel) -> None:
    environment = Path(f"/proc/{worker.pid}/environ").read_bytes().split(b"\0")
    assert sorted(filter(None, environment)) == sorted(f"{k}={v}".encode() for k, v in sandbox.ENVIRONMENT.items())
    files = [os.readlink(entry) for entry in Path(f"/proc/{worker.pid}/fd").iterdir()]
    assert sorted(name.split(":")[0] for name in files) == ["/dev/null"] * 3 + ["pipe", "socket"]


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("answer 7", "not understood"),
        ("length", "the limit is"),
        ("shape", "not understood"),
        ("negative", "not understood"),
        ("more", "not understood"),
    ],
)
def test_N11_a_worker_that_lies_is_killed(said: str, error: str) -> None:
    command = ("-I", str(Path(__file__).parent / "lying_worker.py"), said)
    with SandboxedModel.open(linear().SerializeToString(), command=command) as model:
        with pytest.raises(ModelFailed, match=error):
            model.run(ONES, LONG_S)
        assert gone(model.pid)


def test_without_the_runtime_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "find_spec", lambda name: None)
    with pytest.raises(SandboxUnavailable, match=r"choroid\[agents\]"):
        SandboxedModel.open(linear().SerializeToString())


def gone(pid: int, within_s: float = 10.0) -> bool:
    """Tell whether a process has ended (or is a zombie) within a time."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        if not lives(pid):
            return True
        time.sleep(0.01)
    return False
