"""Manual tasks: due, overdue, confirmed, over restarts and daylight saving; with the technician, the API and a plate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest
import yaml

from choroid.simulation.simulate import Watch, simulate
from controller.core.clock import Clock
from controller.journal.journal import Journal
from controller.rig.description import Rig, UpkeepSpec
from controller.rig.loading import effective_hash, load_rig
from controller.rig.upkeep import ManualTask
from controller.upkeep.upkeep import Upkeep, UpkeepError
from dashboards.auth import Role
from drivers.registry import MODELS
from tests.dashboards.world import world
from tests.execution.world import RIG

HOUR_S = 3600.0
EPOCH = datetime(2026, 3, 27, 6, tzinfo=UTC)
"""A Friday; on the Sunday after it the clocks in Berlin go forward."""
FEED = ManualTask.model_validate(
    {"text": "change half of the medium", "every": "48 h", "grace": "2 h", "feeds": ["loop"]}
)
MORNING = ManualTask.model_validate({"text": "feed", "at": "09:00", "days": ["mon", "wed", "fri"], "grace": "1 h"})


def with_tasks(**tasks: ManualTask) -> Rig:
    return RIG.model_copy(update={"upkeep": UpkeepSpec(tasks=tasks), "time_zone": "Europe/Berlin"})


@asynccontextmanager
async def kept(data: Path, rig: Rig, epoch: datetime = EPOCH) -> AsyncIterator[tuple[Upkeep, Journal]]:
    clock = Clock(follow_system=False, epoch=epoch)
    journal = Journal(data / "journal.db", clock, durable=False)
    try:
        yield Upkeep(rig, journal=journal, clock=clock, data=data), journal
    finally:
        journal.close()


async def kinds_after(upkeep: Upkeep, hours: float) -> list[str]:
    await asyncio.sleep(hours * HOUR_S)
    upkeep.update({}, lambda _: None)
    return [kind for kind, _ in upkeep.causes]


@pytest.mark.virtual_time
async def test_a_task_is_due_then_overdue_until_a_person_confirms_it(tmp_path: Path) -> None:
    async with kept(tmp_path, with_tasks(feed=FEED)) as (upkeep, journal):
        assert await kinds_after(upkeep, 47.9) == []
        assert await kinds_after(upkeep, 0.2) == ["task_due"]
        assert upkeep.causes["task_due", "feed"] == (
            "change half of the medium (loop); due since Sun 2026-03-29 08:00 (Europe/Berlin)"
        )
        assert await kinds_after(upkeep, 2.0) == ["task_overdue"]
        upkeep.confirm("feed", user="anna", note="a little late")
        assert upkeep.causes == {}
        (row,) = journal.entries(kinds=("task.done",))
        assert (row.body["by"], row.body["note"], row.body["feeds"]) == ("anna", "a little late", ["loop"])
        assert await kinds_after(upkeep, 47.9) == []
        assert await kinds_after(upkeep, 0.2) == ["task_due"]
        with pytest.raises(UpkeepError, match="choose among feed"):
            upkeep.confirm("fed", user="anna", note="")


@pytest.mark.virtual_time
async def test_the_time_goes_on_while_no_controller_runs(tmp_path: Path) -> None:
    rig = with_tasks(feed=FEED)
    async with kept(tmp_path, rig) as (upkeep, _):
        await asyncio.sleep(HOUR_S)
        upkeep.confirm("feed", user="anna", note="")
    async with kept(tmp_path, rig, datetime(2026, 3, 29, 6, 59, tzinfo=UTC)) as (upkeep, _):
        assert upkeep.causes == {}
        assert await kinds_after(upkeep, 0.1) == ["task_due"]
        (state,) = upkeep.tasks.states()
        assert (state.done_by, state.since_utc[:16]) == ("anna", "2026-03-27T07:00")
    async with kept(tmp_path, rig, datetime(2026, 3, 31, tzinfo=UTC)) as (upkeep, journal):
        assert list(upkeep.causes) == [("task_overdue", "feed")]
        assert len(list(journal.entries(kinds=("task.opened",)))) == 1


@pytest.mark.virtual_time
async def test_a_local_time_is_kept_over_daylight_saving_and_an_early_confirmation_counts_for_its_day(
    tmp_path: Path,
) -> None:
    async with kept(tmp_path, with_tasks(feed=MORNING)) as (upkeep, _):
        (state,) = upkeep.tasks.states()
        assert state.due_utc == "2026-03-27T08:00:00+00:00"  # 7:00 now
        upkeep.confirm("feed", user="anna", note="")
        (state,) = upkeep.tasks.states()
        assert state.due_utc == "2026-03-30T07:00:00+00:00", "Monday 9:00 in summer time"
        assert state.overdue_utc == "2026-03-30T08:00:00+00:00"
        assert await kinds_after(upkeep, 3 * 24.0) == []  # Monday 8:00
        assert await kinds_after(upkeep, 1.1) == ["task_due"]
        assert await kinds_after(upkeep, 1.0) == ["task_overdue"]
        assert (state.spec.longest_s, FEED.longest_s) == ((3 * 24 + 9 + 1 + 1) * HOUR_S, 50 * HOUR_S)


@pytest.mark.virtual_time
async def test_an_operator_confirms_over_the_api_and_a_viewer_may_not() -> None:
    async with world() as w:
        journal = cast(Journal, w.controller.journal)
        w.controller.upkeep = Upkeep(
            with_tasks(feed=FEED), journal=journal, clock=w.controller.clock, data=Path("no-such-folder")
        )
        async with w.http(Role.VIEWER) as viewer:
            (task,) = (await viewer.get("/api/tasks")).json()["tasks"]
            assert (task["name"], task["done_utc"], task["feeds"]) == ("feed", None, ["loop"])
            assert (await viewer.post("/api/tasks/feed/done", json={})).status_code == 403
        async with w.http(Role.OPERATOR) as operator:
            (task,) = (await operator.post("/api/tasks/feed/done", json={"reason": "new pipette"})).json()["tasks"]
            assert task["done_by"]
            assert task["done_utc"]
            assert (await operator.post("/api/tasks/none/done", json={})).status_code == 422


def plate(folder: Path, **upkeep: object) -> Path:
    rigs = Path(__file__).resolve().parents[1] / "rigs"
    data = yaml.safe_load((rigs / "r01_plate_by_hand.yaml").read_text(encoding="utf-8"))
    path = folder / "rig.yaml"
    path.write_text(yaml.safe_dump(data | upkeep), encoding="utf-8")
    return path


def test_a_plate_stands_for_its_wells_and_a_rig_without_tasks_keeps_its_hash(tmp_path: Path) -> None:
    without = load_rig(plate(tmp_path), models=MODELS)
    assert effective_hash(load_rig(plate(tmp_path, upkeep={"tasks": {}}), models=MODELS)) == effective_hash(without)
    task = {"text": "feed each well", "every": "12 h", "feeds": ["plate"]}
    rig = load_rig(plate(tmp_path, upkeep={"tasks": {"feed": task}}), models=MODELS)
    assert rig.upkeep.tasks["feed"].feeds == tuple(rig.tissue)
    assert effective_hash(rig) != effective_hash(without)


@pytest.mark.long
def test_the_technician_comes_for_a_task_that_is_due_and_renews_the_medium(tmp_path: Path) -> None:
    task = {"text": "feed each well", "every": "6 h", "grace": "90 min", "feeds": ["plate"]}
    path = plate(tmp_path, upkeep={"tasks": {"feed": task}}, safety={})
    lactate_mm: list[float] = []
    watch: Watch = lambda _, lab, __: lactate_mm.append(lab.plant.truth().concentrations["plate-B2"]["lactate"])  # noqa: E731
    answer = simulate(path, days=0.6, seed=2, tended=True, watch=watch)
    assert [each["what"] for each in answer["tended"]] == ["did feed: feed each well"] * 2
    rises = [after > before for before, after in pairwise(lactate_mm)]
    assert rises.count(False) == 2, lactate_mm
