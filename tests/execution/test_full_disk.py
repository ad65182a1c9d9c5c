"""A disk that is full in the middle of a run: everything rests, and the run goes on by itself when there is room again."""

from __future__ import annotations

import asyncio
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest

from choroid.campaign.storage import Disk, FrailDatabase
from controller.clock import Clock
from controller.execution.states import RunState
from controller.process import Controller
from sim.lab import Lab
from tests.sim.faults.bench import RIG

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)

pytestmark = pytest.mark.virtual_time


@pytest.mark.parametrize("full_at_s", [4.0, 60.0, 200.0])
async def test_D2_a_run_whose_row_cannot_be_written_waits_and_is_taken_up(full_at_s: float, tmp_path: Path) -> None:
    """It once ended there, and stood as “running” until somebody restarted the controller."""
    lab = Lab(RIG, seed=1)
    clock = Clock(follow_system=False, epoch=EPOCH)
    controller = Controller(rig=RIG, opener=lab.opener, data_dir=tmp_path, clock=clock, durable=True)
    disk, stop = Disk(), asyncio.Event()
    controller.journal._db = cast(sqlite3.Connection, FrailDatabase(controller.journal._db, disk))
    await controller.start()
    ticking = asyncio.create_task(controller.run(stop))
    run_id = await controller.runs.start(
        "recycle", {"batch": "8 mL", "least": "8 mL", "every": "2 h"}, user="test", reason="disk"
    )
    await asyncio.sleep(full_at_s)
    disk.full = True
    await asyncio.sleep(900.0)
    moving = {line: flow for line, flow in lab.plant.truth().flows_ul_min.items() if flow}
    assert set(moving) <= {"heart", "overflow"}, "nothing else moves without its row"
    assert "journal_lost" in {alarm.kind for alarm in controller.alarms.active()}
    disk.full = False
    await asyncio.sleep(2400.0)
    view = controller.runs.get(run_id)
    assert view.state is RunState.RUNNING, view.messages
    assert [row.run for row in controller.journal.entries(kinds=("note.recycle",))] == [run_id], "it has done its cycle"
    truth = lab.plant.truth().volumes_ul
    for name, volume in controller.ledger.volumes().items():
        assert abs(volume.ul - truth[name]) < 4.5 * volume.sd_ul + 60.0, name
    controller.journal.verify()
    stop.set()
    await ticking
    await controller.close()
    await lab.close()
