"""A disk that is full in the middle of a run, or at a restart: the rig is cared for, and the run goes on by itself when
there is room again.
"""

from __future__ import annotations

import asyncio
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest

from controller.core.clock import Clock
from controller.core.run_states import RunState
from controller.journal.journal import Journal
from controller.memory.file import open_database
from controller.memory.formats import Format
from controller.process.controller import Controller
from controller.process.core import Storage
from drivers.commands import LevelStatus, PumpStatus
from sim.lab import SimulatedLab
from tests.sim.faults.bench import RIG
from verification.campaign.storage import Disk, FrailDatabase

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)

pytestmark = pytest.mark.virtual_time


@pytest.mark.parametrize("full_at_s", [4.0, 60.0, 200.0])
async def test_D2_a_run_whose_row_cannot_be_written_waits_and_is_taken_up(full_at_s: float, tmp_path: Path) -> None:
    """It once ended there, and was shown as “running” until the controller was restarted."""
    lab = SimulatedLab(RIG, seed=1)
    clock = Clock(follow_system=False, epoch=EPOCH)
    controller = Controller(rig=RIG, opener=lab.opener, storage=Storage(tmp_path), clock=clock)
    disk, stop = Disk(), asyncio.Event()
    controller.journal.file.db = cast(sqlite3.Connection, FrailDatabase(controller.journal.file.db, disk))
    await controller.start()
    ticking = asyncio.create_task(controller.run(stop))
    run_id = await controller.runs.start(
        "recycle", {"batch": "8 mL", "min_batch": "8 mL", "every": "2 h"}, user="test", reason="disk"
    )
    await asyncio.sleep(full_at_s)
    disk.full = True
    await asyncio.sleep(900.0)
    moving = {line: flow for line, flow in lab.plant.truth().flows_ul_min.items() if flow}
    assert set(moving) <= {"heart", "overflow"}, "nothing else moves without its row"
    assert "journal_unwritten" in {alarm.kind for alarm in controller.alarms.active()}
    assert not controller.health().ok, "what is not written is lost with this process"
    disk.full = False
    await asyncio.sleep(2400.0)
    assert controller.health().ok
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


def restarted(lab: SimulatedLab, disk: Disk, data: Path) -> Controller:
    """A new process of the controller, on files that are on `disk`."""
    clock = Clock(follow_system=False, epoch=EPOCH)
    journal = Journal(data / "journal.db", clock, durable=True)
    journal.file.db = cast(sqlite3.Connection, FrailDatabase(journal.file.db, disk))
    return Controller(rig=RIG, opener=lab.opener, storage=Storage(data, journal=journal), clock=clock)


@pytest.mark.parametrize("gone_at_s", [4.0, 60.0, 200.0])
async def test_D2_a_restart_that_meets_a_full_disk_cares_for_the_rig_and_takes_the_run_up_later(
    gone_at_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It once ended the controller before the heart started: no flow, no heating and no alarm for a night."""
    lab, disk, stop = SimulatedLab(RIG, seed=1), Disk(), asyncio.Event()

    def failing(path: Path, form: Format) -> sqlite3.Connection:
        disk.check()
        return open_database(path, form)

    monkeypatch.setattr("controller.memory.history.open_database", failing)
    first = restarted(lab, disk, tmp_path)
    await first.start()
    ticking = asyncio.create_task(first.run(stop))
    run_id = await first.runs.start(
        "recycle", {"batch": "8 mL", "min_batch": "8 mL", "every": "2 h"}, user="test", reason="disk"
    )
    await asyncio.sleep(gone_at_s)
    disk.full = True
    stop.set()
    await ticking
    await first.close(leave_running=True)

    again, stop = restarted(lab, disk, tmp_path), asyncio.Event()
    await again.start()
    ticking = asyncio.create_task(again.run(stop))
    await asyncio.sleep(900.0)
    heart, gas = (again.store.state.actuators[name].status for name in ("reglo.heart", "gas_co2.flow"))
    assert isinstance(heart, PumpStatus)
    assert isinstance(gas, LevelStatus)
    assert heart.running
    assert gas.setpoint > 0.0
    assert lab.plant.truth().temperature_c == pytest.approx(37.0, abs=0.5)
    assert "journal_unwritten" in {alarm.kind for alarm in again.alarms.active()}
    # The same cause with a less urgent message is suppressed by design.
    assert "history_lost" in {alarm.kind for alarm in again.alarms.suppressed()}
    moving = {line: flow for line, flow in lab.plant.truth().flows_ul_min.items() if flow}
    assert set(moving) <= {"heart", "overflow"}, "nothing else moves without its row"
    active = again.runs.active
    assert active is not None, "no other one is started meanwhile"
    assert active.id == run_id

    disk.full = False
    await asyncio.sleep(2400.0)
    view = again.runs.get(run_id)
    assert view.state is RunState.RUNNING, view.messages
    assert [row.run for row in again.journal.entries(kinds=("note.recycle",))] == [run_id], "it has done its cycle"
    truth = lab.plant.truth().volumes_ul
    for name, volume in again.ledger.volumes().items():
        assert abs(volume.ul - truth[name]) < 4.5 * volume.sd_ul + 60.0, name
    asked_ul = {
        row.body["args"]["volume_ul"]
        for row in again.journal.entries(kinds=("step",))
        if row.body["verb"] == "kidney.draw"
    }
    drawn_ul = sum(row.body["ul"] for row in again.journal.entries(kinds=("moved",)) if row.body["line"] == "draw")
    assert drawn_ul == pytest.approx(sum(asked_ul), rel=0.1), "nothing was given twice"
    starts = [row.body for row in again.journal.entries(kinds=("controller.started",))]
    assert len(starts) == 2, "the row about the start waited for the disk"
    assert again.history.problem is None
    assert again.history.query("ph_loop.ph", 0.0, 4e9)
    again.journal.verify()
    stop.set()
    await ticking
    await again.close()
    await lab.close()
