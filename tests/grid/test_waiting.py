"""X8: what waits for hub, laboratory and lease: without a limit, with growing pauses, and it says what it waits for."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from choroid.client.errors import NervesError
from grid.errors import GridError, GridRefused, LeaseEnded
from grid.member import waiting
from grid.member.tissue import GridClient, TissueLease
from grid.wire import grid_pb2 as pb
from tests.grid.test_clock_jumps import a_client, a_stand_in_lab
from tests.grid.world import a_hub, running, until


@pytest.mark.virtual_time
async def test_X8_it_waits_for_days_and_says_each_reason_once() -> None:
    said: list[str] = []
    loop = asyncio.get_running_loop()
    tries: list[float] = []
    passing = [GridError("the hub is away"), LeaseEnded("no lease: revoked"), NervesError("the engine did not answer")]

    async def attempt() -> str:
        tries.append(loop.time())
        if loop.time() < 3 * 86_400:
            raise passing[int(loop.time() // 86_400)]
        return "done"

    assert await waiting.patiently(attempt, said.append) == "done"
    assert said == [f"waiting: {each}" for each in passing]
    pauses = [b - a for a, b in pairwise(tries)]
    assert 0.25 <= pauses[0] <= 0.75
    assert max(pauses) <= 1.5 * waiting.LONGEST_PAUSE_S
    assert min(pauses[7:]) >= 0.5 * waiting.LONGEST_PAUSE_S


@pytest.mark.virtual_time
async def test_what_time_does_not_change_ends_the_wait() -> None:
    async def attempt() -> None:
        raise GridRefused("this identity was revoked")

    with pytest.raises(GridRefused, match="revoked"):
        await waiting.patiently(attempt, print)


@pytest.mark.virtual_time
async def test_X8_heartbeats_go_on_after_a_time_without_a_valid_certificate() -> None:
    loop = asyncio.get_running_loop()
    beats: list[float] = []

    async def renewed(request: pb.RenewRequest, timeout: float) -> pb.LeasesReply:
        beats.append(loop.time())
        return pb.LeasesReply(leases=[pb.LeaseInfo(lease="l1", state=pb.LeaseInfo.QUEUED)])

    async def done(*_: Any) -> None:
        """Succeed."""

    class Client:
        reconnect = done
        again = GridClient.again
        membership = SimpleNamespace(require_certificate=done)

        @property
        def stub(self) -> Any:
            if loop.time() < 60.0:
                raise GridError("the certificate of alpha expired")
            return SimpleNamespace(RenewLeases=renewed)

    held = TissueLease(Client(), pb.LeaseInfo(lease="l1", state=pb.LeaseInfo.QUEUED))  # type: ignore[arg-type]
    async with running(held.beat()):
        await asyncio.sleep(70.0)
    assert 60.0 <= beats[0] < 61.0


async def test_X8_a_request_that_waits_without_a_limit_ends_when_the_member_is_revoked(tmp_path: Path) -> None:
    async with a_hub(tmp_path) as hub, a_client(tmp_path, hub, "alpha") as alpha:
        async with a_stand_in_lab(tmp_path, hub):
            """It has offered its tissue, and is then not there to answer."""
        said: list[str] = []

        async def held() -> None:
            async with alpha.lease("lab", "o1", purpose="test", wait_s=None, on_wait=said.append):
                pytest.fail("it was granted")

        async with running(held()) as waits:
            await until(lambda: said)
            hub.members.decide("alpha", "revoke", "operator", "lost key")
            with pytest.raises(LeaseEnded, match="not approved, or was revoked"):
                await asyncio.wait_for(waits, 30)
