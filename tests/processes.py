"""A lab and a controller as a user starts them: real processes, real sockets, real time."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

START_S = 180.0
"""On a fresh checkout the plant is compiled first, and other tests may do so at the same time."""
BENCH = Path(__file__).resolve().parents[1] / "examples" / "rigs" / "bench.yaml"


class Bench:
    """A lab and a controller as a user starts them; without the electrode array, unless a test is about it.

    The engine and the card of the array are two more processes, which take 2 s of processor time to start and then 0.4 s a
    second, because they sample in real time. Those tests that have them say `array=True`; tests/crash/test_strikes.py kills
    them as well.
    """

    def __init__(self, folder: Path, rig: Path = BENCH, *, array: bool = False) -> None:
        self.data = folder / "data"
        if not array:
            described = yaml.safe_load(rig.read_text(encoding="utf-8"))
            del described["nerves"]
            rig = folder / "without_array.yaml"
            rig.write_text(yaml.safe_dump(described, sort_keys=False, allow_unicode=True), encoding="utf-8")
        self.rig = folder / "lab.yaml"
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self.lab = self.start("lab", "serve", str(rig), "--write", str(self.rig))
        try:
            until(self.rig.exists, "the lab wrote its rig file", seconds=START_S)
        except BaseException:
            self.end()  # the caller has no object yet whose processes it could end
            raise

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        with (self._folder / f"{words[0]}.log").open("ab") as log:
            process = subprocess.Popen([sys.executable, "-m", "choroid", *words], stdout=log, stderr=log)
        self._processes.append(process)
        return process

    def run(self) -> subprocess.Popen[bytes]:
        process = self.start("run", str(self.rig), "--data", str(self.data), "--port", "0", "--no-restart")
        served = self.data / "endpoint.json"
        until(lambda: served.exists() and self.answers(), "the controller's page answers", seconds=START_S)
        return process

    def answers(self) -> bool:
        try:
            return bool(self.get("/health")["ok"])
        except (OSError, ValueError):
            return False

    def get(self, path: str, *, seconds: float = 5.0) -> dict[str, Any]:
        endpoint = json.loads((self.data / "endpoint.json").read_text())
        request = urllib.request.Request(
            endpoint["url"] + path, headers={"Authorization": f"Bearer {endpoint['token']}"}
        )
        with urllib.request.urlopen(request, timeout=seconds) as reply:
            answer: dict[str, Any] = json.load(reply)
            return answer

    def command(self, *words: str, token: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command for people on the running rig, with a person's own token if one is given."""
        return subprocess.run(
            [sys.executable, "-m", "choroid", *words, "--data", str(self.data), "--json"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, **({"CHOROID_TOKEN": token} if token else {})},
        )

    def told(self, *words: str, token: str = "") -> dict[str, Any]:
        """Run a command that has to succeed; return its answer."""
        done = self.command(*words, token=token)
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def protocol(self, *words: str) -> dict[str, Any]:
        return self.told("protocol", *words)

    def run_state(self, run_id: str) -> str:
        """Return the state of a run; a command that asks would be a process each time."""
        return str(self.get(f"/api/runs/{run_id}")["state"])

    def rows(self, *kinds: str) -> list[tuple[str, dict[str, Any]]]:
        database = sqlite3.connect(f"file:{self.data / 'journal.db'}?mode=ro", uri=True)
        try:
            marks = ",".join("?" * len(kinds))
            query = f"SELECT kind, body FROM entries WHERE kind IN ({marks}) ORDER BY seq"
            return [(kind, json.loads(body)) for kind, body in database.execute(query, kinds)]
        finally:
            database.close()

    def end(self) -> None:
        for process in reversed(self._processes):
            process.kill()
            process.wait()
        # A guard would look for its devices for an hour, and other tests' labs may get their ports.
        for about in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if str(self.data).encode() in (about / "cmdline").read_bytes():
                    os.kill(int(about.name), signal.SIGKILL)


def waited_s(pid: int | str = "self") -> float:
    """How long a process has waited for a processor so far (s): a simulated device that is starved answers late."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9


def children_of(pid: int, mark: str = "") -> list[int]:
    """Return the children of a process with `mark` in their command; a child that ends meanwhile has none."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [int(child) for child in children if mark in command_of(int(child))]


def command_of(pid: int) -> str:
    """Return the command line of a process; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def lives(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nothing waits for is dead (an orphan waits for process 1)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def until(condition: Callable[[], bool], what: str, *, seconds: float = 120.0) -> None:
    """Wait for `condition`; the limit is for a machine that is busy with other tests: only a failure uses all of it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return
        time.sleep(0.1)
    pytest.fail(f"it did not happen within {seconds:g} s: {what}")
