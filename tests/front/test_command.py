"""The `choroid` command as its user types it: real processes, real exit statuses, JSON alone on standard output."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

BENCH = Path(__file__).resolve().parents[2] / "examples" / "rigs" / "bench.yaml"


def choroid(*words: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "choroid", *words], capture_output=True, text=True, timeout=timeout, check=False
    )


def answer_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_check_accepts_the_bench_rig() -> None:
    done = choroid("check", str(BENCH), "--json")
    assert done.returncode == 0, done.stderr
    assert answer_of(done)["ok"] is True


def test_check_names_file_line_and_fix(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(BENCH.read_text().replace("setpoint: 37 degC", "setpoint: 37 mL"))
    line = 1 + next(i for i, text in enumerate(bad.read_text().splitlines()) if "37 mL" in text)
    done = choroid("check", str(bad))
    assert done.returncode == 1
    assert f"{bad}:{line}" in done.stdout
    assert "degC" in done.stdout
    assert "Traceback" not in done.stderr


def test_devices_lists_the_seven_families() -> None:
    done = choroid("device", "list", "--json")
    assert done.returncode == 0, done.stderr
    models = {entry["id"] for entry in answer_of(done)["devices"]}
    assert models >= {
        "ismatec-reglo-icc",
        "atlas-ezo-ph",
        "atlas-ezo-do",
        "atlas-ezo-rtd",
        "atlas-ezo-pmp",
        "keller-x-line",
        "alicat-mfc",
        "mettler-sics",
        "modbus-coil-relay",
    }


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("run", "no-such-file.yaml"), "no-such-file.yaml"),
        (("simulate", str(BENCH), "--protocol", "recycel"), "recycle"),
        (("simulate", str(BENCH), "--set", "batch=18"), "unit"),
        (("simulate", str(BENCH), "--set", "batch=18 mL/min"), "mL"),
        (("protocol", "status", "--data", "no-such-directory"), "choroid run"),
        (("user", "list", "--data", "no-such-directory"), "choroid run"),
    ],
)
def test_a_mistake_is_answered_in_words(words: tuple[str, ...], says: str) -> None:
    done = choroid(*words)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr, done.stderr
    assert says in done.stderr + done.stdout


def test_a_real_run_refuses_simulated_links(tmp_path: Path) -> None:
    """C5: nothing simulated ever stands in for a real device."""
    done = choroid("run", str(BENCH), "--data", str(tmp_path))
    assert done.returncode == 1
    assert "simulated" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_run_of_which_no_device_answers_tells_every_failure_at_once(tmp_path: Path) -> None:
    """C5: one table of failures, no traceback, and a process that reads the output need not wait for the guard."""
    rig = tmp_path / "dead.yaml"
    ports: dict[str, int] = {}
    described = re.sub(
        r"sim:(?!array)\w+",
        lambda link: f"tcp://127.0.0.1:{ports.setdefault(link[0], 1 + len(ports))}",
        BENCH.read_text(encoding="utf-8"),
    )
    rig.write_text("mixed: true\n" + described, encoding="utf-8")
    try:
        done = choroid("run", str(rig), "--data", str(tmp_path / "data"), "--port", "0")
    finally:
        # The guard goes on trying to bring the outputs to rest; there is nothing to be reached here.
        subprocess.run(["pkill", "-f", str(tmp_path / "data")], check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr, done.stderr
    for device in yaml.safe_load(described)["devices"]:
        assert device in done.stderr
