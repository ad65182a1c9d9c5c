"""Busy is not broken: what counts against the limit of a child (B2)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from choroid.running import folder_probe
from controller.children.accounts import now_s
from controller.children.patience import NEVER, ChildSilent, MachineBusy, Patience, patiently, wait_readable
from tests.children.stopper import stopped_at_start

LIMIT_S = 0.5


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"], stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _looked(patience: Patience, seconds: float) -> None:
    until_s = now_s() + seconds
    while now_s() < until_s:
        time.sleep(0.05)
        patience.update()


def test_B2_a_child_that_waits_for_something_else_uses_up_its_limit(child: subprocess.Popen[bytes]) -> None:
    patience = Patience(child.pid, LIMIT_S)
    with pytest.raises(ChildSilent, match=r"no answer within 0\.5 s"):
        _looked(patience, 60.0)
    assert patience.waited_s > LIMIT_S


def test_B2_a_stopped_child_is_not_silent_and_after_long_the_machine_is_busy(child: subprocess.Popen[bytes]) -> None:
    os.kill(child.pid, signal.SIGSTOP)
    time.sleep(0.05)
    patience = Patience(child.pid, LIMIT_S)
    _looked(patience, 3 * LIMIT_S)
    assert patience.starved_s > 2 * LIMIT_S
    with pytest.raises(MachineBusy, match="the machine is busy, or the process was stopped"):
        _looked(Patience(child.pid, LIMIT_S, busy_s=LIMIT_S), 60.0)


def test_B2_a_child_without_a_processor_is_not_silent() -> None:
    """Nice 19 next to busy processes on the same processor: it hardly runs."""
    processor = min(os.sched_getaffinity(0))
    busy = "import os; os.sched_setaffinity(0, {%d}); os.setpriority(os.PRIO_PROCESS, 0, %d)\nwhile True: pass"
    others = [subprocess.Popen([sys.executable, "-c", busy % (processor, 0)]) for _ in range(3)]
    starved = subprocess.Popen([sys.executable, "-c", busy % (processor, 19)])
    try:
        time.sleep(1.0)
        patience = Patience(starved.pid, 1.0)
        _looked(patience, 4.0)
        assert patience.starved_s > patience.waited_s
    finally:
        for process in (*others, starved):
            process.kill()
            process.wait()


def test_B2_a_look_that_comes_late_counts_for_little(child: subprocess.Popen[bytes]) -> None:
    patience = Patience(child.pid, LIMIT_S)
    time.sleep(4 * LIMIT_S)
    patience.update()
    assert patience.waited_s <= LIMIT_S


def test_B2_what_a_child_writes_is_taken_and_its_end_is_seen(child: subprocess.Popen[bytes]) -> None:
    assert child.stdout is not None
    with pytest.raises(ChildSilent):
        wait_readable(child.stdout, Patience(child.pid, LIMIT_S))
    child.kill()
    wait_readable(child.stdout, Patience(child.pid, NEVER))
    assert child.stdout.read() == b""


async def test_B2_work_is_cancelled_when_its_child_is_silent(child: subprocess.Popen[bytes]) -> None:
    assert await patiently(asyncio.sleep(0.01, 5), Patience(child.pid, LIMIT_S)) == 5
    work = asyncio.ensure_future(asyncio.Event().wait())
    with pytest.raises(ChildSilent):
        await patiently(work, Patience(child.pid, LIMIT_S))
    assert work.cancelled()


def test_B2_a_data_folder_whose_probe_gets_no_processor_is_sound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_probe, "ANSWER_S", 1.0)
    with stopped_at_start("choroid.running.folder_probe", seconds=3.0) as stopped:
        found = folder_probe.probe_folder(tmp_path, "{}")
    assert stopped
    assert found == folder_probe.FolderState("", guarded=False)


def test_B2_a_folder_probe_that_is_proven_dead_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_probe, "python", lambda module: ["sh", "-c", "exit 7"])
    assert "exit status 7" in folder_probe.probe_folder(tmp_path, "{}").problem
