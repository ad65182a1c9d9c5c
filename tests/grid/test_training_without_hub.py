"""A training job while the hub is away, and when a relay is killed: hub as a process, relays and members here."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from grid.commands import job as commands
from grid.jobs.code import allow
from grid.jobs.folder import job_folder, pinned
from grid.jobs.manifest import JobManifest, read_job
from grid.jobs.member import TrainingMember
from grid.member import waiting
from grid.member.membership import Membership
from grid.policy.policy import WorkLimits
from grid.work.relay import RelayDaemon
from tests.grid.addresses import loopback_bases
from tests.grid.ranks import PACKAGES
from tests.grid.test_faults import HubProcess
from tests.grid.test_training_over_hub import NAMES, data_set, manifest, shared
from tests.grid.training_environment import torch_python
from tests.grid.world import policy_file, running, until

ABSENT_S = float(os.environ.get("CHOROID_GRID_ABSENT_S", "20"))
"""How long the hub is away; 600 for the ten minutes of the acceptance test."""
TEN_MINUTES_S = 600.0
HEARTBEAT_S = 60.0
"""Longest time from one heartbeat of a lease to the next, with which this test counts."""
STEP = '{"event": "step"'
RELAYS = ("relay-1", "relay-2")


@contextlib.asynccontextmanager
async def trainers(folder: Path, hub: HubProcess) -> AsyncIterator[dict[str, TrainingMember]]:
    found = {}
    async with contextlib.AsyncExitStack() as opened:
        for name, base in zip(NAMES, opened.enter_context(loopback_bases(len(NAMES))), strict=True):
            found[name] = TrainingMember(await hub.enrol(folder, name, "member"), base=base)
            await opened.enter_async_context(running(found[name].run()))
        await until(lambda: all(each.standing.roles for each in found.values()), 120)
        yield found


@contextlib.asynccontextmanager
async def a_relay(folder: Path, name: str) -> AsyncIterator[asyncio.Task[None]]:
    """A relay, which ends when its task is cancelled."""
    daemon = RelayDaemon(Membership.load(folder / name))
    await daemon.open("127.0.0.1", 0)
    async with running(daemon.run()) as task:
        await until(lambda: any(each.role == "relay" and each.granted for each in daemon.standing.roles), 120)
        yield task


def prepared(folder: Path) -> JobManifest:
    """Give all members data and code; return the job, which does not end by itself."""
    alpha, *others = (folder / name for name in NAMES)
    train, test = data_set(alpha, "train", 2000, 1), data_set(alpha, "test", 300, 2)
    for which in (train, test):
        shared(alpha, others, which)
    codes = {allow(folder / name, PACKAGES / "rows") for name in NAMES}
    file = manifest(folder, train, test, codes.pop())
    file.write_text(file.read_text().replace("outer_steps: 6", "outer_steps: 1000000"))
    return pinned(alpha, read_job(file))


@pytest.mark.long
@pytest.mark.within_s(1200 + ABSENT_S)
async def test_G8_training_goes_on_while_the_hub_is_away_and_when_a_relay_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHOROID_TORCH", str(await asyncio.to_thread(torch_python)))
    monkeypatch.setattr(waiting, "LONGEST_PAUSE_S", 1.0)  # test_nat.py has the real pauses
    loop, ttl_s = asyncio.get_running_loop(), WorkLimits().ttl_s
    hub = await asyncio.to_thread(HubProcess, tmp_path / "hub", policy_file(tmp_path))
    try:
        async with contextlib.AsyncExitStack() as opened, trainers(tmp_path, hub) as members:
            for name in RELAYS:
                await hub.enrol(tmp_path, name, "member")
            relay = {name: await opened.enter_async_context(a_relay(tmp_path, name)) for name in RELAYS}
            job = prepared(tmp_path)

            def outer(name: str = "alpha") -> int:
                logs = job_folder(tmp_path / name, job).glob("rank-*/events.jsonl")
                lines = [line for log in logs for line in log.read_text().splitlines() if line.startswith(STEP)]
                return max((json.loads(line)["outer"] for line in lines[-2:]), default=0)

            def left_s() -> float:
                return min(each._until for each in members.values()) - loop.time()

            async def three_more() -> float:
                """Return how long three outer steps take at all members (s)."""
                before, begin_s = outer(), loop.time()
                await until(lambda: min(map(outer, NAMES)) >= before + 3, 300)
                return loop.time() - begin_s

            submitted = asyncio.create_task(commands._held(tmp_path / "alpha", job, NAMES, print))
            await until(lambda: submitted.done() or min(map(outer, NAMES)) >= 3, 600)
            assert not submitted.done(), submitted

            hub.kill()
            before, begin_s = outer(), loop.time()
            await asyncio.sleep(ABSENT_S)
            trained, remains_s, away_s = outer() - before, left_s(), loop.time() - begin_s
            print(f"{away_s:.0f} s without the hub: {trained} outer steps; the lease lives for {remains_s:.0f} s more")
            assert trained >= 3
            assert remains_s >= ttl_s - away_s - HEARTBEAT_S
            assert ttl_s - TEN_MINUTES_S - HEARTBEAT_S > 0, "ten minutes are not longer than a lease lives"
            await asyncio.to_thread(hub.start)
            await until(lambda: all(each.link.connected.is_set() for each in members.values()), 120)

            for name in RELAYS:  # one of them has the tunnels
                relay[name].cancel()
                await asyncio.gather(relay[name], return_exceptions=True)
                took_s = await three_more()
                print(f"{name} killed: three outer steps later after {took_s:.1f} s")
                await opened.enter_async_context(a_relay(tmp_path, name))

            submitted.cancel()
            await asyncio.gather(submitted, return_exceptions=True)
            await until(lambda: all(each.lease is None for each in members.values()), 60)
    finally:
        hub.kill()
