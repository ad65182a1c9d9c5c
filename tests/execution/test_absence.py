"""A run whose rig was left alone for long waits for a person (B5)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from controller.core.clock import Clock
from controller.core.run_states import RunState
from controller.core.state import Volume
from controller.process.absence import MAX_ABSENCE_S, absence_doubt
from controller.process.controller import Controller
from controller.process.core import Storage
from controller.rig.loading import load_rig
from sim.lab import SimulatedLab

RIG = load_rig(Path(__file__).resolve().parents[2] / "examples" / "rigs" / "bench.yaml")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
KNOWN = {name: Volume(vessel.volume_ul, 10.0) for name, vessel in RIG.vessels.items()}


def test_B5_a_short_absence_with_known_vessels_is_no_doubt() -> None:
    before = (NOW - timedelta(seconds=MAX_ABSENCE_S - 1.0)).isoformat()
    assert absence_doubt(RIG, before, NOW, KNOWN) == ""
    assert absence_doubt(RIG, None, NOW, KNOWN) == ""


def test_B5_a_long_absence_is_a_doubt_about_each_vessel() -> None:
    before = (NOW - timedelta(days=335)).isoformat()
    said = absence_doubt(RIG, before, NOW, KNOWN)
    assert "8040 h" in said
    assert all(name in said for name in RIG.vessels)


@pytest.mark.parametrize("volume", [Volume(-3400.0, 500.0), Volume(9e6, 500.0), Volume(10_000.0, 20_000_000.0)])
def test_B5_books_that_cannot_be_right_are_a_doubt(volume: Volume) -> None:
    said = absence_doubt(RIG, NOW.isoformat(), NOW, KNOWN | {"spent": volume})
    assert "the books do not know what is in spent" in said


@pytest.mark.virtual_time
@pytest.mark.parametrize("away_h", [1.0, 48.0])
async def test_B5_a_run_is_held_after_a_long_absence_and_goes_on_after_a_short_one(
    away_h: float, tmp_path: Path
) -> None:
    lab = SimulatedLab(RIG, seed=1)
    run = ""
    for epoch in (NOW, NOW + timedelta(hours=away_h)):
        clock = Clock(follow_system=False, epoch=epoch)
        controller = Controller(rig=RIG, opener=lab.opener, storage=Storage(tmp_path, durable=False), clock=clock)
        await controller.start()
        stop = asyncio.Event()
        ticking = asyncio.create_task(controller.run(stop))
        await asyncio.sleep(90.0)
        if not run:
            run = await controller.runs.start("recycle", {"batch": "8 mL", "every": "12 h"}, "anna", "a test")
            await asyncio.sleep(30.0)
            assert controller.runs.get(run).state is RunState.RUNNING
        else:
            held = away_h > MAX_ABSENCE_S / 3600.0
            assert controller.runs.get(run).state is (RunState.HELD if held else RunState.RUNNING)
            assert any("look at each vessel" in message for message in controller.runs.get(run).messages) is held
            if held:
                await controller.runs.resume(run, "anna", "all vessels were looked at")
                await asyncio.sleep(30.0)
                assert controller.runs.get(run).state is RunState.RUNNING
        stop.set()
        await ticking
        await controller.close(leave_running=True)
    await lab.close()
