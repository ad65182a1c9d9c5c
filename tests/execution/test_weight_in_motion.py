"""A weight in motion is a good reading that is not stable: it is shown and kept, and no transfer is weighed with it (A10)."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest

from controller.core.run_states import RunState
from controller.core.state import Reading, StateStore
from controller.rig.description import required
from controller.transfers.weighing import settled, weigh
from drivers.commands import Quality
from sim.lab import SimulatedLab
from tests.execution.test_whole_stack import controlled, moving, until
from tests.execution.world import RIG

MASS = required(RIG.organs.kidney, "organs.kidney").mass
PERIOD_S = RIG.devices[MASS.partition(".")[0]].every_s


@pytest.mark.virtual_time
async def test_A10_a_pump_that_moves_the_pan_leaves_its_readings_good_and_unstable(tmp_path: Path) -> None:
    lab = SimulatedLab(RIG, seed=3)
    seen: dict[float, Reading] = {}
    async with controlled(lab, tmp_path) as controller:

        def update() -> bool:
            reading = controller.store.readings[MASS]
            seen[reading.at_s] = reading
            return controller.runs.get(run).state in (RunState.COMPLETE, RunState.HELD)

        run = await controller.runs.start("recycle", {"cycles": "1", "min_batch": "18 mL"}, "anna", "a test")
        await until(lambda: moving(controller, "kidney.draw"))
        begin = controller.clock.utc().timestamp()
        await until(update)
        end = controller.clock.utc().timestamp()
        assert controller.runs.get(run).state is RunState.COMPLETE
        assert {reading.quality for reading in seen.values()} == {Quality.GOOD}
        in_motion = sum(not reading.stable for reading in seen.values())
        assert 20 < in_motion < len(seen)
        assert controller.history.doubted(MASS, begin, end) == []
        times = [begin, *(row.at for row in controller.history.query(MASS, begin, end, 100_000)), end]
        gaps = [later - earlier for earlier, later in pairwise(times)]
        assert max(gaps) < 3.0 * PERIOD_S, "history has no gap while the pump runs"
        weighed = [row.body for row in controller.journal.entries(run=run) if row.kind == "moved"]
        assert all("balance" in body["source"] for body in weighed if body["asked_ul"] > 5000.0), weighed


@pytest.mark.virtual_time
async def test_A10_equal_weights_in_motion_do_not_weigh_a_transfer() -> None:
    store = StateStore()
    loop = asyncio.get_running_loop()
    stable = False

    async def read() -> None:
        while True:
            store.read(MASS, 3.0, "g", Quality.GOOD, loop.time(), stable=stable)
            await asyncio.sleep(PERIOD_S)

    task = asyncio.create_task(read())
    try:
        found = await settled(store, MASS, every_s=PERIOD_S, spread=0.04, patience_s=60.0)
        assert found.value is None
        assert "did not settle" in found.detail
        assert await weigh(store, MASS, every_s=PERIOD_S) is None
        stable = True
        begun_s = loop.time()
        found = await settled(store, MASS, every_s=PERIOD_S, spread=0.04, patience_s=60.0)
        assert found.value == pytest.approx(3.0)
        assert loop.time() - begun_s >= 2.0 * PERIOD_S, "three stable readings"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
