"""A status that is on its way while a command goes out never makes a later one old (A7)."""

from __future__ import annotations

import asyncio

import pytest

from choroid.tools.conformance.benches import lab_bench
from drivers.conformance.bench import accepted_commands, is_on, on_stage
from drivers.registry import MODELS

pytestmark = pytest.mark.virtual_time

LATE_S = (0.0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
"""So long after the command was begun others ask, while it may still wait for the line."""


@pytest.mark.parametrize(
    "model", [model for model, driver in sorted(MODELS.items()) if driver.model.capabilities != ("read",)]
)
async def test_A7_what_others_ask_meanwhile_is_not_taken_for_a_status_after_the_command(model: str) -> None:
    for point, command in await accepted_commands(lab_bench(model)):
        async with on_stage(lab_bench(model)) as stage:
            actuator = stage.device.actuators[point]
            resting = await actuator.status()
            await actuator.apply(command)
            alone = is_on(await actuator.status(), resting)
        for late_s in LATE_S:
            async with on_stage(lab_bench(model)) as stage:
                actuator = stage.device.actuators[point]
                await asyncio.sleep(1.0)  # nothing is remembered from verification
                applying = asyncio.ensure_future(actuator.apply(command))
                await asyncio.sleep(late_s)
                others = [asyncio.ensure_future(other.status()) for other in stage.device.actuators.values()]
                await applying
                assert is_on(await actuator.status(), resting) == alone, (point, command, late_s)
                await asyncio.gather(*others)
