"""X8: what waits for hub, laboratory and lease: without a limit, with growing pauses, and it says what it waits for."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from choroid.client.errors import NervesError
from grid.errors import GridError, GridRefused, LeaseEnded
from grid.member import waiting


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
