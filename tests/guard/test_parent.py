"""`choroid run` with its small parent: what ends controller and guard does not end care; a person does."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from choroid.common.child import python
from choroid.common.parent import LINK, RESTARTED
from choroid.running import parent as parent_module
from choroid.running.parent import Parent
from choroid.running.parent_link import ParentLink
from choroid.running.shared_fate import shared_fates
from controller.guard.liveness import MAX_STARVED_S
from controller.links.ownership import OWNER, holders
from tests.guard.plants import RIG
from tests.guard.scene import Scene, scene
from tests.processes import lives

BACK_S = 30.0
"""Care is back within this time, on a machine that is not busy; the scene allows a busy one more."""


async def begun(made: Scene, *before: str) -> tuple[subprocess.Popen[bytes], int, int]:
    """`choroid run` as a person starts it; its controller and its guard."""
    parent = await made.controller(restart="--restart", before=before)
    status = made.status() or {}
    return parent, int(status["controller"]), int(status["guard"])


async def back(made: Scene, lost: int) -> int:
    """Wait until another controller cares for the rig; return it."""
    await made.until(lambda: (made.status() or {}).get("controller") not in (None, lost), BACK_S)
    await made.until(made.at_work, BACK_S)
    found = int((made.status() or {})["controller"])
    assert holders(made.data / OWNER) == (found,), "never two"
    return found


async def ends(made: Scene, parent: subprocess.Popen[bytes], status: int) -> None:
    await made.until(lambda: parent.poll() is not None, 60.0)
    assert parent.returncode == status
    await made.until(lambda: not holders(made.data / OWNER), 30.0)
    assert made.plant.at_basal(), made.plant.told


async def test_B1_controller_and_guard_lost_at_once_are_back_and_the_rig_is_basal_between(tmp_path: Path) -> None:
    """As when memory runs out: gRPC aborts the process that gets no thread, the kernel kills the other.

    To the parent an end by any of these signals is the same; its test below has them all.
    """
    async with scene(tmp_path) as made:
        parent, controller, guard = await begun(made)
        os.kill(guard, signal.SIGKILL)
        os.kill(controller, signal.SIGABRT)
        await made.until(made.plant.at_basal, 20.0)
        second = await back(made, controller)
        assert parent.poll() is None
        await made.until(lambda: any("controller_restarted" in each for each in made.alarms()), 60.0)
        parent.terminate()  # a person
        await ends(made, parent, 0)
        assert not lives(second)
        await asyncio.sleep(2.0)
        assert not holders(made.data / OWNER), "an end in order is an end"


@pytest.mark.long
async def test_B1_a_suspended_machine_is_cared_for_again(tmp_path: Path) -> None:
    """All stand still while the monotonic clock runs on, for longer than the guard allows for a busy machine."""
    async with scene(tmp_path) as made:
        parent, controller, guard = await begun(made)
        stopped = [parent.pid, guard, controller]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(MAX_STARVED_S + 1.5)
        for pid in stopped:
            with suppress(ProcessLookupError):  # the guard, which goes on first, may end the controller as a silent one
                os.kill(pid, signal.SIGCONT)
        await made.until(lambda: (made.status() or {}).get("controller") is not None and made.at_work(), BACK_S)
        await asyncio.sleep(3.0)
        await made.until(lambda: (made.status() or {}).get("controller") is not None and made.at_work(), BACK_S)
        os.kill(parent.pid, signal.SIGINT)
        await ends(made, parent, 0)


@pytest.mark.needs("unshare")
async def test_B1_process_1_of_a_namespace_starts_its_controller_again(tmp_path: Path) -> None:
    """The controller was process 1 before: its end ended the guard and all else in the container."""
    async with scene(tmp_path) as made:
        outer = await made.controller(restart="--restart", before=("unshare", "-p", "-f", "--mount-proc"))
        (controller,) = holders(made.data / OWNER)  # its number out here; the guard inside sees another one
        os.kill(controller, signal.SIGKILL)
        await made.until(lambda: holders(made.data / OWNER) not in ((), (controller,)) and made.at_work(), BACK_S)
        assert outer.poll() is None
        assert "process 1" in made.said()


async def test_U3_the_guards_end_ends_controller_and_parent(tmp_path: Path) -> None:
    async with scene(tmp_path) as made:
        guard = await made.guard()
        parent, _, watching = await begun(made)
        assert watching == guard.pid
        guard.terminate()
        await ends(made, parent, 3)


async def test_B1_a_terminal_that_closes_and_a_lost_parent_end_no_care(tmp_path: Path) -> None:
    async with scene(tmp_path) as made:
        parent, controller, _ = await begun(made)
        os.kill(parent.pid, signal.SIGHUP)
        parent.kill()
        parent.wait()
        await asyncio.sleep(3.0)
        assert lives(controller)
        assert made.at_work()
        await made.until(lambda: any("restart_unsure:parent" in each for each in made.alarms()), 60.0)


async def test_A9_an_emergency_stop_through_the_parent_reaches_the_controller(tmp_path: Path) -> None:
    async with scene(tmp_path) as made:
        parent, controller, _ = await begun(made)
        os.kill(parent.pid, signal.SIGUSR1)
        await made.until(made.plant.at_basal, 20.0)
        assert lives(controller)
        assert parent.poll() is None


def test_a_start_that_is_refused_is_told_once_and_not_tried_again(tmp_path: Path) -> None:
    words = python("choroid", "run", str(tmp_path / "none.yaml"), "--data", str(tmp_path / "data"))
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert done.stderr.count("none.yaml") == 1
    assert "started again" not in done.stderr


# --- the parent alone, over a short program in place of the controller ------------------------------------

PROGRAM = """
import os, signal, sys
from pathlib import Path
signal.signal(signal.SIGINT, signal.SIG_DFL)  # a suite in the background has it ignored
lives = Path(sys.argv[1]); number = len(lives.read_text()) if lives.exists() else 0
lives.write_text("x" * (number + 1))
os.write(int(os.environ["CHOROID_PARENT"]), b'{"ready": true}\\n')
how = sys.argv[2 + number]
if how.startswith("-"): os.kill(os.getpid(), -int(how))
sys.exit(int(how))
"""


@pytest.mark.parametrize(
    ("lives_", "status"),
    [(["-9", "-6", "1", "0"], 0), (["-11", "3"], 3), (["-15"], 143), (["-2"], 130), (["0"], 0)],
)
def test_B1_the_parent_starts_again_what_was_lost_and_nothing_that_has_ended(
    lives_: list[str], status: int, tmp_path: Path
) -> None:
    words = [sys.executable, "-P", "-c", PROGRAM, str(tmp_path / "lives"), *lives_]
    run = (
        "import sys; from choroid.running import parent; parent.DELAYS_S = (0.0,);"
        " sys.exit(parent.Parent(sys.argv[1:]).run())"
    )
    done = subprocess.run([sys.executable, "-P", "-c", run, *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == status, done.stderr
    assert len((tmp_path / "lives").read_text()) == len(lives_)


def test_B1_the_parent_pauses_longer_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [1000.0]
    monkeypatch.setattr(parent_module, "_now_s", lambda: now_s[0])
    parent = Parent(["false"])
    pauses = []
    for lived_s in (5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 700.0):
        parent._began_s = now_s[0]
        now_s[0] += lived_s
        parent._put_off("x")
        pauses.append(parent._next_s - now_s[0])
        now_s[0] = parent._next_s
    assert pauses == [1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 60.0, 1.0]


def test_B1_the_parent_imports_little() -> None:
    """It has to outlive what runs out of memory."""
    script = "import sys, choroid.running.parent; print(*sys.modules)"
    words = subprocess.run(
        [sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    heavy = {"numpy", "pydantic", "yaml", "asyncio", "controller", "drivers", "dashboards", "grpc", "argparse"}
    assert not heavy & set(words)


def test_the_link_leaves_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    monkeypatch.setenv(LINK, str(writing))
    monkeypatch.setenv(RESTARTED, "it was lost")
    link = ParentLink()
    assert LINK not in os.environ
    assert RESTARTED not in os.environ
    link.report(ready=True)
    assert json.loads(os.read(reading, 1000)) == {"ready": True}
    assert link.restarted == "it was lost"
    os.close(reading)
    link.report(ready=True)  # the parent is gone
    os.close(writing)


@pytest.mark.parametrize("same", [True, False])
def test_B1_a_shared_fate_is_told_at_the_start(same: bool, tmp_path: Path) -> None:
    for name, space in (("self", "pid:[1]"), ("77", "pid:[1]" if same else "pid:[2]")):
        (tmp_path / name / "ns").mkdir(parents=True)
        (tmp_path / name / "ns" / "pid").symlink_to(space)
    link = SimpleNamespace(exists=True)
    found = shared_fates(RIG, link, guard=77, service=False, managed=False, proc=tmp_path)  # type: ignore[arg-type]
    assert (("restart_unsure", "namespace") in found) is same
    assert ("restart_unsure", "service") not in found, "its links are simulated"
    assert ("restart_unsure", "parent") not in found
    link = SimpleNamespace(exists=False)
    found = shared_fates(RIG, link, guard=77, service=True, managed=False, proc=tmp_path)  # type: ignore[arg-type]
    assert ("restart_unsure", "parent") in found
