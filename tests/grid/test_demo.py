"""X6: `choroid grid demo`, which `make grid` runs: a graded entry on the page, and no process that outlives it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from choroid.common.failure import UserError
from choroid.demo.parts import demo_parts
from tests.grid.demo_process import ROOT, WITHIN_S, GridDemoProcess, demo_process
from tests.grid.small_board import NAME

FOUND = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
"""The environment with the commands `choroid` and `python` of this installation."""


@pytest.mark.long
def test_X6_the_demo_shows_a_graded_entry_the_tutorial_works_and_no_process_is_left(tmp_path: Path) -> None:
    with demo_process(tmp_path / "my-grid") as demo:
        url = demo.until("Open ").split()[1]
        demo.until("is graded")
        demo.until("the laboratory offers")
        with urllib.request.urlopen(f"{url}api/state", timeout=30) as answer:
            state = json.load(answer)
        members = {each["name"]: each["state"] for each in state["members"]}
        assert members == {"member-1": "approved", "member-2": "approved", "lab": "approved"}
        assert [each["organoid"] for each in state["tissues"]] == ["o1"]
        board = next(each for each in state["boards"] if each["key"].startswith(f"{NAME}@"))
        (row,) = board["rows"]
        assert (row["rank"], row["name"], row["member"]) == (1, "example-agent", "member-1")
        assert row["score"] > 0.5
        assert any("nerves_process" in line for line in demo.left())
        follow_tutorial(tmp_path, demo)
        assert demo.interrupt() == 0
        assert demo.left() == []


def follow_tutorial(folder: Path, demo: GridDemoProcess) -> None:
    """Do what docs/grid-tutorial.md says, on the small board; the demo of its first step runs."""
    text = (ROOT / "docs" / "grid-tutorial.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert program == (ROOT / "examples" / "grid_decoder.py").read_text()
    (folder / "decoder.py").write_text(program)
    start, join, *steps = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    assert start == "choroid grid demo --data my-grid\n"
    with open(folder / "join.log", "wb") as log:
        joined = subprocess.Popen(["bash", "-c", f"exec {join}"], cwd=folder, env=FOUND, stdout=log, stderr=log)
    try:
        wait_for(lambda: "waiting" in (folder / "join.log").read_text())
        said = [shell(folder, steps[0])]
        wait_for(lambda: "connected to" in (folder / "join.log").read_text())
        said += [shell(folder, step) for step in steps[1:]]
    finally:
        joined.terminate()
        joined.wait()
    assert "above every control" in said[-2]
    (mine,) = (line for line in said[-2].splitlines() if "my-decoder" in line)
    assert mine.endswith("graded"), said[-2]
    assert (folder / "logits.npz").exists()


def shell(folder: Path, lines: str) -> str:
    for before, after in (
        (r"(grid (?:data make|model try)) decode-stimulus", r"\1 my-grid/hub/boards/small.yaml"),
        ("decode-stimulus", NAME),
    ):
        lines = re.sub(before, after, lines)
    done = subprocess.run(
        ["bash", "-ec", lines], cwd=folder, env=FOUND, capture_output=True, text=True, timeout=WITHIN_S
    )
    assert done.returncode == 0, f"{lines}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def wait_for(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", sys.argv[1]], start_new_session=True)
print("ready", flush=True)
time.sleep(600)
"""


def test_X6_a_part_that_does_not_end_is_killed_with_all_that_it_has_started(tmp_path: Path) -> None:
    script = f"""
import asyncio, subprocess, sys
from pathlib import Path
from choroid.demo import parts
other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
parts.END_S = parts.ORPHAN_S = 0.2
async def main():
    async with parts.demo_parts(Path(sys.argv[1]) / "logs") as running:
        await running.start("one", sys.executable, "-c", {STUBBORN!r}, sys.argv[1])
        while "ready" not in running.said("one"):
            await asyncio.sleep(0.05)
        print(len(parts._children()), flush=True)
asyncio.run(main())
print(len(parts._children()), other.poll() is None, flush=True)
other.kill()
"""

    async def run() -> str:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", script, str(tmp_path), stdout=asyncio.subprocess.PIPE
        )
        out, _ = await process.communicate()
        return out.decode()

    assert asyncio.run(run()).split() == ["2", "1", "True"], "what the demo has not started goes on"
    named = [each for each in Path("/proc").glob("[0-9]*/cmdline") if str(tmp_path).encode() in _read(each)]
    assert named == []


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_X6_a_part_that_ends_ends_the_demo_with_its_last_lines(tmp_path: Path) -> None:
    async def run() -> None:
        async with demo_parts(tmp_path) as running:
            await running.start("agent", sys.executable, "-c", "print('done')", ends=True)
            await running.start("hub", sys.executable, "-c", "print('the port is taken'); raise SystemExit(3)")
            await running.watch()

    with pytest.raises(
        UserError, match=r"hub of the demo has ended with status 3(.|\n)*the port is taken(.|\n)*Next: see"
    ):
        asyncio.run(run())
