"""Two controllers of one rig, with data folders of their own: the second is refused before it touches anything (A12)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.end()


def test_A12_a_second_controller_with_data_of_its_own_is_refused(bench: Bench, tmp_path: Path) -> None:
    """The reproduction: both accepted the same TCP rig."""
    first = bench.run()
    second = tmp_path / "second"
    renamed = tmp_path / "renamed.yaml"
    renamed.write_text(bench.rig.read_text().replace("127.0.0.1", "localhost"))
    for rig in (bench.rig, renamed):
        command = [
            sys.executable,
            "-m",
            "choroid",
            "run",
            str(rig),
            "--data",
            str(second),
            "--port",
            "0",
            "--no-restart",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode != 0
        assert f"process {first.pid} (controller of rig " in done.stderr, done.stderr
        assert str(bench.data) in done.stderr
        assert "Next: use the controller that runs, or end that process first" in done.stderr
        assert "Traceback" not in done.stderr
        assert not (second / "endpoint.json").exists()
    assert bench.answers()
    assert first.poll() is None
    talk = [
        sys.executable,
        "-m",
        "choroid",
        "device",
        "talk",
        "balance",
        "--rig",
        str(bench.rig),
        "--data",
        str(second),
    ]
    said = subprocess.run(talk, capture_output=True, text=True, timeout=60, check=False, input="id\nquit\n")
    assert f"in use by process {first.pid}" in said.stdout + said.stderr, "a tool does not disturb a running controller"
