"""What is usual for an organoid: hour by hour in the journal, and the same after a restart."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from controller.core.clock import Clock
from controller.journal.journal import Journal
from controller.vitals.rolling_baseline import ROW, SPREAD_WARM_UP_H, RollingBaseline

EPOCH = datetime(2026, 1, 1, 0, 30, tzinfo=UTC)
pytestmark = pytest.mark.virtual_time


async def live(
    usual: RollingBaseline, hours: float, hz: float, ph: tuple[float, float] = (7.30, 7.40), why: str = ""
) -> None:
    for minute in range(round(hours * 60)):
        await asyncio.sleep(60.0)
        if why:
            usual.disturbed(why)
        usual.turn()
        usual.note("firing_hz", hz)
        usual.spread("ph", ph[minute % 2])


def opened(folder: Path, later_h: float = 0.0) -> tuple[Journal, Clock]:
    clock = Clock(follow_system=False, epoch=EPOCH + timedelta(hours=later_h))
    return Journal(folder / "journal.db", clock, durable=False), clock


async def test_a_norm_after_the_warm_up_and_the_same_after_a_restart(tmp_path: Path) -> None:
    journal, clock = opened(tmp_path)
    usual = RollingBaseline(journal, clock)
    await live(usual, 3.0, 4.0)
    assert usual.norms() == {}
    assert usual.spread("ph", 7.35) is None
    await live(usual, 9.0, 4.2)
    before, spread = usual.norms(), usual.spread("ph", None)
    assert before["firing_hz"].value == pytest.approx(4.2)
    assert spread == pytest.approx(0.10)
    journal.close()

    journal, clock = opened(tmp_path, later_h=12.0)
    again = RollingBaseline(journal, clock)
    assert again.norms() == before
    assert again.spread("ph", 7.35) == pytest.approx(spread)
    assert again.note("firing_hz", 4.2) is not None
    journal.close()


async def test_hours_with_an_alarm_are_left_out_and_say_why(tmp_path: Path) -> None:
    journal, clock = opened(tmp_path)
    usual = RollingBaseline(journal, clock)
    await live(usual, 8.0, 4.0)
    await live(usual, 3.0, 3.0, why="no_heart_flow reglo.heart")
    await live(usual, 2.0, 1.0)
    left_out = [row.body["left_out"].get("firing_hz", "") for row in journal.entries(kinds=(ROW,))]
    assert sum(why == "no_heart_flow reglo.heart" for why in left_out) >= 3
    assert "under 50 % of the norm" in " ".join(left_out).replace("%", " %").replace("  ", " ")
    assert usual.norms()["firing_hz"].value == pytest.approx(4.0)
    journal.close()


async def test_a_spread_forgets_after_a_day(tmp_path: Path) -> None:
    journal, clock = opened(tmp_path)
    usual = RollingBaseline(journal, clock)
    await live(usual, SPREAD_WARM_UP_H + 1, 4.0, (7.0, 7.6))
    assert usual.spread("ph", None) == pytest.approx(0.6)
    await live(usual, 25.0, 4.0)
    assert usual.spread("ph", None) == pytest.approx(0.1)
    journal.close()


async def test_E7_a_clock_set_back_makes_no_second_hour_of_one_name(tmp_path: Path) -> None:
    journal, clock = opened(tmp_path)
    usual = RollingBaseline(journal, clock)
    await live(usual, 2.0, 4.0)
    clock._epoch_us = (clock._epoch_us or 0) - 3 * 3_600_000_000
    await live(usual, 2.0, 4.0)
    hours = [row.body["hour"] for row in journal.entries(kinds=(ROW,))]
    assert len(hours) == len(set(hours)) == 2
    journal.close()
