"""Every simulated actuator can be made to acknowledge and not to do; its driver tells the truth then (A7)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

import pytest

from choroid.tools.conformance.benches import lab_bench
from choroid.tools.conformance.lab_end import LabEnd
from drivers.commands import Dispense
from drivers.conformance.stage import SETTLE_S, accepted_commands, is_on, on_stage
from drivers.conformance.trying import patiently, tried
from drivers.registry import MODELS

pytestmark = pytest.mark.virtual_time


@pytest.mark.parametrize(
    "model", [model for model, driver in sorted(MODELS.items()) if driver.model.capabilities != ("read",)]
)
async def test_A7_told_and_not_done_is_seen_in_the_status(model: str) -> None:
    for point, command in await accepted_commands(lab_bench(model)):
        async with on_stage(lab_bench(model)) as stage:
            assert isinstance(stage.far, LabEnd)
            actuator = stage.device.actuators[point]
            resting = await actuator.status()
            stage.far.device.obeys = False
            await tried(actuator.apply(command))
            await asyncio.sleep(SETTLE_S)
            assert not stage.moved, command
            assert not is_on(await patiently(actuator.status), resting), command
            stage.far.device.obeys = True
            again = replace(command, dose_id="again") if isinstance(command, Dispense) else command
            await patiently(partial(actuator.apply, again))
            await asyncio.sleep(SETTLE_S)
            assert stage.moved or is_on(await actuator.status(), resting), command
