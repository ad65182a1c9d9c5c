"""A stray file among the drivers: rigs that do not use it go on, and a rig that may mean it is refused with the reason."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from choroid.common.child import PACKAGES
from drivers.registry import MODELS
from grid.tasks.catalogue import TASKS
from sim.devices.catalogue import DEVICES

ROOT = Path(__file__).resolve().parents[2]
RIGS = ROOT / "examples" / "rigs"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the packages."""
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("node_modules", "__pycache__")
        )
    return tmp_path


def choroid(copy: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "choroid", *words]
    environment = {"PYTHONPATH": str(copy), "PATH": "/usr/bin:/bin", "HOME": str(copy)}
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=120)


def test_nothing_is_left_out_of_this_checkout() -> None:
    for each in (MODELS, DEVICES, TASKS):
        assert (each.ambiguous, each.broken) == ({}, [])


def test_a_model_that_two_files_define_is_refused_with_both_and_other_rigs_go_on(copy: Path) -> None:
    shutil.copy(copy / "drivers" / "alicat_mfc.py", copy / "drivers" / "alicat_mfc_old.py")
    refused = choroid(copy, "check", str(RIGS / "bench.yaml"))
    assert refused.returncode != 0
    both = "“alicat-mfc” is defined by drivers/alicat_mfc.py and by drivers/alicat_mfc_old.py"
    assert f"no driver is called “alicat-mfc”: {both}" in " ".join((refused.stdout + refused.stderr).split())
    accepted = choroid(copy, "check", str(RIGS / "incubator.yaml"))
    assert accepted.returncode == 0, accepted.stderr
    assert f"{both}: left out" in accepted.stderr


@pytest.mark.parametrize(("text", "error"), [("def broken(:", "SyntaxError"), ("raise SystemExit(3)", "SystemExit")])
def test_a_file_that_cannot_be_imported_ends_neither_the_stop_nor_a_rig(copy: Path, text: str, error: str) -> None:
    (copy / "drivers" / "scratch.py").write_text(text, encoding="utf-8")
    accepted = choroid(copy, "check", str(RIGS / "bench.yaml"))
    assert accepted.returncode == 0, accepted.stderr
    assert f"drivers/scratch.py cannot be imported ({error}" in accepted.stderr
    stopped = choroid(copy, "stop", "--data", str(copy / "none"))
    assert "no guard answers" in stopped.stderr
    rig = copy / "rig.yaml"
    rig.write_text((RIGS / "bench.yaml").read_text("utf-8").replace("atlas-ezo-ph", "my-probe"), encoding="utf-8")
    refused = choroid(copy, "check", str(rig))
    assert refused.returncode != 0
    assert "no driver is called “my-probe”: drivers/scratch.py cannot be imported" in refused.stdout + refused.stderr
