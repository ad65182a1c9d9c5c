"""A federated job of three laboratories behind NAT: one is killed and comes back; what can be seen on every link."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grid.commands import data as data_commands
from grid.data.data_sets import DataSets
from grid.data.manifest import Provenance, Sharing
from grid.identity.keys import IdentityKey
from grid.jobs.code import allow
from tests.grid.namespaces import Net
from tests.grid.ranks import PACKAGES, rows
from tests.grid.test_tunnels_through_nat import MEMBERS, TOPOLOGY, Grid, a_grid, net, says
from tests.grid.training_environment import flower_python, torch_python
from tests.grid.world import until

__all__ = ["net"]
SAMPLE = b"sam>ple>byt>es->tha>t-s>tay>-he>re->"
"""The bytes of a sample of nine numbers, all of them about 0.2."""
MANY = 1_000_000
Events = list[dict[str, Any]]


def prepared(grid: Grid) -> Path:
    """Give each member a data set that stays; return the manifest of a job over all three."""
    sets = []
    owner = IdentityKey.in_folder(grid.folder / MEMBERS[0])
    for number, name in enumerate(MEMBERS):
        folder = grid.folder / name
        source = rows(grid.folder / f"samples-{name}", 1000, number)
        values = np.load(source / "rows.npy")
        values[::2] = np.frombuffer(SAMPLE, np.float32)
        np.save(source / "rows.npy", values)
        key = IdentityKey.in_folder(folder)
        found = DataSets(folder).add(source, key, name=name, sharing=Sharing.NO, provenance=Provenance())
        data_commands.allow(folder, found.id, [owner.id])
        sets.append(found.id)
        code = allow(folder, PACKAGES / "rows")
    path = grid.folder / "job.yaml"
    path.write_text(f"""
name: stays
code: {code}
preset: wide
engine: federated
federated: {{clip: 0.1}}
data: {{train: [{", ".join(sets)}]}}
ranks: {{max: 3}}
local_steps: 100
outer_steps: {MANY}
batch: 32
threads: 1
checkpoint_every: 10
inner: {{rate: 0.001}}
budget: {{core_hours: 1, bytes: 1000000000}}
""")
    return path


def events(grid: Grid, name: str, kind: str) -> Events:
    rank = MEMBERS.index(name)
    found: Events = []
    for path in (grid.folder / name).glob(f"jobs/*/rank-{rank}/events.jsonl"):
        text = path.read_text()
        found += [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
    return [each for each in found if each["event"] == kind]


def without(steps: Events, rank: int) -> Events:
    return [each for each in steps if rank not in each["counted"]]


@pytest.fixture
def environments() -> None:
    torch_python()
    flower_python()


@pytest.mark.long
@pytest.mark.within_s(400)
async def test_G7_three_federated_nodes_behind_nat_of_which_one_is_killed_and_comes_back_with_its_key(
    tmp_path: Path, net: Net, environments: None
) -> None:
    sniffers = {}
    async with a_grid(net, tmp_path) as grid:
        for name in TOPOLOGY.names:
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            sniffers[name] = grid.start(f"sniffer {name}", name, "tests.grid.sniffer", SAMPLE.decode(), **pipes)
            assert (await says(sniffers[name])) == "ready"
        file = prepared(grid)
        members = [word for name in MEMBERS for word in ("--member", name)]
        folder = str(tmp_path / MEMBERS[0])
        grid.start("owner", "alpha", "choroid", "grid", "job", "submit", str(file), *members, "--data", folder)
        await until(lambda: any(each["counted"] == [0, 1, 2] for each in events(grid, "alpha", "step")[2:]), 240)
        before = events(grid, "alpha", "step")
        (key,) = (tmp_path / "gamma").glob("jobs/*/rank-2/keys/node.key")
        kept = key.read_bytes()
        grid.parts["gamma"].send_signal(signal.SIGKILL)
        grid.parts["gamma"].wait()
        await until(lambda: len(without(events(grid, "alpha", "step")[len(before) :], 2)) >= 3, 120)
        alone = without(events(grid, "alpha", "step")[len(before) :], 2)
        grid.start("gamma", "gamma", "choroid", "grid", "join", "--work", "--data", str(tmp_path / "gamma"))
        seen = len(events(grid, "alpha", "step"))
        await until(lambda: any(2 in each["counted"] for each in events(grid, "alpha", "step")[seen:]), 240)
        registered = grid.store.query("SELECT member FROM work_keys")
        subprocess.run(
            (*net.inside("alpha"), "bash", "-c", f"echo '{SAMPLE.decode()}' > /dev/udp/127.0.0.1/9"), check=True
        )
        found = {name: json.loads((await asyncio.to_thread(each.communicate))[0]) for name, each in sniffers.items()}
        grid.parts["owner"].send_signal(signal.SIGINT)
        await asyncio.to_thread(grid.parts["owner"].wait, 60)
    usual = sorted(each["s"] for each in before if each["counted"] == [0, 1, 2])
    print("rounds of three (s):", usual)
    print("rounds after the kill (s, s of the required two):", [(each["s"], each["quorum_s"]) for each in alone])
    print(
        "refused or clipped:", {name: sum(each["clipped"] for each in events(grid, name, "update")) for name in MEMBERS}
    )
    first = alone[0]
    assert first["members"] == [0, 1, 2], "it was asked, and did not answer"
    assert first["s"] < 2.0 * first["quorum_s"] + 2.0, (
        "twice the time of the others; the rest is how often it is looked at"
    )
    assert key.read_bytes() == kept
    assert len(registered) == 3, "it has registered no other key"
    assert found["alpha"].pop("lo")[2] > 0, "the capture finds what is plain"
    assert len([0 for devices in found.values() for device in devices if device != "lo"]) == 2 * len(TOPOLOGY.links)
    links = {(name, device): what for name, each in found.items() for device, what in each.items()}
    print(links)
    assert not [link for link, (_, _, hits) in links.items() if hits]
