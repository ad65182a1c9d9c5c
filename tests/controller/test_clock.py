"""The one clock: UTC in text and as a date are the same moment, and follow the loop in virtual time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.clock import Clock
from sim.virtual_time import run_virtual


@given(
    epoch=st.integers(0, 7_000_000_000_000_000).map(
        lambda us: datetime(1971, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)
    ),
    waits_s=st.lists(st.floats(0.0, 200.0), max_size=20),
)
def test_text_and_date_are_the_same_moment(epoch: datetime, waits_s: list[float]) -> None:
    async def main() -> None:
        clock = Clock(follow_system=False, epoch=epoch)
        for wait_s in waits_s:
            await asyncio.sleep(wait_s)
            assert clock.utc_text() == clock.utc().isoformat(timespec="milliseconds").replace("+00:00", "Z")

    run_virtual(main())


@pytest.mark.virtual_time
async def test_virtual_utc_counts_from_its_epoch() -> None:
    epoch = datetime(2026, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    clock = Clock(follow_system=False, epoch=epoch)
    assert clock.utc_text() == "2026-12-31T23:59:59.999Z"
    await asyncio.sleep(0.001)
    assert clock.utc_text() == "2027-01-01T00:00:00.000Z"
    await asyncio.sleep(86_400.0)
    assert clock.utc() == epoch + timedelta(days=1, milliseconds=1)


async def test_real_utc_is_the_systems() -> None:
    before = datetime.now(UTC)
    clock = Clock(follow_system=True)
    now = clock.utc()
    assert before - timedelta(seconds=1) <= now <= datetime.now(UTC) + timedelta(seconds=1)
    assert abs(datetime.fromisoformat(clock.utc_text()) - now) < timedelta(seconds=5)
    with pytest.raises(ValueError, match="epoch"):
        Clock(follow_system=False)
