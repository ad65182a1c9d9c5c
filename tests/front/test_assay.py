"""`choroid assay enter` against a running controller, and without one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.processes import Bench


def assay(data: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "choroid", "assay", "enter", *words, "--data", str(data)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_without_a_controller_it_says_what_to_start(tmp_path: Path) -> None:
    done = assay(tmp_path, "lactate", "8.2 mM", "--vessel", "spent", "--taken", "10:40")
    assert done.returncode == 1
    assert "no running controller" in done.stderr
    assert "Next: start `choroid run RIG" in done.stderr


def test_it_is_entered_doubted_and_stood_by(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    try:
        bench.run()
        now = bench.get("/api/state")["utc"]
        place = ("--vessel", "loop", "--taken", now)
        done = assay(bench.data, "glucose", "370 mg/dL", *place, "--method", "strip", "--json")
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert told["used"]
        assert told["after"]["high"] - told["after"]["low"] < told["before"]["high"] - told["before"]["low"]
        wrong = assay(bench.data, "lactate", "8.2 kg", *place)
        assert wrong.returncode == 1
        assert "Likely cause: the unit" in wrong.stderr
        doubted = assay(bench.data, "lactate", "8.2 mM", *place)
        assert doubted.returncode == 1
        assert "contradicts the estimate" in doubted.stderr
        alarms = {alarm["kind"]: alarm["source"] for alarm in bench.get("/api/alarms")["alarms"]}
        assert alarms["assay_doubtful"] == "lactate in loop"
        stood_by = assay(bench.data, "lactate", "8.2 mM", *place, "--sure")
        assert stood_by.returncode == 0, stood_by.stderr
        assert "with the assay" in stood_by.stdout
        assert bench.get("/api/medium")["loop"]["lactate_mm"]["value"] > 7.0
        assert [body["used"] for _, body in bench.rows("assay")] == [True, False, True]
        assert bench.rows("moved") == []
    finally:
        bench.end()
