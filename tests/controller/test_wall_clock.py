"""A step of the wall clock leaves a row and an alarm; slewing and a suspend are no steps."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from controller.core.clock import Clock
from controller.process.controller import Controller
from controller.process.core import Storage
from controller.process.wall_clock import ALARM, ROW, WallClockWatch
from sim.lab import SimulatedLab
from tests.sim.faults.bench import RIG

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class SteppedClock(Clock):
    """Virtual UTC that a test can step, and a computer that it can suspend."""

    def __init__(self, step_s: float = 0.0) -> None:
        super().__init__(follow_system=False, epoch=EPOCH)
        self.step_s = step_s
        self.suspended_s = 0.0

    def utc_us(self) -> int:
        return super().utc_us() + round((self.step_s + self.suspended_s) * 1e6)

    def passed_s(self) -> float:
        return super().passed_s() + self.suspended_s


class Told:
    def __init__(self) -> None:
        self.rows: list[Mapping[str, Any]] = []
        self.alarms: list[str] = []

    def watch(self, clock: Clock) -> WallClockWatch:
        return WallClockWatch(clock, self.row, lambda kind, source, detail: self.alarms.append(detail))

    def row(self, kind: str, body: Mapping[str, Any]) -> None:
        assert kind == ROW
        self.rows.append(body)


@pytest.mark.virtual_time
@pytest.mark.parametrize("step_s", [3600.0, -3600.0, 1.5, -1.5, 1e8])
async def test_E7_a_step_is_told_once_with_its_size(step_s: float) -> None:
    clock, told = SteppedClock(), Told()
    watch = told.watch(clock)
    for at_s in range(1, 601):
        await asyncio.sleep(1.0)
        clock.step_s = step_s if at_s >= 300 else 0.0
        watch.update()
    (row,) = told.rows
    assert row["step_s"] == pytest.approx(step_s, abs=0.01)
    before, after = (datetime.fromisoformat(row[key]) for key in ("before_utc", "after_utc"))
    assert (after - before).total_seconds() == pytest.approx(step_s, abs=0.01)
    assert before == EPOCH.replace(minute=5)
    (said,) = told.alarms
    assert f"{abs(step_s):.1f} s {'forward' if step_s > 0 else 'back'}" in said
    assert "Next: " in said


@pytest.mark.virtual_time
@pytest.mark.parametrize("late_s", [1.0, 30.0])
async def test_E7_slewing_a_late_tick_and_a_suspend_are_no_steps(late_s: float) -> None:
    clock, told = SteppedClock(), Told()
    watch = told.watch(clock)
    for _ in range(5000):
        await asyncio.sleep(late_s)
        clock.step_s += 5e-4 * late_s  # the most that Linux slews
        watch.update()
    clock.suspended_s = 600.0
    watch.update()
    await asyncio.sleep(1.0)
    watch.update()
    assert told.rows == []


@pytest.mark.virtual_time
async def test_E7_many_small_steps_are_told_too() -> None:
    clock, told = SteppedClock(), Told()
    watch = told.watch(clock)
    for _ in range(100):
        await asyncio.sleep(1.0)
        clock.step_s += 0.3
        watch.update()
    assert sum(row["step_s"] for row in told.rows) == pytest.approx(30.0, abs=1.5)


async def test_the_passed_time_of_a_real_clock_includes_a_suspend_and_follows_no_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, told = Clock(follow_system=True), Told()
    assert clock.passed_s() == pytest.approx(time.clock_gettime(time.CLOCK_BOOTTIME), abs=5.0)
    watch = told.watch(clock)
    watch.update()
    assert told.rows == []
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() - 7_200_000_000_000)
    watch.update()
    (row,) = told.rows
    assert row["step_s"] == pytest.approx(-7200.0, abs=1.0)


@pytest.mark.virtual_time
async def test_E7_a_running_rig_has_row_and_alarm_and_after_a_restart_a_clock_that_went_back(tmp_path: Path) -> None:
    lab, stop, clock = SimulatedLab(RIG, seed=1), asyncio.Event(), SteppedClock()
    controller = Controller(rig=RIG, opener=lab.opener, storage=Storage(tmp_path), clock=clock)
    await controller.start()
    ticking = asyncio.create_task(controller.run(stop))
    await asyncio.sleep(300.0)
    assert ALARM not in {alarm.kind for alarm in controller.alarms.active()}
    clock.step_s = 5400.0
    await asyncio.sleep(10.0)
    (row,) = controller.journal.entries(kinds=(ROW,))
    assert row.body["step_s"] == pytest.approx(5400.0, abs=0.01)
    assert row.utc.startswith("2026-01-01T01:35:")
    (alarm,) = [each for each in controller.alarms.active() if each.kind == ALARM]
    assert "5400.0 s forward" in alarm.detail
    controller.alarms.acknowledge(alarm.id, "test")
    stop.set()
    await ticking
    await controller.close(leave_running=True)

    again = Controller(rig=RIG, opener=lab.opener, storage=Storage(tmp_path), clock=SteppedClock(-3600.0))
    await again.start()
    last = [row.body for row in again.journal.entries(kinds=(ROW,))][-1]
    assert last["step_s"] < -3600.0
    (alarm,) = [each for each in again.alarms.active() if each.kind == ALARM]
    assert "back while no controller ran" in alarm.detail
    await again.close()
    await lab.close()
