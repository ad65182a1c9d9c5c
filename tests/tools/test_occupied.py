"""Talking with a device that a controller has: refused with the reason, unless only reading or expressly wanted."""

from __future__ import annotations

import asyncio
import fcntl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from choroid.common.failure import UserError
from choroid.simulation.lab import pointing_at
from choroid.tools.talk import PLAN, require_free, talk
from controller.core.clock import Clock
from controller.guard.guarding import guard_plan
from controller.journal.journal import Journal
from controller.links.ownership import OWNER, holders
from controller.rig.description import Rig
from controller.rig.loading import load_rig
from sim.lab import SimulatedLab

BENCH = Path(__file__).resolve().parents[2] / "examples" / "rigs" / "bench.yaml"


@pytest.fixture
def served(tmp_path: Path) -> Rig:
    """The bench as if its lines were served over TCP."""
    path = tmp_path / "served.yaml"
    links = {device.link for device in load_rig(BENCH).devices.values()}
    path.write_text(pointing_at(BENCH, {link: f"tcp://192.0.2.1:{4000 + at}" for at, link in enumerate(sorted(links))}))
    return load_rig(path)


@contextmanager
def controller(rig: Rig, data: Path, plan: str | None = None) -> Iterator[None]:
    """What a running controller leaves in its data directory: a journal that it owns, and its guard's plan."""
    data.mkdir(exist_ok=True)
    (data / PLAN).write_text(guard_plan(rig).to_json() if plan is None else plan)
    journal = Journal(data / "journal.db", Clock(follow_system=True), durable=False)
    try:
        yield
    finally:
        journal.close()


async def test_a_controller_of_the_same_rig_has_all_its_devices(served: Rig, tmp_path: Path) -> None:
    data = tmp_path / "data"
    require_free("balance", served, data)  # there is no such directory: no controller runs
    with controller(served, data):
        for name in ("balance", "p_heart", "reglo"):
            with pytest.raises(UserError) as refused:
                require_free(name, served, data)
            told = str(refused.value)
            assert told.startswith(f"{name} (tcp://192.0.2.1:")
            assert f"it runs this rig ({served.name})" in told
            assert "Likely cause:" in told
            assert "Next:" in told
            assert "--read-only" in told
    require_free("balance", served, data)  # it ended, and its files are still there


async def test_a_controller_of_another_rig_has_the_links_of_its_outputs(served: Rig, tmp_path: Path) -> None:
    data = tmp_path / "data"
    other = replace(guard_plan(served), rig="another").to_json()
    with controller(served, data, other):
        with pytest.raises(UserError, match="another has reglo on the same link"):
            require_free("reglo", served, data)
        require_free("balance", served, data)  # alone on its line, and no output
    with controller(served, data, "{}"), pytest.raises(UserError, match="does not name its rig"):
        require_free("balance", served, data)


async def test_a_simulated_link_is_nobodys(tmp_path: Path) -> None:
    rig = load_rig(BENCH)
    with controller(rig, tmp_path):
        require_free("reglo", rig, tmp_path)


def test_the_lock_is_seen_without_being_touched(tmp_path: Path) -> None:
    owner = tmp_path / OWNER
    assert holders(owner) == ()
    owner.touch()
    assert holders(owner) == ()
    with owner.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        inode = owner.stat().st_ino
        assert len(holders(owner)) == 1
        listing = tmp_path / "locks"
        listing.write_text(
            f"1: FLOCK  ADVISORY  WRITE 41 08:01:{inode} 0 EOF\n"
            f"1: -> FLOCK  ADVISORY  WRITE 42 08:01:{inode} 0 EOF\n"
            f"2: POSIX  ADVISORY  WRITE 43 08:01:{inode} 0 EOF\n"
            f"3: FLOCK  ADVISORY  WRITE 44 08:01:{inode}1 0 EOF\n"
        )
        assert holders(owner, listing) == (41,)
    assert holders(owner) == ()


def test_what_is_sent_as_typed_is_no_reading(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="leave out one of the two"):
        talk("balance", BENCH, raw=True, read_only=True, data=tmp_path)


async def test_on_the_command_line_while_a_controller_runs(tmp_path: Path) -> None:
    """Refused; reading goes through with --read-only, where stop is not obeyed; --ignore-controller allows it."""
    rig = load_rig(BENCH)
    lab = SimulatedLab(rig, seed=1)
    path, data = tmp_path / "served.yaml", tmp_path / "data"
    try:
        path.write_text(pointing_at(BENCH, await lab.serve_tcp()))
        with controller(load_rig(path), data):
            answers = [
                await asyncio.to_thread(_talk, path, data, *words)
                for words in ((), ("--read-only",), ("--ignore-controller",))
            ]
    finally:
        await lab.close()
    refused, reading, *ignoring = answers
    assert refused.returncode == 1
    assert "gas_co2 (tcp://" in refused.stderr
    assert "is in use" in refused.stderr
    assert refused.stdout == ""
    assert reading.returncode == 0, reading.stderr
    assert "= flow: " in reading.stdout
    assert "“stop” is a command" in reading.stdout
    assert "at rest" not in reading.stdout
    for answer in ignoring:
        assert answer.returncode == 0, answer.stderr
        assert "= flow: at rest" in answer.stdout


def _talk(path: Path, data: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "choroid",
        "device",
        "talk",
        "gas_co2",
        "--rig",
        str(path),
        "--data",
        str(data),
        *words,
    ]
    return subprocess.run(command, input="read\nstop\nquit\n", capture_output=True, text=True, timeout=60)
