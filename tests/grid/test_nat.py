"""Member and laboratory behind NAT, in network namespaces: they only dial out, and the relay passes.

hub (10.9.0.1) ── router (10.9.0.2 | 10.8.0.1, random ports) ── home (10.8.0.2 | 10.7.0.1, random ports) ── member (10.7.0.2)
               └─ router of the laboratory (10.9.1.2 | 10.6.0.1, random ports) ── laboratory (10.6.0.2)
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grid.hub.members import Members
from grid.hub.owner import owned
from grid.hub.store import Store
from grid.member.membership import HubAddress, Membership
from tests.grid.namespaces import EVERYWHERE, Net, Topology, device, require_namespaces, run
from tests.grid.world import policy_file, until

TOPOLOGY = Topology(
    links=(
        ("hub", "10.9.0.1", "router", "10.9.0.2"),
        ("router", "10.8.0.1", "home", "10.8.0.2"),
        ("home", "10.7.0.1", "member", "10.7.0.2"),
        ("hub", "10.9.1.1", "labrouter", "10.9.1.2"),
        ("labrouter", "10.6.0.1", "lab", "10.6.0.2"),
    ),
    outer={"router": "10.9.0.2", "home": "10.8.0.2", "labrouter": "10.9.1.2"},
    gateways={
        "member": "10.7.0.1",
        "home": "10.8.0.1",
        "lab": "10.6.0.1",
        "router": "10.9.0.1",
        "labrouter": "10.9.1.1",
    },
)
TTL_S = 8
"""Of leases after the hub was started again."""


@pytest.fixture
def net() -> Iterator[Net]:
    require_namespaces()
    found = Net(TOPOLOGY)
    try:
        found.open()
        yield found
    finally:
        found.close()


def enrolled_folder(folder: Path, store: Store, address: str, name: str, kind: str) -> Membership:
    """A folder that the hub has approved before it dials for the first time."""
    found = Membership(folder / name, HubAddress.parse(address), name, kind)
    found.save()
    row = (found.key.id, name, kind, found.key.public, "approved", 1.0)
    with store.transaction() as database:
        database.execute(
            "INSERT INTO members (id, name, kind, public_key, state, requested_s) VALUES (?, ?, ?, ?, ?, ?)", row
        )
    return found


def valid_agents(laboratory: Membership) -> list[str]:
    """The agents of leases that the laboratory's engine accepts."""
    found = json.loads((laboratory.folder / "engine" / "nerves-credentials.json").read_text())
    names = [each["name"] for each in found["agents"] if not each["revoked_utc"]]
    return [name for name in names if name.startswith("grid-") and "watch" not in name]


async def again(net: Net, hub: subprocess.Popen[str], folder: Path, words: list[str]) -> subprocess.Popen[str]:
    """Kill the hub and start it again; return when it serves."""
    hub.kill()
    await asyncio.to_thread(hub.wait)
    address = folder / "hub" / "address.txt"
    address.unlink()
    started = net.start("hub", *words, stdout=subprocess.DEVNULL)
    await until(address.exists)
    return started


async def says(agent: subprocess.Popen[str]) -> Any:
    assert agent.stdout is not None
    return json.loads(await asyncio.to_thread(agent.stdout.readline))


@pytest.mark.long
@pytest.mark.within_s(400)  # a minute on a machine without other work; each step has a limit of its own
async def test_X2_X5_X8_tissue_through_double_nat_with_all_that_goes_wrong(tmp_path: Path, net: Net) -> None:
    """A new address, a killed hub, a stopped holder, and at last no hub."""
    rules = policy_file(tmp_path, leases={"ttl_s": 60})
    processes: list[subprocess.Popen[str]] = []
    words = ["choroid", "grid", "hub", "run", "--data", str(tmp_path / "hub"), "--policy", str(rules), "--no-grading"]
    words += ["--host", EVERYWHERE]
    opened = contextlib.ExitStack()
    hub = net.start("hub", *words, stdout=subprocess.DEVNULL)
    processes.append(hub)
    try:
        await until((tmp_path / "hub" / "address.txt").exists)
        address = (tmp_path / "hub" / "address.txt").read_text().strip()
        seen = {name: address.replace(EVERYWHERE, ip) for name, ip in (("alpha", "10.9.0.1"), ("lab", "10.9.1.1"))}
        store = opened.enter_context(contextlib.closing(owned(tmp_path / "hub")))
        member = enrolled_folder(tmp_path, store, seen["alpha"], "alpha", "member")
        laboratory = enrolled_folder(tmp_path, store, seen["lab"], "lab", "lab")
        lab = net.start("lab", "tests.grid.lab_process", str(laboratory.folder), stdout=subprocess.DEVNULL)
        processes.append(lab)
        joined = ("choroid", "grid", "join", "--data", str(member.folder))
        processes.append(net.start("member", *joined, stdout=subprocess.DEVNULL))
        known = Members(store)

        def leases() -> list[tuple[str, int]]:
            return [tuple(row) for row in store.query("SELECT state, fence FROM leases ORDER BY requested_s")]

        await until(lambda: "agent_host" in known.standing(member.key.id).roles, 90)
        await until(lambda: store.query("SELECT 1 FROM tissues"), 60)
        piped: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        agent = net.start("member", "tests.grid.agent_process", str(member.folder), "3", **piped)
        processes.append(agent)
        first = await says(agent)
        assert first["pulse"] == "delivered", first
        where = ("ip", "-n", net.of("member"))
        run(*where, "addr", "flush", "dev", device("10.7.0.2"))
        run(*where, "addr", "add", "10.7.0.99/24", "dev", device("10.7.0.2"))
        run(*where, "route", "add", "default", "via", "10.7.0.1")
        renewed = store.query("SELECT expires_s FROM leases")[0][0]
        await until(lambda: store.query("SELECT expires_s FROM leases")[0][0] > renewed, 55)
        assert leases() == [("active", first["grid_fence"])]

        hub = await again(net, hub, tmp_path, words)
        processes.append(hub)
        renewed = store.query("SELECT expires_s FROM leases")[0][0]
        await until(lambda: store.query("SELECT expires_s FROM leases")[0][0] > renewed, 55)
        assert leases() == [("active", first["grid_fence"])]

        agent.kill()
        policy_file(tmp_path, leases={"ttl_s": TTL_S})
        hub = await again(net, hub, tmp_path, words)
        processes.append(hub)
        second = net.start("member", "tests.grid.agent_process", str(member.folder), "4", **piped)
        processes.append(second)
        assert (await says(second))["pulse"] == "delivered"
        assert len(valid_agents(laboratory)) >= 1
        second.send_signal(signal.SIGSTOP)
        await until(lambda: leases()[1][0] == "ended")
        await until(lambda: valid_agents(laboratory) == [])
        second.send_signal(signal.SIGCONT)
        assert second.stdin is not None
        second.stdin.write("again\n")
        second.stdin.flush()
        assert "delivered" not in str(await says(second))

        piped["stderr"] = subprocess.DEVNULL
        third = net.start("member", "tests.grid.agent_process", str(member.folder), "5", **piped)
        processes.append(third)
        assert (await says(third))["pulse"] == "delivered"
        hub.kill()
        await until(lambda: valid_agents(laboratory) == [], 30)
        assert lab.poll() is None
    finally:
        opened.close()
        for process in reversed(processes):
            process.kill()
            process.communicate()
