"""Python protocols that try to leave their process (P3): what each attempt comes to, and what is left of it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from controller.core.run_states import RunState
from controller.hazards.loading import load_checked_rig
from controller.runs import python_process
from controller.runs.python_conversation import described_now
from controller.runs.python_text import PythonText
from protocols.registry import UnknownProtocol
from sim.virtual_time import run_virtual
from tests.execution.test_python_protocols import HEAD, folder_with, scaled
from tests.execution.test_recipes import notes
from tests.execution.world import BENCH, Controller, World

RIG = load_checked_rig(BENCH)
DENIED = "a protocol is locked in: no file, network, process or thread"
HERE = Path(__file__).parent


def came_of(tmp_path: Path, attempt: str) -> str:
    """Return with what error a text ends that attempts something when it is loaded; empty if it loads."""
    path = tmp_path / "mine.py"
    path.write_text(f"import os, signal, socket, sys, threading\n{HEAD}    pass\n{attempt}\n")
    try:
        described_now(PythonText.read(path), RIG)
    except UnknownProtocol as error:
        return str(error)
    return ""


ATTEMPTS = (
    "open({token!r}).read()",
    "open({new!r}, 'w')",
    "os.listdir('/')",
    "os.unlink({token!r})",
    "os.chmod({token!r}, 0o777)",
    "open('/proc/self/environ').read()",
    "open('/proc/{pid}/environ').read()",
    "os.readlink('/proc/self/exe')",
    "socket.socket()",
    "socket.create_connection(('127.0.0.1', {port}))",
    "socket.socket(socket.AF_UNIX)",
    "os.fork()",
    "os.setsid(); os.fork()",
    "import subprocess; subprocess.Popen(['sleep', '1000'])",
    "os.execv('/bin/sh', ['sh'])",
    "threading.Thread(target=print).start()",
    "os.kill({pid}, signal.SIGKILL)",
    "os.kill({pid}, 0)",
    "os.killpg(os.getpgid({pid}), signal.SIGSTOP)",
    "os.kill(os.getpid(), signal.SIGSTOP)",
    "os.pidfd_open({pid})",
    "os.setuid(1000)",
    "os.nice(-5)",
    "os.memfd_create('x')",
    "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))",
    "traced(ctypes.CDLL(None, use_errno=True).ptrace(16, {pid}, None, None))",
    "traced(ctypes.CDLL(None, use_errno=True).ptrace(0, 0, None, None))",
    "traced(ctypes.CDLL(None, use_errno=True).syscall(310, {pid}, None, 0, None, 0, 0))",
    "traced(ctypes.CDLL(None, use_errno=True).prctl(4, 1, 0, 0, 0))",
    "traced(ctypes.CDLL(None, use_errno=True).fork())",
)
TRACED = """
import ctypes
def traced(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
"""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each attempt came to; all are made by one text, which catches every error and goes on."""
    folder = tmp_path_factory.mktemp("hostile")
    token = folder / "endpoint.json"
    token.write_text("secret")
    text = TRACED + "import json\noutcomes = {}\n"
    with socket.create_server(("127.0.0.1", 0)) as server:
        given = {"token": str(token), "new": str(folder / "new"), "pid": os.getpid(), "port": server.getsockname()[1]}
        server.settimeout(0.0)
        for attempt in ATTEMPTS:
            made = attempt.format(**given)
            text += f"try:\n    {made}\n    outcomes[{attempt!r}] = 'done'\n"
            text += f"except BaseException as error: outcomes[{attempt!r}] = repr(error)\n"
        said = came_of(folder, text + "raise ValueError('[[' + json.dumps(outcomes) + ']]')")
        with pytest.raises(BlockingIOError):
            server.accept()
    assert token.read_text() == "secret"
    assert not (folder / "new").exists()
    found: dict[str, str] = json.loads(said.partition("[[")[2].partition("]]")[0])
    return found


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_P3_an_attempt_to_leave_the_process_is_refused(attempt: str, outcomes: dict[str, str]) -> None:
    refused = ("PermissionError", "ModuleNotFoundError", "can't start new thread")
    assert any(word in outcomes[attempt] for word in refused), outcomes[attempt]


@pytest.mark.parametrize(
    ("attempt", "why"),
    [
        ("x = [bytearray(1 << 26) for _ in range(1000)]", "MemoryError"),
        ("import requests", "import only what docs/protocols.md lists"),
        ("os._exit(0)", "ended before it was loaded"),
        ("os.abort()", "ended before it was loaded"),
        ("os.write(1, b'x' * 3_000_000)", ""),
        ("os.write(3, b'x')", "sends no messages"),
        ("[print('x') for _ in range(3000)]", "messages without asking for a verb"),
        ("sys.stdout._pipe.send({'kind': 'hello', 'name': 'mine', 'error': None, 'params': [[]]})", "not usable"),
        ("sys.stdout._pipe.send({'kind': 'locked', 'x': 'y' * 2_000_000})", "too large a message"),
        ("sys.stdout._pipe.send({'kind': 'step'})", "sends no messages"),
    ],
)  # fmt: skip
def test_P3_a_text_that_floods_lies_or_ends_itself_is_no_protocol(attempt: str, why: str, tmp_path: Path) -> None:
    if attempt == "os.write(3, b'x')":
        attempt = "for fd in range(3, 20):\n    try: os.write(fd, b'x\\n')\n    except OSError: pass"
    said = came_of(tmp_path, attempt)
    assert why in said, said
    assert bool(said) or not why


@pytest.mark.parametrize("attempt", ["while True: pass", "import time; time.sleep(1e6)"])
def test_P3_a_text_that_does_not_end_is_killed_with_its_line(
    attempt: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(python_process, "PATIENCE_S", 2.0)
    said = came_of(tmp_path, attempt)
    assert "has not asked for a verb for 2 s, at mine.py:" in said, said


def test_P3_the_attempts_work_where_nothing_is_locked(tmp_path: Path) -> None:
    """The judge: the same attempts in a plain process of Python."""
    token = tmp_path / "token"
    token.write_text("secret")
    for attempt in (
        f"open({str(token)!r})",
        "socket.socket()",
        "os.fork() or os._exit(0)",
        f"os.kill({os.getpid()}, 0)",
    ):
        words = [sys.executable, "-c", f"import os, socket\n{attempt}"]
        assert subprocess.run(words, timeout=120).returncode == 0, attempt


@pytest.mark.parametrize("layer", ["Landlock", "seccomp"])
def test_P3_without_the_layers_a_text_runs_only_where_the_rig_allows_it(
    layer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = (sys.executable, "-P", "-s", str(HERE / "old_kernel_child.py"), layer)
    monkeypatch.setattr(python_process, "WORDS", words)
    monkeypatch.setattr(
        python_process, "ENVIRONMENT", {**python_process.ENVIRONMENT, "PYTHONPATH": str(HERE.parents[1])}
    )
    said = came_of(tmp_path, "")
    assert "cannot be locked in on this machine" in said
    assert layer in said
    assert "unlocked_protocols: true" in said
    path = tmp_path / "mine.py"
    allowed = RIG.model_copy(update={"unlocked_protocols": True})
    assert described_now(PythonText.read(path), allowed).name == "mine"


def test_P3_a_hostile_protocol_ends_in_a_held_run_with_an_alarm_and_leaves_no_process(tmp_path: Path) -> None:
    async def work() -> None:
        folder = folder_with(tmp_path, HEAD + "    await lab.note('pid', {'pid': os.getpid()})\n    os.fork()\n")
        controller = Controller(World(), tmp_path / "j.db", catalogue={}, recipes=folder, rehearsing=False)
        run = await controller.runs.start("mine", {}, "anna", "a test")
        await controller.until(lambda: controller.runs.get(run).state is RunState.HELD, 600.0)
        assert DENIED in controller.runs.get(run).messages[-1]
        assert [(kind, source) for kind, source, detail in controller.alarms if DENIED in detail] == [("run_held", run)]
        kinds = [row.kind for row in controller.journal.entries()]
        assert kinds.index("protocol.unreviewed") < kinds.index("run.start")
        (note,) = notes(controller, "pid")
        with pytest.raises(ProcessLookupError):
            os.kill(note["pid"], 0)
        await controller.gone()

    scaled(work())


def test_P3_a_process_that_is_killed_holds_its_run_and_the_same_steps_follow_a_resume(tmp_path: Path) -> None:
    async def work() -> None:
        body = "    await lab.note('pid', {'pid': os.getpid()})\n    await lab.sleep(60.0)\n    await lab.note('after', {})\n"
        folder = folder_with(tmp_path, HEAD + body)
        controller = Controller(World(), tmp_path / "j.db", catalogue={}, recipes=folder, rehearsing=False)
        run = await controller.runs.start("mine", {}, "anna", "a test")
        await controller.until(lambda: bool(notes(controller, "pid")), 600.0)
        (note,) = notes(controller, "pid")
        os.kill(note["pid"], signal.SIGKILL)
        await controller.until(lambda: controller.runs.get(run).state is RunState.HELD, 600.0)
        assert "ended by itself" in controller.runs.get(run).messages[-1]
        await controller.runs.resume(run, "anna", "")
        await controller.until(lambda: controller.runs.get(run).state is RunState.COMPLETE, 900.0)
        assert len(notes(controller, "pid")) == len(notes(controller, "after")) == 1
        await controller.gone()

    scaled(work())


def test_P3_in_virtual_time_the_journal_of_a_python_protocol_is_the_same_each_time(tmp_path: Path) -> None:
    body = """
    order = []
    async def one(name, seconds):
        for n in range(5):
            await lab.sleep(seconds)
            order.append(name)
    await lab.together(one("a", 2.0), one("b", 3.0), one("c", 2.0), names=("a", "b", "c"))
    await lab.note("order", {"order": order, "set": list({"x", "y", "z"})})
    await lab.kidney.draw(2_000.0)
"""
    folder = folder_with(tmp_path, HEAD + body)

    async def lived(place: Path) -> list[Any]:
        place.mkdir()
        controller = Controller(World(), place / "j.db", catalogue={}, recipes=folder)
        run = await controller.runs.start("mine", {}, "anna", "a test")
        await controller.until(lambda: controller.runs.get(run).state is RunState.COMPLETE, 3600.0)
        rows = [(row.utc, row.kind, row.body) for row in controller.journal.entries()]
        await controller.gone()
        return rows

    assert run_virtual(lived(tmp_path / "1")) == run_virtual(lived(tmp_path / "2"))


async def test_P3_a_process_that_gets_no_time_is_called_stopped_not_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_process, "LOOK_S", 0.1)
    monkeypatch.setattr(python_process, "START_S", 0.3)
    with subprocess.Popen(["sleep", "1000"]) as process:
        try:
            os.kill(process.pid, signal.SIGSTOP)
            watch = python_process.ProtocolWatch(process.pid)
            while watch._cpu()[0] != "T":
                await asyncio.sleep(0.01)
            said = [watch.check() for _ in range(9)]
            assert said[:8] == [None] * 8
            assert "gets no time" in str(said[8])
            assert "not at fault" in str(said[8])
        finally:
            process.kill()
