"""Three ranks of a job behind NAT: an all-reduce of torch's Gloo through relays, and what can be seen on the way.

net ─┬─ hub    ─┬─ relay1   ─┬─ relay2
     ├─ router1 ── home1 ── alpha   (NAT with random ports, twice)
     ├─ router2 ── home2 ── beta    (likewise)
     └─ router3 ── gamma            (once)
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from grid.hub.members import Members
from grid.hub.owner import owned
from grid.hub.store import Store
from grid.jobs.environment import default_folder
from tests.grid.namespaces import EVERYWHERE, Net, Topology, require_namespaces
from tests.grid.test_nat import enrolled_folder
from tests.grid.training_environment import torch_python
from tests.grid.world import policy_file, until

TOPOLOGY = Topology(
    links=(
        ("net", "10.1.0.1", "hub", "10.1.0.2"),
        ("net", "10.2.0.1", "relay1", "10.2.0.2"),
        ("net", "10.3.0.1", "relay2", "10.3.0.2"),
        ("net", "10.4.0.1", "router1", "10.4.0.2"),
        ("router1", "10.14.0.1", "home1", "10.14.0.2"),
        ("home1", "10.24.0.1", "alpha", "10.24.0.2"),
        ("net", "10.5.0.1", "router2", "10.5.0.2"),
        ("router2", "10.15.0.1", "home2", "10.15.0.2"),
        ("home2", "10.25.0.1", "beta", "10.25.0.2"),
        ("net", "10.6.0.1", "router3", "10.6.0.2"),
        ("router3", "10.16.0.1", "gamma", "10.16.0.2"),
    ),
    outer={
        "router1": "10.4.0.2",
        "home1": "10.14.0.2",
        "router2": "10.5.0.2",
        "home2": "10.15.0.2",
        "router3": "10.6.0.2",
    },
    gateways={
        "hub": "10.1.0.1",
        "relay1": "10.2.0.1",
        "relay2": "10.3.0.1",
        "router1": "10.4.0.1",
        "home1": "10.14.0.1",
        "alpha": "10.24.0.1",
        "router2": "10.5.0.1",
        "home2": "10.15.0.1",
        "beta": "10.25.0.1",
        "router3": "10.6.0.1",
        "gamma": "10.16.0.1",
    },
    forwards=("net",),
)
MEMBERS = ("alpha", "beta", "gamma")
RELAYS = {"relay1": "10.2.0.2", "relay2": "10.3.0.2"}
MARK = "MARKED-PLAINTEXT"
DEFAULT = default_folder()


@pytest.fixture
def net() -> Iterator[Net]:
    require_namespaces()
    found = Net(TOPOLOGY)
    try:
        found.open()
        yield found
    finally:
        found.close()


@pytest.fixture(scope="module")
def torch() -> Path:
    """Python of the training environment, which is made once (CHOROID_TORCH names another one)."""
    return torch_python()


class Grid:
    """Hub, two relays and three members, each a process in a namespace of its own."""

    def __init__(self, net: Net, folder: Path) -> None:
        self.net = net
        self.folder = folder
        self.store: Store = None  # type: ignore[assignment]  # made by open()
        self.parts: dict[str, subprocess.Popen[str]] = {}
        self._opened = contextlib.ExitStack()

    def start(self, part: str, namespace: str, *words: str, **more: Any) -> subprocess.Popen[str]:
        with (self.folder / f"{part}.log").open("a") as log:
            self.parts[part] = self.net.start(namespace, *words, **{"stdout": log, "stderr": log, **more})
        return self.parts[part]

    async def open(self) -> None:
        rules, hub = policy_file(self.folder), self.folder / "hub"
        words = ("--data", str(hub), "--policy", str(rules), "--no-grading", "--host", EVERYWHERE)
        self.start("hub", "hub", "choroid", "grid", "hub", "run", *words)
        await until((hub / "address.txt").exists)
        address = (hub / "address.txt").read_text().strip().replace(EVERYWHERE, "10.1.0.2")
        self.store = self._opened.enter_context(contextlib.closing(owned(hub)))
        for name in (*RELAYS, *MEMBERS):
            enrolled_folder(self.folder, self.store, address, name, "member")
            data = ("--data", str(self.folder / name))
            if name in RELAYS:
                self.start(name, name, "choroid", "grid", "relay", "--host", EVERYWHERE, *data)
            else:
                self.start(name, name, "choroid", "grid", "join", "--work", *data)
        members = Members(self.store)
        wanted = {**dict.fromkeys(RELAYS, "relay"), **dict.fromkeys(MEMBERS, "compute")}
        await until(lambda: all(r in members.standing(members.named(n)["id"]).roles for n, r in wanted.items()), 120)

    async def lease(self) -> str:
        """Hold a work lease of all members; return its name when all ranks are joined."""
        where = (str(self.folder / "alpha"), *MEMBERS)
        holder = self.start(
            "holder", "alpha", "tests.grid.work_process", *where, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        said = await says(holder)
        await until(lambda: all((self.folder / name / "work.json").exists() for name in MEMBERS), 60)
        return said

    def ranks(self, python: Path, lease: str, seconds: float) -> list[subprocess.Popen[str]]:
        """Start an all-reduce of three ranks for so many seconds."""
        environment = {**os.environ, "CHOROID_WORK": lease, "OMP_NUM_THREADS": "1"}
        script = str(Path(__file__).with_name("rank_process.py"))
        started = []
        for name in MEMBERS:
            words = (*self.net.inside(name), str(python), script, str(self.folder / name / "work.json"), str(seconds))
            with (self.folder / f"rank-{name}.log").open("a") as log:
                started.append(subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=log, text=True))
            self.parts[f"rank {name}"] = started[-1]
        return started

    def close(self) -> None:
        self._opened.close()
        for process in reversed(self.parts.values()):
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


@contextlib.asynccontextmanager
async def a_grid(net: Net, folder: Path) -> AsyncIterator[Grid]:
    found = Grid(net, folder)
    try:
        await found.open()
        yield found
    finally:
        found.close()


async def says(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return (await asyncio.to_thread(process.stdout.readline)).strip()


async def results(ranks: list[subprocess.Popen[str]], within_s: float) -> list[dict[str, Any]]:
    async with asyncio.timeout(within_s):
        texts = [(await asyncio.to_thread(each.communicate))[0] for each in ranks]
    return [json.loads(text) for text in texts]


@pytest.mark.long
@pytest.mark.within_s(400)
async def test_G7_an_all_reduce_of_three_ranks_behind_nat_of_which_no_link_shows_the_plaintext(
    tmp_path: Path, net: Net, torch: Path
) -> None:
    sniffers = {}
    async with a_grid(net, tmp_path) as grid:
        lease = await grid.lease()
        for name in TOPOLOGY.names:
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            sniffers[name] = grid.start(f"sniffer {name}", name, "tests.grid.sniffer", MARK, **pipes)
            assert (await says(sniffers[name])) == "ready"
        found = await results(grid.ranks(torch, lease, 2.0), 200)
        seen = {name: json.loads((await asyncio.to_thread(each.communicate))[0]) for name, each in sniffers.items()}
    print(found, seen)
    assert [each["wrong"] for each in found] == [0, 0, 0]
    links = {
        (name, device): what for name, devices in seen.items() for device, what in devices.items() if device != "lo"
    }
    assert len(links) == 2 * len(TOPOLOGY.links)
    assert not [link for link, (_, _, hits) in links.items() if hits]
    assert all(seen[name]["lo"][2] > 0 for name in MEMBERS), "the capture finds it where it is plain"
    assert links["hub", "v10x1x0x2"][1] < 0.02 * max(size for _, size, _ in links.values()), "no bulk at the hub"
