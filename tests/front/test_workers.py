"""Workers end with the process that they work for, also when that is killed and cannot notify them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from choroid.common.workers import workers
from tests.processes import children_of, lives, until

ROOT = Path(__file__).resolve().parents[2]


def simulated(folder: Path) -> bool:
    """Whether a simulation is under way: it keeps its journal in a temporary folder."""
    return any(folder.glob("choroid-*/journal.db"))


def test_a_comparison_that_is_killed_leaves_no_process_at_work(tmp_path: Path) -> None:
    words = [
        "choroid",
        "verify",
        "comparison",
        "examples/rigs/bench.yaml",
        "--days",
        "30",
        "--seeds",
        "1",
        "--jobs",
        "2",
        "--json",
    ]
    process = subprocess.Popen(
        [
            "sh",
            "-c",
            "trap '' INT; exec \"$@\"",
            "sh",
            sys.executable,
            "-m",
            *words,
        ],  # as what a shell begins behind it
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    try:
        until(lambda: simulated(tmp_path), "a simulation began", seconds=120.0)
        working = children_of(process.pid)
        assert len(working) >= 2
        process.send_signal(signal.SIGKILL)
        process.wait(10.0)
        until(lambda: not any(lives(pid) for pid in working), "the workers ended")
        # A worker that had only begun to start is not among those.
        until(lambda: not simulated(tmp_path), "they took their temporary files with them")
    finally:
        process.kill()
        process.wait()


def nap(note: str) -> None:
    """Say that it begins, and take long."""
    Path(note).touch()
    time.sleep(20.0)


def test_a_worker_that_dies_ends_the_pool_and_blocks_no_caller(tmp_path: Path) -> None:
    notes = [tmp_path / name for name in "ab"]
    with workers(2) as pool:
        napping = [pool.submit(nap, str(note)) for note in notes]
        until(lambda: all(note.exists() for note in notes), "both are at work")
        os.kill(next(iter(pool._processes)), signal.SIGKILL)
        for each in napping:
            with pytest.raises(BrokenProcessPool):
                each.result(10.0)


def deaf(note: str) -> None:
    """Lose the first interrupt, as one that falls into a destructor is lost; leave a second file when the next one comes."""
    Path(note).touch()
    with contextlib.suppress(KeyboardInterrupt):
        time.sleep(600.0)
    try:
        time.sleep(600.0)
    finally:
        Path(note + ".tidy").touch()


PARENT = """
import sys
from choroid.common.workers import workers
from tests.front.test_workers import deaf

if __name__ == "__main__":
    with workers(1) as pool:
        pool.submit(deaf, sys.argv[1]).result()
"""


def test_a_worker_that_lost_the_interrupt_is_interrupted_again(tmp_path: Path) -> None:
    script, note = tmp_path / "parent.py", tmp_path / "note"
    script.write_text(PARENT)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, str(script), str(note)], cwd=ROOT, env=environment)
    try:
        until(note.exists, "the task began")
        process.send_signal(signal.SIGKILL)
        process.wait(10.0)
        until(Path(f"{note}.tidy").exists, "it was interrupted again, and tidied up")
    finally:
        process.kill()
        process.wait()
