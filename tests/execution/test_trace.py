"""One protocol, twice: over TCP in (scaled) real time and in memory in virtual time. The same events in the same order."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from controller.core.clock import Clock
from controller.journal.terms import Entry
from controller.process.controller import Controller
from controller.process.core import Storage
from drivers.transport.opener import open_real
from sim.lab import SimulatedLab
from sim.virtual_time import run_scaled, run_virtual
from tests.execution.world import RIG

SPEED = 20.0
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
OVER_AFTER_S = 1800.0


async def _life(data: Path, *, tcp: bool) -> tuple[list[str], dict[str, float]]:
    """Recycle 3 mL once; returns the run's events without times, and the volumes (µL) that it moved."""
    lab = SimulatedLab(RIG, seed=3)
    rig, opener = RIG, lab.opener
    if tcp:
        ends = await lab.serve_tcp()
        rig = RIG.model_copy(
            update={
                "devices": {n: spec.model_copy(update={"link": ends[spec.link]}) for n, spec in RIG.devices.items()},
                "upkeep": RIG.upkeep.model_copy(
                    update={"calibration": "factory"}
                ),  # as `choroid lab serve --write` says
            }
        )
        opener = open_real  # type: ignore[assignment]
    controller = Controller(
        rig=rig, opener=opener, storage=Storage(data, durable=False), clock=Clock(follow_system=False, epoch=EPOCH)
    )
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    try:
        await controller.start()
        ticking = asyncio.create_task(controller.run(stop))
        await asyncio.sleep(60.0)
        params = {"batch": "3 mL", "min_batch": "3 mL", "cycles": "1"}
        run = await controller.runs.start("recycle", params, user="anna", reason="a trace")
        deadline_s = loop.time() + OVER_AFTER_S
        while not controller.runs.get(run).state.ended:
            assert loop.time() < deadline_s, "the run did not end"
            await asyncio.sleep(5.0)
        stop.set()
        await ticking
        rows = list(controller.journal.entries())
        expected = ["not_commissioned:bench"] if tcp else []  # a rig on real links has to be tested by effect first
        assert [alarm.id for alarm in controller.alarms.active()] == expected
        assert controller.alarms.raised == len(expected)
    finally:
        await controller.close()
        await lab.close()
    mine = [row for row in rows if row.run == run or str(row.body.get("by", "")).startswith("run:")]
    return [_event(row) for row in mine], {row.body["line"]: row.body["ul"] for row in rows if row.kind == "moved"}


def _event(row: Entry) -> str:
    """What happened, without when and without what was measured."""
    body: dict[str, Any] = dict(row.body)
    told = [
        str(body[key])
        for key in ("n", "verb", "policy", "event", "from", "to", "line", "end", "actuator")
        if key in body
    ]
    if "command" in body:
        told.append(str(body["command"][0]))
    if row.kind == "note.grade":
        told += [str(body["grade"]), str(body["limiting"])]
    return " ".join([row.kind, *told])


@pytest.mark.long
def test_real_time_over_tcp_equals_virtual_time_event_for_event(tmp_path: Path) -> None:
    (tmp_path / "virtual").mkdir()
    (tmp_path / "real").mkdir()
    virtual, moved = run_virtual(_life(tmp_path / "virtual", tcp=False))
    real, really_moved = run_scaled(_life(tmp_path / "real", tcp=True), SPEED)
    assert real == virtual
    assert len(virtual) > 25
    assert really_moved == pytest.approx(moved, rel=0.03)
