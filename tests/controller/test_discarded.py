"""Alarms about discarded data: the count rises, the alarm stands for an hour; doubtful data that are kept raise none."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from controller.alarms.definitions import DEFINITIONS
from controller.core.clock import Clock
from controller.core.discarded import Discarded
from controller.core.state import Reading
from controller.memory import history as history_module
from controller.memory.history import History
from controller.process.parts.discarded import ALARM_FOR_S, DiscardedWatch
from dashboards.auth import Role
from drivers.commands import Quality
from tests.dashboards.world import world


def found(count: int, *, lost: bool = True) -> list[Discarded]:
    return [Discarded("influx", "messages over the quota of the outbox", count, lost)]


def test_Q6_an_alarm_names_the_count_of_what_is_given_up_and_ends_an_hour_after_the_last() -> None:
    watch = DiscardedWatch()
    assert watch.causes(found(7), 0.0) == {}, "these were given up before this start"
    causes = watch.causes(found(9), 10.0)
    assert causes == {("data_discarded", "influx"): "given up so far: 9 messages over the quota of the outbox"}
    assert all(kind in DEFINITIONS for kind, _ in causes)
    assert watch.causes(found(9), 10.0 + ALARM_FOR_S - 1.0)
    assert watch.causes(found(10), 10.0 + ALARM_FOR_S - 1.0)
    assert watch.causes(found(10), 10.0 + ALARM_FOR_S + 1.0)
    assert watch.causes(found(10), 10.0 + 2 * ALARM_FOR_S) == {}


def test_Q6_readings_that_are_kept_as_doubtful_raise_no_alarm() -> None:
    watch = DiscardedWatch()
    watch.causes(found(0, lost=False), 0.0)
    assert watch.causes(found(50, lost=False), 1.0) == {}


@pytest.mark.virtual_time
async def test_Q6_a_history_that_gives_up_readings_counts_good_and_doubtful_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_module, "MAX_WAITING", 10)
    history = History(tmp_path / "history.db", Clock(follow_system=True))
    real = history._db

    class Full:
        in_transaction = False

        def execute(self, *_: object) -> None:
            raise sqlite3.OperationalError("database or disk is full")

    history._db = Full()  # type: ignore[assignment]
    for number in range(25):
        for quality in (Quality.GOOD, Quality.SUSPECT):
            history.add(float(number), "", {f"a.{quality.value}": Reading(1.0, "g", quality, float(number))})
    assert not history.flush()
    assert [each.count for each in history.discarded] == [30]
    history._db = real
    history.close()


async def test_Q6_the_api_shows_every_count_and_the_identity_of_the_data() -> None:
    async with world() as w:
        viewer = w.http(Role.VIEWER)
        assert (await viewer.get("/api/records")).json() == {"rig_id": w.controller.rig_id, "discarded": []}
        w.controller.given_up = 12
        (shown,) = (await viewer.get("/api/records")).json()["discarded"]
        assert shown == {
            "where": "influx", "what": "readings that the other side refused", "count": 12, "lost": True
        }  # fmt: skip
