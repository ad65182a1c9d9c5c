"""The shipped protocols on the bench, undisturbed."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.execution.journal import Journal
from controller.execution.states import RunState
from tests.execution.world import Controller, World


@pytest.mark.virtual_time
@pytest.mark.parametrize("protocol", ["recycle", "exchange"])
async def test_a_cycle_leaves_the_vessels_where_they_stood(protocol: str, tmp_path: Path) -> None:
    world = World()
    controller = Controller(world, tmp_path / "journal.db")
    run = await controller.runs.start(protocol, {"cycles": 1}, "anna", "a test")
    await controller.until(lambda: controller.runs.get(run).state.ended)
    view = controller.runs.get(run)
    assert view.state is RunState.COMPLETE, view.messages
    world.advance()
    assert world.volumes["spent"] == pytest.approx(3000, abs=600)
    assert world.volumes["loop"] == pytest.approx(40_000, abs=600)
    assert not any(pump.flow_ul_min for pump in world.pumps.values())
    assert not world.valves["relay.return_valve"].on
    assert all(step.state == "done" for step in view.progress)
    kinds = {entry.kind for entry in controller.journal.entries(run=run)}
    assert f"note.{protocol}" in kinds
    assert isinstance(controller.journal, Journal)
    assert controller.journal.verify() > 20
    assert controller.alarms == []
    await controller.gone()
