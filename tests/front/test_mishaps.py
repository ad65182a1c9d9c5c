"""`choroid lab serve --faults` and `--by-hand`: faults of a served lab, reported as they happen."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from choroid.common.failure import UserError
from choroid.simulation.mishaps import Mishaps
from controller.rig.loading import load_rig
from sim.faults.kinds import KINDS
from sim.faults.targets import targets
from sim.lab import SimulatedLab

ROOT = Path(__file__).parents[2]
RIG = load_rig(ROOT / "examples" / "rigs" / "bench.yaml")


@pytest.mark.virtual_time
async def test_a_file_of_faults_acts_on_the_lab(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "faults.yaml"
    path.write_text(
        """
faults:
  - {fault: unplug, on: balance, at: 10 s, for: 5 s}
  - {fault: silent, on: ph_loop, when: {point: balance.mass, above: 1 g}, for: 3 s}
  - {fault: reboot, on: do_loop, rate: 60 / h}
""",
        encoding="utf-8",
    )
    lab = SimulatedLab(RIG, seed=1)
    async with Mishaps(RIG, path, by_hand=False, seed=1).befalling(lab):
        await asyncio.sleep(2.0)
        assert lab.devices["ph_loop"].hung
        await asyncio.sleep(9.0)
        assert not lab.devices["ph_loop"].hung
        assert not lab.lines["sim:balance"].plugged
        await asyncio.sleep(600.0)
        assert 4 <= lab.devices["do_loop"].boots <= 25
    await lab.close()
    told = capsys.readouterr().err.splitlines()
    assert "00:00:10 unplug sim:balance for 5 s" in told
    assert "00:00:15 unplug sim:balance for 5 s is over" in told
    assert "00:00:01 silent ph_loop for 3 s" in told
    assert any(line.endswith("reboot do_loop") for line in told)


@pytest.mark.virtual_time
async def test_faults_are_typed_listed_and_ended(capsys: pytest.CaptureFixture[str]) -> None:
    lab = SimulatedLab(RIG, seed=1)
    mishaps = Mishaps(RIG, None, by_hand=False, seed=1)
    mishaps.typed("reboot reglo")  # nothing is served yet, so nothing happens
    async with mishaps.befalling(lab):
        for text in ("unplug sim:gas", "offset ph_loop.ph for 10 s amount 0.1 pH", "unplugg sim:gas", "list", "end 7"):
            mishaps.typed(text)
        assert not lab.lines["sim:gas"].plugged
        mishaps.typed("end 1")
        assert lab.lines["sim:gas"].plugged
        await asyncio.sleep(11.0)
        assert not lab.plant.faults.sensor_offset
        mishaps.typed("silent balance")
        mishaps.typed("clear")
        assert not lab.devices["balance"].hung
        mishaps.typed("stuck ph_loop.ph")
        mishaps.typed("kinds")
        mishaps.typed("help")
    assert not lab.plant.faults.sensor_stuck, "nothing outlasts the lab"
    await lab.close()
    told = capsys.readouterr().err
    assert "  1  unplug sim:gas for good\n  2  offset ph_loop.ph for 10 s amount 0.1" in told
    assert "Did you mean “unplug”?" in told
    assert "no present fault has number 7" in told
    assert all(
        f"{name} " in told
        for name, kind in KINDS.items()
        if kind.group not in ("host", "network") and targets(name, RIG)
    )
    assert "disk_full" not in told
    assert "what can be typed" in told


def test_a_faults_file_with_mistakes_serves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "faults.yaml"
    path.write_text("faults: [{fault: unplug, at: 1 h}]\n", encoding="utf-8")
    with pytest.raises(UserError, match="does not say on which link"):
        Mishaps(RIG, path, by_hand=False, seed=1)
    with pytest.raises(FileNotFoundError):
        Mishaps(RIG, tmp_path / "absent.yaml", by_hand=True, seed=1)


def test_the_command_serves_a_lab_that_fails_as_asked() -> None:
    """The whole of it, at 600 × real time or what the machine gives: a kink after twenty minutes, a typed fault, the end."""
    words = ["lab", "serve", str(ROOT / "examples/rigs/bench.yaml"), "--speed", "600", "--for", "60s"]
    words += ["--faults", str(ROOT / "examples/faults/bad_night.yaml"), "--by-hand"]
    lab = subprocess.Popen(
        [sys.executable, "-m", "choroid", *words],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert lab.stdin is not None
    assert lab.stderr is not None
    lab.stdin.write("unplug sim:gas\n")
    lab.stdin.flush()
    told: list[str] = []
    for line in lab.stderr:
        # Once: a second interrupt while the lab is ending kills it.
        if "is over" in line and not any("is over" in each for each in told):
            lab.send_signal(signal.SIGINT)
        told.append(line)
    served, _ = lab.communicate(timeout=60)
    assert lab.returncode == 0, told
    assert "tcp://127.0.0.1:" in served
    assert any("unplug sim:gas for good" in line for line in told)
    assert "00:20:00 heart_occlusion heart for 45 s\n" in told
    assert "00:20:45 heart_occlusion heart for 45 s is over\n" in told
