"""`choroid service install`: units that systemd itself accepts, and that do not end each other."""

from __future__ import annotations

import asyncio
import configparser
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from choroid.running.services import units
from controller.guard.wire import PLAN
from tests.guard.plants import BENCH
from tests.guard.scene import scene

GUARD, CONTROLLER = "choroid-guard-bench.service", "choroid-controller-bench.service"
EXPOSURE = 3.5
"""systemd's own score: below 4 a service counts as well protected."""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The folder of the units of a rig in a folder with a blank in its name."""
    folder = tmp_path / "my rigs"
    folder.mkdir()
    rig = folder / "rig.yaml"
    ports: dict[str, int] = {}
    port = lambda link: f"tcp://127.0.0.1:{ports.setdefault(link[0], 1 + len(ports))}"  # noqa: E731
    rig.write_text("mixed: true\n" + re.sub(r"sim:(?!array)\w+", port, BENCH.read_text()))
    data = folder / "data"
    command = [
        "choroid",
        "service",
        "install",
        str(rig),
        "--data",
        str(data),
        "--root",
        str(tmp_path),
        "--run-as",
        "root",
    ]
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"enable --now {GUARD} {CONTROLLER}" in done.stdout
    return tmp_path / "etc/systemd/system"


def unit(folder: Path, name: str) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(folder / name)
    return parser


def verify(*paths: Path) -> str:
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", *map(str, paths)], capture_output=True, text=True)
    return done.stdout + done.stderr


@pytest.mark.needs("systemd-analyze")
def test_U3_systemd_accepts_the_units(installed: Path) -> None:
    assert verify(installed / GUARD, installed / CONTROLLER) == ""
    spoilt = installed / GUARD
    spoilt.write_text(spoilt.read_text().replace("WatchdogSec=5", "WatchdogSec=soon"))
    assert "Failed to parse" in verify(spoilt), "a judge that sees nothing wrong proves nothing"


@pytest.mark.needs("systemd-analyze")
@pytest.mark.parametrize("name", [GUARD, CONTROLLER])
def test_S5_the_services_are_well_protected(name: str, installed: Path) -> None:
    words = ["systemd-analyze", "security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE * 10:.0f}"]
    done = subprocess.run([*words, str(installed / name)], capture_output=True, text=True)
    score = re.search(r"exposure level for .*: ([0-9.]+)", done.stdout)
    assert score is not None, done.stdout + done.stderr
    assert float(score.group(1)) <= EXPOSURE
    assert done.returncode == 0


def test_U2_U3_neither_service_ends_the_other_and_both_come_back(installed: Path) -> None:
    guard, controller = unit(installed, GUARD), unit(installed, CONTROLLER)
    for each in (guard, controller):
        assert each["Service"]["Restart"] == "always"
        assert each["Service"]["Type"] == "notify"
        assert "WatchdogSec" in each["Service"]
        for binding in ("BindsTo", "PartOf", "Requires", "Requisite", "Conflicts"):
            assert binding not in each["Unit"]
    assert GUARD in controller["Unit"]["Wants"]
    assert GUARD in controller["Unit"]["After"]
    assert guard["Service"]["Slice"] != controller["Service"]["Slice"]
    assert int(guard["Service"]["OOMScoreAdjust"]) == -1000
    assert int(controller["Service"]["OOMScoreAdjust"]) > -1000
    assert guard["Unit"]["StartLimitIntervalSec"] == "0", "a guard is never given up"
    assert "MemoryMax" in controller["Service"]


def test_units_of_a_user_ask_for_nothing_that_a_user_may_not_have() -> None:
    made = units("Bench 2", Path("/r.yaml"), Path("/d"), user=True, run_as="x", memory="1G")
    assert set(made) == {"choroid-guard-bench_2.service", "choroid-controller-bench_2.service"}
    for text in made.values():
        for key in ("User=", "OOMScoreAdjust", "Nice=", "Capabilit", "ProtectSystem", "IOScheduling", "Device"):
            assert key not in text


@pytest.mark.parametrize("path", ["/a/b\nExecStartPre=evil", '/a/"b', "/a/$b"])
def test_S5_a_path_cannot_smuggle_anything_into_a_unit(path: str) -> None:
    with pytest.raises(Exception, match="unit file"):
        units("x", Path(path), Path("/d"), user=False, run_as="x", memory="1G")


async def test_the_guard_tells_its_service_manager_how_it_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(tmp_path / "notify"))
    manager.settimeout(10)
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    async with scene(tmp_path) as made:
        guard = await made.guard()
        assert manager.recv(1000).startswith(b"READY=1")
        assert manager.recv(1000) == b"WATCHDOG=1"
        guard.send_signal(signal.SIGTERM)
        await made.until(lambda: guard.poll() is not None, 10.0)
        await asyncio.sleep(0)
        said = b""
        while b"STOPPING=1" not in said:
            said = manager.recv(1000)
    manager.close()


def test_the_containers_share_what_they_must_and_are_two(tmp_path: Path) -> None:
    compose = yaml.safe_load((BENCH.parents[1] / "deploy" / "compose.yaml").read_text())
    guard, controller = compose["services"]["guard"], compose["services"]["controller"]
    assert guard["pid"] == "host", "else it could neither see nor end the controller's process"
    assert guard["volumes"] == controller["volumes"], "socket, journal and rig file"
    assert guard["devices"] == controller["devices"]
    assert guard["restart"] == "always"
    assert guard["oom_score_adj"] < controller["oom_score_adj"] <= 0
    assert "SYS_NICE" in guard["cap_add"]
    assert "mem_limit" in controller
    assert "pid" not in controller
    assert controller["depends_on"] == ["guard"]
    assert guard["command"][0] == "guard"
    assert controller["command"][0] == "run"
    assert guard["user"] == controller["user"]
    dockerfile = (BENCH.parents[1] / "deploy" / "Dockerfile").read_text()
    assert 'ENTRYPOINT ["choroid"]' in dockerfile
    assert PLAN not in dockerfile
