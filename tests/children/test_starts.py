"""Every child process with a time limit, stopped for longer than that limit at its start: it is not called broken (B2).

:data:`TESTED` and :data:`UNLIMITED` list each place that starts a child. A new one without an entry fails the last test.
"""

from __future__ import annotations

import ast
import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Timer

import pytest

from choroid.common.child import PACKAGES
from choroid.common.failure import UserError
from choroid.demo.parts import demo_parts
from choroid.running import card_process, guarding, nerves_handle
from choroid.running.card_process import CardProcess
from choroid.running.guarding import GuardFinder
from choroid.running.simulated_card import simulated_card
from controller.children.accounts import now_s
from controller.delivery import channels
from controller.delivery.channels import by_sender
from controller.imaging.engine import WorkerEngine
from controller.rig.loading import load_rig
from controller.sandbox.limits import ModelLimits
from controller.sandbox.model import SandboxedModel
from grid.boards.board import TaskSpec
from grid.commands import demo
from grid.grading import task as grading_task
from grid.grading.task import TaskFailed, task_process
from nerves.cards import remote
from nerves.engine import compile_engine
from nerves.recording import service
from tests.children.stopper import stopped_at_start
from tests.nerves.recording.test_recording_process import recording_engine
from tests.sandbox.models import linear
from verification.kills.processes import comes_true

ROOT = Path(__file__).resolve().parents[2]
RIG = load_rig(ROOT / "examples" / "rigs" / "bench.yaml")
LIMIT_S = 2.0
STOPPED_S = 3 * LIMIT_S


@pytest.mark.long
async def test_B2_a_guard_that_gets_no_processor_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarding, "READY_S", 5.0)
    with stopped_at_start("controller.guard", seconds=10.0) as stopped:
        finder = GuardFinder(RIG, tmp_path)
        guarded = await finder.guarded()
    try:
        assert stopped
        assert finder.guard
        monkeypatch.setattr(guarding, "READY_S", 1.0)
        os.kill(finder.guard, signal.SIGSTOP)  # a guard that listens, and is asked by the next controller
        asking = asyncio.create_task(GuardFinder(RIG, tmp_path).restore())
        await asyncio.sleep(3.0)
        assert not asking.done()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    finally:
        os.kill(finder.guard, signal.SIGKILL)
        guarded.channel.close()


async def test_B2_a_guard_that_could_answer_and_does_not_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guarding, "READY_S", 2.0)
    monkeypatch.setattr(guarding, "own_guard", lambda data: [sys.executable, "-c", "import time; time.sleep(600)"])
    with pytest.raises(UserError, match="without a guard nothing brings it to rest"):
        await GuardFinder(RIG, tmp_path).guarded()


@pytest.mark.long
@pytest.mark.within_s(400)
@pytest.mark.parametrize("process", ["nerves_process", "card_process"])
async def test_B2_an_engine_or_card_that_gets_no_processor_is_waited_for(
    process: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_engine(simulated_card(electrodes=32, seed=1).info)  # the first start of a checkout compiles for long
    monkeypatch.setattr(nerves_handle, "COMPILE_WITHIN_S", 15.0)
    with stopped_at_start(f"choroid.running.{process}", seconds=45.0) as stopped:
        engine = await nerves_handle.spawn_engine(RIG, tmp_path, 3)
    try:
        assert stopped
        monkeypatch.setattr(nerves_handle, "CONFIRMED_WITHIN_S", 1.0)
        os.kill(engine.pid, signal.SIGSTOP)
        asyncio.get_running_loop().call_later(3.0, os.kill, engine.pid, signal.SIGCONT)
        assert await engine.order("")
        assert not engine.dead
    finally:
        await engine.close()


async def test_B2_an_engine_that_could_start_and_does_not_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nerves_handle, "COMPILE_WITHIN_S", 1.0)
    monkeypatch.setattr(
        nerves_handle, "python", lambda module: [sys.executable, "-c", "import sys, time; time.sleep(600)"]
    )
    with pytest.raises(RuntimeError, match="could run for 1 s and did not compile"):
        await nerves_handle.spawn_engine(RIG, tmp_path, 3)


def test_B2_a_card_that_gets_no_processor_answers_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "CALL_WITHIN_S", 1.0)
    card = CardProcess({"electrodes": 4, "material": "Pt", "diameter_um": 30.0, "seed": 1})
    try:
        os.kill(card.process.pid, signal.SIGSTOP)
        going_on = Timer(3.0, os.kill, (card.process.pid, signal.SIGCONT))
        going_on.start()
        assert card.self_test()
        going_on.join()
        os.kill(card.process.pid, signal.SIGSTOP)
        going_on = Timer(3 * card_process.END_WITHIN_S, os.kill, (card.process.pid, signal.SIGCONT))
        going_on.start()
    finally:
        card.close()
    going_on.join()
    assert card.process.returncode == 0, "it ended by itself"


@pytest.mark.long
@pytest.mark.within_s(400)
async def test_B2_a_writer_of_recordings_that_gets_no_processor_records(tmp_path: Path) -> None:
    async with recording_engine(tmp_path) as engine:
        with stopped_at_start("recording.writer_process", seconds=3 * service.READY_WITHIN_S) as stopped:
            view = await engine.record("start", name="first", requester="ada", reason="a test")
        assert view["feeding"] == "first"
        (writer,) = stopped
        os.kill(writer, signal.SIGSTOP)
        later_s = 3 * service.ANSWER_WITHIN_S
        asyncio.get_running_loop().call_later(later_s, os.kill, writer, signal.SIGCONT)
        assert (await engine.record("stop", reason="it is enough"))["last"].startswith("first: ")


def test_B2_a_rig_of_the_kills_that_gets_no_processor_has_not_failed() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.5); print('done')"])
    begun_s = now_s()
    os.kill(child.pid, signal.SIGSTOP)
    going_on = Timer(STOPPED_S, os.kill, (child.pid, signal.SIGCONT))
    going_on.start()
    try:
        alive: list[int] = [child.pid]
        assert comes_true(lambda: child.poll() is not None, LIMIT_S, lambda: alive)
        assert now_s() - begun_s > STOPPED_S
        assert not comes_true(lambda: False, 0.5, list)
    finally:
        going_on.cancel()
        child.kill()
        child.wait()


async def test_B2_a_part_of_the_grid_demo_that_gets_no_processor_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "START_S", LIMIT_S)
    async with demo_parts(tmp_path) as parts:
        await parts.start("hub", sys.executable, "-c", "import time; print('ready', flush=True); time.sleep(600)")
        os.kill(parts.pid("hub"), signal.SIGSTOP)
        asyncio.get_running_loop().call_later(STOPPED_S, os.kill, parts.pid("hub"), signal.SIGCONT)
        await demo.until(lambda: "ready" in parts.said("hub"), "the hub", parts, "hub")


async def test_B2_a_part_of_the_grid_demo_that_could_start_and_sleeps_ends_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "START_S", LIMIT_S)
    async with demo_parts(tmp_path) as parts:
        await parts.start("hub", sys.executable, "-c", "import time; time.sleep(600)")
        with pytest.raises(UserError, match="the hub could run for 2 s and is not there"):
            await demo.until(lambda: "ready" in parts.said("hub"), "the hub", parts, "hub")


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
    with stopped_at_start("controller.sandbox.worker", seconds=10.0) as stopped:
        model = await SandboxedModel.open_async(linear().SerializeToString(), limits)
    model.close()
    assert stopped


async def test_B2_a_task_whose_process_gets_no_processor_is_not_called_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grading_task, "ANSWER_S", 20.0)
    with stopped_at_start("grid.tasks", seconds=5.0) as stopped:
        async with task_process() as task:
            with pytest.raises(TaskFailed) as failed:
                await task.begin(TaskSpec(name="no-such-task"), 1)
    assert stopped
    assert "did not answer" not in str(failed.value)


TESTED = {
    "verification/kills/processes.py",
    "verification/kills/rigged.py",
    "choroid/running/card_process.py",
    "choroid/running/guarding.py",
    "choroid/running/nerves_handle.py",
    "nerves/recording/service.py",
    "choroid/running/folder_probe.py",
    "controller/delivery/channels.py",
    "controller/imaging/engine.py",
    "controller/sandbox/model.py",
    "grid/grading/task.py",
}
"""Files whose child has a limit, which counts with :class:`controller.children.patience.Patience`."""
UNLIMITED = {
    "verification/bench": "measurements: a late child makes them late, and a dead one ends them",
    "choroid/common/workers.py": "waits for results without a limit; a dead worker breaks the pool",
    "choroid/demo/parts.py": "watches for the end of its processes; grid/commands/demo.py limits their starts",
    "choroid/running/notary.py": "signs checkpoints; a round may take as long as the machine is busy",
    "choroid/running/parent.py": "the controller: it is waited for without a limit, and started again when it has ended",
    "choroid/simulation/served_lab.py": "the first line of the laboratory is waited for without a limit",
    "choroid/sorting/command.py": "the sorter: it is waited for without a limit, and shows its progress",
    "controller/runs/python_process.py": "counts processor time and sleep (ProtocolWatch, test_hostile_protocols)",
    "grid/challenges/hardware.py": "nvidia-smi, which is no part of this software",
    "grid/commands/bench.py": "measurements",
    "grid/commands/tuning.py": "the training environment: it is waited for without a limit",
    "grid/jobs/environment.py": "likewise; the first import of torch reads several hundred megabytes",
    "grid/federated/rank.py": "a round ends after a multiple of what the other nodes took; its children end with it",
    "grid/jobs/process.py": "a rank has a limit of processor time; the others leave a silent one behind",
    "grid/planning/here.py": "the probe counts its own processor time, and is waited for without a limit",
}
"""Places that start a child without such a limit, and why."""


def test_B2_each_place_that_starts_a_child_is_known_here() -> None:
    found = {
        str(path.relative_to(ROOT)) for top in PACKAGES for path in (ROOT / top).rglob("*.py") if any(_starts(path))
    }
    unknown = {path for path in found - TESTED if not any(path.startswith(known) for known in UNLIMITED)}
    assert not unknown, "give its limit to Patience and add a test, or name here why it has none"
    assert found >= TESTED
    assert all(any(path.startswith(known) for path in found) for known in UNLIMITED), "an entry without a place"
    for path in TESTED:
        text = (ROOT / path).read_text(encoding="utf-8")
        assert any(word in text for word in ("Patience(", "Patience.of_family(", "comes_true(")), path


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
