"""A hub, members and laboratories in the test's own process, on loopback, with small measurements."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import yaml

from grid.hub.hub import Hub, HubSettings, running_hub
from grid.member.daemon import MemberDaemon, enrolled
from grid.member.membership import HubAddress, Membership

LOW = {"core_hash_hz": 1.0, "gemm_flop_s": 1.0, "memory_bytes_s": 1.0, "memory_bytes": 1.0}
RULES: dict[str, Any] = {
    "version": 1,
    "software": {"choroid": ["0."], "python": ["3."]},
    "recheck_s": 3600,
    "retry_s": [0, 0],
    "min_share": 0.7,
    "max_spread": 0.15,
    "roles": {
        "compute": [{"figure": name, "min": least} for name, least in LOW.items()],
        "agent_host": [{"figure": "round_trip_s", "max": 30}, {"figure": "core_hash_hz", "min": 1}],
        "storage": [{"figure": "disk_write_bytes_s", "min": 1}],
        "relay": [{"figure": "uplink_bit_s", "min": 1}],
        "gpu": [{"figure": "gpus", "min": 1}],
    },
    "leases": {
        "ttl_s": 15,
        "max_duration_s": 3600,
        "max_queued": 4,
        "stimulation_s_day": 28_800,
        "charge_nc_day": 1e6,
        "rest_s_day": 28_800,
        "nc_s": 50,
        "pulses_min": 6000,
    },
    "enrolment": {},
    "challenges": {
        "hash_iterations": 3200,
        "gemm_size": 64,
        "gemm_count": 2,
        "memory_bytes": 1 << 20,
        "disk_bytes": 1 << 20,
        "link_bytes": 1 << 14,
        "round_trips": 2,
    },
}


def policy_file(folder: Path, **changes: Any) -> Path:
    """Write the rules with changes of whole sections' entries."""
    rules = {key: dict(value) if isinstance(value, dict) else value for key, value in RULES.items()}
    for key, value in changes.items():
        rules[key] = {**rules[key], **value} if isinstance(value, dict) else value
    path = folder / "policy.yaml"
    path.write_text(yaml.safe_dump(rules))
    return path


@contextlib.asynccontextmanager
async def a_hub(folder: Path, *, rules: dict[str, Any] | None = None, **more: Any) -> AsyncIterator[Hub]:
    folder.mkdir(exist_ok=True)
    settings = HubSettings(folder / "hub", **{"policy": policy_file(folder, **(rules or {})), "grading": False, **more})
    async with running_hub(settings) as hub:
        hub.store.database.execute("PRAGMA synchronous = OFF")
        yield hub


def membership(folder: Path, hub: Hub, name: str, kind: str = "member", **more: Any) -> Membership:
    return Membership(folder / name, HubAddress.parse(hub.address), name, kind, **more)


async def approved(folder: Path, hub: Hub, name: str, kind: str = "member") -> Membership:
    """Enrol and approve."""
    found = membership(folder, hub, name, kind)
    found.save()
    await found.enrol()
    hub.members.decide(name, "approve", "test")
    await enrolled(found, lambda _: None)
    return found


@contextlib.asynccontextmanager
async def running(work: Awaitable[Any]) -> AsyncIterator[asyncio.Task[Any]]:
    """Run a coroutine while the block lasts."""
    task = asyncio.ensure_future(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@contextlib.asynccontextmanager
async def a_member(folder: Path, hub: Hub, name: str) -> AsyncIterator[MemberDaemon]:
    """An approved member that was measured."""
    daemon = MemberDaemon(await approved(folder, hub, name))
    async with running(daemon.run()):
        await until(lambda: bool(daemon.standing.roles))
        yield daemon


def free_ports() -> list[str]:
    """Return two ports of this machine that are free at present."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        return [str(each.getsockname()[1]) for each in (one, two)]


async def until(true: Callable[[], Any], within_s: float = 60.0) -> None:
    """Wait until something is true."""
    async with asyncio.timeout(within_s):
        while not true():
            await asyncio.sleep(0.02)
