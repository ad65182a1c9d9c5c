"""The control loop's lag is measured, and beyond its budget it is an alarm (R1)."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from controller.process.load import LAG_BUDGET_S, MIN_TICKS, TICKS, ProcessLoad
from tests.controller.test_life import alarms, living

pytestmark = pytest.mark.virtual_time


async def test_R1_the_lag_that_99_percent_of_ticks_keep_is_judged_over_ten_minutes() -> None:
    load = ProcessLoad()
    for number in range(MIN_TICKS - 1):
        load.ticked(1.0)
        assert load.p99_s == 0.0, f"{number + 1} ticks say nothing about one in a hundred"
    load.ticked(-0.5)
    assert load.p99_s == 1.0
    assert load.problem is not None
    for _ in range(TICKS):
        load.ticked(LAG_BUDGET_S)
    assert load.p99_s == LAG_BUDGET_S
    assert load.problem is None
    for _ in range(TICKS // 100):
        load.ticked(0.9)
    assert load.problem is None, "one tick in a hundred may be late"
    load.ticked(0.9)
    assert load.problem is not None


async def test_R1_a_loop_that_lags_beyond_its_budget_raises_an_alarm_that_ends_with_the_lag(tmp_path: Path) -> None:
    async with living(tmp_path) as (controller, _):
        assert "slow_loop:controller" not in alarms(controller)
        for _ in range(TICKS):
            controller.load.ticked(2.0 * LAG_BUDGET_S)
        await asyncio.sleep(15.0)
        assert "slow_loop:controller" in alarms(controller)
        figures = controller.load.figures()
        assert figures.lag_p99_ms == pytest.approx(2000.0 * LAG_BUDGET_S)
        assert figures.tasks > 3
        assert (figures.descriptors or 0) > 3
        assert (figures.rss_mb or 0.0) > 10.0
        for _ in range(TICKS):
            controller.load.ticked(0.0)
        await asyncio.sleep(45.0)
        active = {alarm.id: alarm.state.value for alarm in controller.alarms.active()}
        assert "slow_loop:controller" not in active or "return" in active["slow_loop:controller"], active


def test_the_short_cut_for_a_loop_in_time_says_what_the_percentile_says() -> None:
    """Whether any tick was late is counted; the count must follow the window of ten minutes."""
    load, late = ProcessLoad(), random.Random(3)
    for tick in range(4 * TICKS):
        share = 0.05 if tick < 2 * TICKS else 0.0
        load.ticked(0.4 if late.random() < share else 0.01)
        assert (load.problem is not None) == (load.p99_s > LAG_BUDGET_S)
    assert load.problem is None
