"""Every child process with a time limit, stopped for three times that limit at its start: it is not called broken (B2).

:data:`TESTED` and :data:`UNLIMITED` list each place that starts a child. A new one without an entry fails the last test.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from choroid.simulation import isolation
from choroid.simulation.isolation import isolated
from controller.delivery import channels
from controller.delivery.channels import by_sender
from controller.imaging.engine import WorkerEngine
from controller.sandbox.limits import ModelLimits
from controller.sandbox.model import SandboxedModel
from grid.boards.board import TaskSpec
from grid.grading import task as grading_task
from grid.grading.task import TaskFailed, task_process
from tests.children.stopper import stopped_at_start
from tests.sandbox.models import linear

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 2.0
STOPPED_S = 3 * LIMIT_S


def _answer(**keywords: Any) -> dict[str, Any]:
    return dict(keywords)


def test_B2_a_plan_whose_process_gets_no_processor_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "START_S", 5.0)
    with stopped_at_start("spawn_main", seconds=15.0) as stopped:
        assert isolated(_answer, {"a": 1}, protocol=tmp_path / "p.py", patience_s=LIMIT_S) == {"a": 1}
    assert stopped


async def test_B2_a_delivery_whose_process_gets_no_processor_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "SEND_S", LIMIT_S)
    with stopped_at_start("controller.delivery.sender", seconds=STOPPED_S) as stopped:
        outcome = await by_sender({"ping": "http://127.0.0.1:9/"})
    assert stopped
    assert "did not confirm" not in outcome.detail


async def test_B2_a_delivery_that_gets_no_processor_for_long_names_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "BUSY_S", LIMIT_S)
    with stopped_at_start("controller.delivery.sender", seconds=30.0):
        outcome = await by_sender({"ping": "http://127.0.0.1:9/"})
    assert not outcome.ok
    assert "the machine is busy" in outcome.detail


async def test_B2_a_camera_whose_process_gets_no_processor_gives_its_image() -> None:
    script = (
        "import sys, json, time\ntime.sleep(0.5)\nfor line in sys.stdin: print(json.dumps({'image': 1}), flush=True)"
    )
    engine = WorkerEngine([sys.executable, "-I", "-S", "-c", script], reply_s=LIMIT_S)
    try:
        with stopped_at_start("'image'", seconds=STOPPED_S) as stopped:
            assert await engine.take({"facts": {"exposure_s": 0.0}}) == {"image": 1}
        assert stopped
    finally:
        await engine.close()


async def test_B2_a_model_whose_worker_gets_no_processor_is_opened_and_its_author_not_blamed() -> None:
    limits = ModelLimits(max_start_s=5.0)
    with stopped_at_start("controller.sandbox.worker", seconds=15.0) as stopped:
        model = await SandboxedModel.open_async(linear().SerializeToString(), limits)
    model.close()
    assert stopped


async def test_B2_a_task_whose_process_gets_no_processor_is_not_called_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grading_task, "ANSWER_S", 20.0)
    with stopped_at_start("choroid.board_tasks", seconds=5.0) as stopped:
        async with task_process() as task:
            with pytest.raises(TaskFailed) as failed:
                await task.begin(TaskSpec(name="no-such-task"), 1)
    assert stopped
    assert "did not answer" not in str(failed.value)


TESTED = {
    "choroid/running/folder_probe.py",
    "choroid/simulation/isolation.py",
    "controller/delivery/channels.py",
    "controller/imaging/engine.py",
    "controller/sandbox/model.py",
    "grid/grading/task.py",
}
"""Files whose child has a limit, which counts with :class:`controller.children.patience.Patience`."""
UNLIMITED = {
    "choroid/bench": "measurements: a late child makes them late, and a dead one ends them",
    "choroid/common/workers.py": "waits for results without a limit; a dead worker breaks the pool",
    "choroid/demo/parts.py": "watches for the end of its processes only",
    "choroid/kills/processes.py": "the kills: a person reads them",
    "choroid/kills/rigged.py": "the kills: a person reads them",
    "choroid/running/card_process.py": "the engine waits for the hello of the card without a limit",
    "choroid/running/guarding.py": "the guard: a greeting that is late is tried again (READY_S)",
    "choroid/running/notary.py": "signs checkpoints; a round may take as long as the machine is busy",
    "choroid/running/parent.py": "the controller: it is waited for without a limit, and started again when it has ended",
    "choroid/running/nerves_handle.py": "the first line of the engine is waited for without a limit",
    "choroid/simulation/served_lab.py": "the first line of the laboratory is waited for without a limit",
    "controller/runs/python_process.py": "counts processor time and sleep (ProtocolWatch, test_hostile_protocols)",
    "controller/nerves/recording/service.py": "the writer of recordings: a refusal names the load as a cause",
    "grid/challenges/hardware.py": "nvidia-smi, which is no part of this software",
    "grid/commands/bench.py": "measurements",
}
"""Places that start a child without such a limit, and why."""


def test_B2_each_place_that_starts_a_child_is_known_here() -> None:
    found = {
        str(path.relative_to(ROOT))
        for top in ("choroid", "controller", "dashboards", "drivers", "grid", "protocols", "sim")
        for path in (ROOT / top).rglob("*.py")
        if any(_starts(path))
    }
    unknown = {path for path in found - TESTED if not any(path.startswith(known) for known in UNLIMITED)}
    assert not unknown, "give its limit to Patience and add a test, or name here why it has none"
    assert found >= TESTED
    assert all(any(path.startswith(known) for path in found) for known in UNLIMITED), "an entry without a place"
    for path in TESTED:
        assert "Patience(" in (ROOT / path).read_text(encoding="utf-8"), path


def _starts(path: Path) -> Iterator[int]:
    """Yield the lines that start a process."""
    names = {
        "Popen",
        "create_subprocess_exec",
        "create_subprocess_shell",
        "ProcessPoolExecutor",
        "posix_spawn",
        "spawnv",
    }
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Call(func=ast.Attribute(attr=name)) | ast.Call(func=ast.Name(id=name)) if name in names:
                yield node.lineno
            case ast.Call(func=ast.Attribute(value=ast.Name(id="subprocess"), attr="run" | "call" | "check_output")):
                yield node.lineno
            case ast.Call(func=ast.Attribute(value=ast.Name(id="context" | "SERVER"), attr="Process")):
                yield node.lineno
            case ast.ClassDef(bases=bases) if any(getattr(base, "id", "") in names for base in bases):
                yield node.lineno
            case _:
                continue
