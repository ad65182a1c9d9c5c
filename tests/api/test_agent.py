"""A remote agent: the distribution `choroid-client`, with grpcio and NumPy alone, against a real electrode engine."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import zipfile
from contextlib import aclosing
from pathlib import Path

import pytest

import choroid
from choroid.client.nerves_terms import require_private
from choroid.running.nerves_handle import spawn_engine
from controller.rig.loading import load_rig
from tests.clients.environments import environment

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "examples" / "rigs" / "bench.yaml"
NEEDED = ("grpcio", "numpy", "protobuf")


def pinned() -> list[str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.partition("==")[0] in NEEDED]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The distribution, built as its pyproject.toml says."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--disable-pip-version-check"]
    subprocess.run([*build, "--wheel-dir", folder, ROOT / "choroid" / "client"], check=True, timeout=300)
    (found,) = folder.iterdir()
    return found


def test_the_wheel_holds_the_clients_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(next(name for name in names if name.endswith("/METADATA"))).decode()
    files = {name for name in names if ".dist-info/" not in name}
    assert files == {"choroid/__init__.py", "choroid/py.typed"} | {
        f"choroid/client/{path.relative_to(ROOT / 'choroid' / 'client')}"
        for path in (ROOT / "choroid" / "client").rglob("*")
        if path.is_file() and path.suffix in (".py", ".pyi", ".toml")
    }
    needed = [line.partition(": ")[2] for line in metadata.splitlines() if line.startswith("Requires-Dist: ")]
    assert {line.partition("<")[0].partition(">")[0] for line in needed if "extra" not in line} == set(NEEDED)


@pytest.mark.long
async def test_an_agent_with_the_client_alone_talks_with_the_tissue(wheel: Path, tmp_path: Path) -> None:
    python = await asyncio.to_thread(environment, *pinned())
    place = tmp_path / "site"
    install = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check", "--target"]
    await asyncio.to_thread(subprocess.run, [*install, str(place), str(wheel)], check=True, timeout=120)
    engine = await spawn_engine(load_rig(BENCH), tmp_path, 3)
    try:
        process = await asyncio.create_subprocess_exec(
            str(python), str(Path(__file__).with_name("agent_script.py")), str(tmp_path / "nerves.json"),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, cwd=tmp_path, env={"PYTHONPATH": str(place)},
        )  # fmt: skip
        out, err = await asyncio.wait_for(process.communicate(), 60)
        async with choroid.AsyncNervesClient.from_file(tmp_path / "nerves.json") as nerves:
            await speak(nerves, engine.address)
            await engine.close()
            with pytest.raises(choroid.NervesError, match="cannot be reached"):
                await nerves.info()
        with pytest.raises(choroid.NervesError, match="no electrode engine runs"):
            choroid.NervesClient.from_file(tmp_path / "nerves.json")
    finally:
        await engine.close()
    assert process.returncode == 0, err.decode()
    found = json.loads(out)
    assert found.pop("remote").startswith("10.0.0.1:50051 is not on this machine")
    assert found.pop("whole").startswith(
        "choroid.simulate is part of the controller, and only the clients are installed"
    )
    assert found.pop("renewed").startswith("no lease: ")
    assert found == {
        "electrodes": 32,
        "summary": 32,
        "spikes": ["uint64", "uint32", True],
        "frames": [[500, 32], "int16"],
        "accepted": True,
        "unbalanced": [False, "waveform"],
        "ledger": ["a test", "a test"],
        "controller": False,
    }


async def speak(nerves: choroid.AsyncNervesClient, address: str) -> None:
    """The same with asyncio, and a token that the engine does not know."""
    assert (await nerves.info()).electrodes == 32
    assert (await nerves.status()).next_frame > 0
    async with aclosing(nerves.spikes(100)) as batches:
        async for batch in batches:
            if len(batch):
                break
    lease = await nerves.acquire_lease([0, 1])
    with pytest.raises(choroid.NervesError, match="no lease: "):
        await nerves.acquire_lease([0])
    await nerves.release_lease(lease.lease)
    async with choroid.AsyncNervesClient(address, "wrong") as unknown:
        with pytest.raises(choroid.NervesError, match="does not know this token") as refused:
            await unknown.info()
    assert refused.value.code == "UNAUTHENTICATED"


@pytest.mark.parametrize("address", ["127.0.0.1:1", "[::1]:1", "localhost:1", "unix:/run/nerves"])
def test_a_token_goes_to_this_machine(address: str) -> None:
    require_private(address, None)


@pytest.mark.parametrize("address", ["rig.lab:1", "192.168.1.2:50051", "[2001:db8::1]:5", "127.0.0.1.evil.org:1"])
def test_and_not_over_a_network_unencrypted(address: str) -> None:
    with pytest.raises(choroid.NervesError, match="unencrypted"):
        require_private(address, None)
