"""Weekdays, excluded dates and quiet hours: daylight saving, clock steps, restarts, and the dates of a plan."""

from __future__ import annotations

import asyncio
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from choroid.simulation.plan import as_text, plan
from controller.core.run_states import RunState
from controller.steps.schedule import longest_s, next_time
from protocols.calendar import DAYS, Calendar
from protocols.registry import Recipe
from tests.execution.test_recipes import SLOW_S, recipe_of, turns_at
from tests.execution.world import BENCH, Controller, World

BERLIN = "Europe/Berlin"


def wanted(
    at: str, *, zone: str = BERLIN, after: str | None = None, without: Any = None, **calendar: Any
) -> dict[str, Any]:
    excluded = {} if without is None else {"except": without}
    return {"at": at, "zone": zone, "after": after, **excluded, **calendar}


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "args", "due"),
    [
        (
            "2026-03-27T12:00",
            wanted("09:00", days=["mon", "wed", "fri"]),
            "2026-03-30T07:00",
        ),  # over the change to CEST
        ("2026-10-23T12:00", wanted("09:00", days=["mon", "wed", "fri"]), "2026-10-26T08:00"),  # and back to CET
        (
            "2026-12-23T12:00",
            wanted("09:00", days=["fri"], without=["2026-12-25", "2027-01-01"]),
            "2027-01-08T08:00",
        ),
        ("2026-03-27T08:00", wanted("09:00", days=["fri"]), "2026-03-27T08:00"),
        ("2026-03-27T08:00", wanted("09:00", days=["fri"], after="2026-03-27T08:00:00+00:00"), "2026-04-03T07:00"),
        ("2026-01-05T22:30", wanted("", quiet=["20:00", "07:00"]), "2026-01-06T06:00"),
        ("2026-01-06T03:00", wanted("", quiet=["20:00", "07:00"]), "2026-01-06T06:00"),
        ("2026-01-06T06:00", wanted("", quiet=["20:00", "07:00"]), "2026-01-06T06:00"),
        ("2026-01-06T12:00", wanted("", quiet=["20:00", "07:00"]), "2026-01-06T12:00"),
        ("2026-01-06T11:30", wanted("", quiet=["12:00", "14:00"]), "2026-01-06T13:00"),
        ("2026-01-09T19:30", wanted("", quiet=["20:00", "07:00"], days=list(DAYS[:5])), "2026-01-12T06:00"),
        ("2026-03-28T23:30", wanted("", quiet=["20:00", "07:00"]), "2026-03-29T05:00"),  # a night of six hours
        ("2026-10-25T00:10", wanted("", quiet=["02:00", "02:30"]), "2026-10-25T01:30"),  # 02:30 comes twice
    ],
)
def test_E7_the_next_time_of_a_calendar(now: str, args: dict[str, Any], due: str) -> None:
    assert next_time(utc(now), args) == utc(due)


@given(
    st.dates(date(2026, 1, 1), date(2028, 1, 1)),
    st.times(),
    st.sampled_from([BERLIN, "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "UTC"]),
    st.sets(st.sampled_from(DAYS), min_size=1),
    st.sets(st.integers(0, 60), max_size=5),
    st.sampled_from(["", "00:00", "02:30", "09:00", "23:59"]),
    st.sampled_from([("20:00", "07:00"), ("01:00", "02:30"), ("12:00", "14:00")]),
)
def test_E7_a_wait_ends_on_a_day_that_counts_and_within_its_bound(
    day: date, clock: time, zone: str, days: set[str], without: set[int], at: str, quiet: tuple[str, str]
) -> None:
    now = datetime.combine(day, clock, tzinfo=UTC)
    excluded = sorted((now + timedelta(days=n)).date().isoformat() for n in without)
    calendar = Calendar(tuple(day for day in DAYS if day in days), tuple(excluded), None if at else quiet)
    args = {**wanted(at, zone=zone), **calendar.to_json()}
    due = next_time(now, args)
    assert due >= now
    assert calendar.has(due.astimezone(ZoneInfo(zone)).date())
    assert Calendar.from_json(calendar.to_json()) == calendar
    assert (due - now).total_seconds() <= longest_s(due.isoformat(), args)
    if not at:
        assert next_time(due, args) == due, "it is not quiet when it goes on"


def weekly(folder: Path, times: int = 4) -> Recipe:
    return recipe_of(
        folder,
        f"""steps:
  - repeat:
      times: {times}
      daily_at: "09:00"
      zone: {BERLIN}
      days: [mon, wed, fri]
      except: [2026-04-03, 2026-04-06]
      steps:
        - note: {{kind: turn}}
""",
    )


EASTER = ["2026-03-27T08:00", "2026-03-30T07:00", "2026-04-01T07:00", "2026-04-08T07:00"]
"""Mon/Wed/Fri at 09:00 in Berlin; the clocks go forward on 29 March, Good Friday and Easter Monday are excluded."""


@pytest.mark.virtual_time
async def test_E7_three_days_a_week_through_daylight_saving_and_holidays(tmp_path: Path) -> None:
    world = World()
    world.clock_step_s = 84 * 86_400.0 + 12 * 3600.0  # 2026-03-26T12:00Z
    controller = Controller(world, tmp_path / "j.db", tick_s=SLOW_S)
    run = await controller.runs.start(weekly(tmp_path), {}, "anna", "a test")
    assert await turns_at(controller, run) == EASTER
    await controller.gone()


@pytest.mark.virtual_time
async def test_E4_E7_a_restart_within_a_wait_of_a_week_keeps_the_date(tmp_path: Path) -> None:
    """The longest wait is from Wednesday to Wednesday: it is neither cut at a day nor started again."""
    folder = tmp_path / "recipes"
    folder.mkdir()
    weekly(folder)
    world = World()
    world.clock_step_s = 84 * 86_400.0 + 12 * 3600.0
    first = Controller(world, tmp_path / "j.db", catalogue={}, recipes=folder, tick_s=SLOW_S)
    run = await first.runs.start("mine", {}, "anna", "a test")
    await asyncio.sleep(8 * 86_400.0)
    await first.gone()
    await asyncio.sleep(3600.0)
    second = Controller(world, tmp_path / "j.db", catalogue={}, recipes=folder, tick_s=SLOW_S)
    await second.runs.recover()
    assert await turns_at(second, run) == EASTER
    await second.gone()


@pytest.mark.virtual_time
async def test_a_step_waits_for_each_date_once_and_for_the_end_of_quiet_hours(tmp_path: Path) -> None:
    recipe = recipe_of(
        tmp_path,
        """steps:
  - repeat:
      times: 2
      steps:
        - wait_for_clock: {at: "09:00", zone: UTC, days: [sat, sun]}
        - note: {kind: turn}
  - wait: 12 h
  - wait_for_clock: {quiet: "20:00-07:00", zone: UTC, days: [mon, tue]}
  - note: {kind: turn}
  - wait_for_clock: {quiet: "20:00-07:00", zone: UTC}
  - note: {kind: turn}
""",
    )
    controller = Controller(World(), tmp_path / "j.db", tick_s=SLOW_S)  # 2026-01-01 is a Thursday
    run = await controller.runs.start(recipe, {}, "anna", "a test")
    assert await turns_at(controller, run) == [
        "2026-01-03T09:00", "2026-01-04T09:00", "2026-01-05T07:00", "2026-01-05T07:00",
    ]  # fmt: skip
    assert controller.runs.get(run).state is RunState.COMPLETE
    await controller.gone()


@pytest.mark.virtual_time
async def test_a_daily_turn_without_a_calendar_has_the_record_of_the_releases_before(tmp_path: Path) -> None:
    recipe = recipe_of(
        tmp_path, 'steps:\n  - repeat: {times: 1, daily_at: "09:00", zone: UTC, steps: [note: {kind: turn}]}\n'
    )
    controller = Controller(World(), tmp_path / "j.db", tick_s=SLOW_S)
    run = await controller.runs.start(recipe, {}, "anna", "a test")
    await turns_at(controller, run)
    step = next(iter(controller.journal.entries(run=run, kinds=("step",))))
    assert step.body["args"] == {"at": "09:00", "zone": "UTC", "after": None}
    await controller.gone()


def test_a_plan_shows_the_dates(tmp_path: Path) -> None:
    path = tmp_path / "weekly.yaml"
    path.write_text(
        "recipe: 1\nname: weekly\ntitle: A test\nsteps:\n"
        f'  - wait_for_clock: {{at: "09:00", zone: {BERLIN}, days: [thu]}}\n  - gut.feed: 2 mL\n'
    )
    answer = plan(BENCH, protocol=str(path), params={}, hours=1.0, seed=1)
    assert f"wait until Thu 2026-01-01 09:00 ({BERLIN})" in as_text(answer)
    path.write_text(path.read_text().replace("- gut.feed: 2 mL", "- repeat: {times: 9, steps: [gut.feed: 9 mL]}"))
    answer = plan(BENCH, protocol=str(path), params={}, hours=1.0, seed=1)
    assert not answer["feasible"]
    assert f"wait until Thu 2026-01-01 09:00 ({BERLIN})" in as_text(answer)
