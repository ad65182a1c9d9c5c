"""`choroid commission` as its user types it, against a lab served over TCP: real processes, guard and journal."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from choroid.cli import main
from tests.processes import BENCH, Bench, until


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.end()


def commission(bench: Bench, answer: str) -> subprocess.CompletedProcess[str]:
    words = ["commission", str(bench.rig), "--data", str(bench.data), "--by", "R. Franklin"]
    return subprocess.run(
        [sys.executable, "-m", "choroid", *words], input=answer, capture_output=True, text=True, timeout=90, check=False
    )


def test_I8_a_no_moves_nothing_and_a_rig_without_commissioning_says_so(bench: Bench) -> None:
    done = commission(bench, "n\n")
    assert done.returncode == 1, done.stderr
    assert "No tissue is in the rig" in done.stderr
    assert "nothing was moved" in done.stderr
    assert "Traceback" not in done.stderr
    assert bench.rows("commissioning") == []
    assert [body for _, body in bench.rows("act") if body["by"] == "commissioning"] == []
    bench.run()
    until(lambda: "not_commissioned" in str(bench.get("/api/alarms")), "the alarm not_commissioned stands")
    held = commission(bench, "y\n")
    assert held.returncode == 1
    assert "controller" in held.stderr, "a rig that is kept by a controller must not be commissioned"


def test_I8_a_simulated_rig_has_no_wiring_to_confirm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["commission", str(BENCH), "--data", str(tmp_path), "--by", "R. Franklin"]) == 1
    assert "choroid lab serve" in capsys.readouterr().err
