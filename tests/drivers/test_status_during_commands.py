"""A status that is on its way while a command goes out never makes a later one old (A7)."""

from __future__ import annotations

import asyncio
from itertools import product

import pytest

from choroid.tools.conformance.benches import lab_bench
from drivers.commands import PumpStatus, Run
from drivers.conformance.stage import accepted_commands, is_on, on_stage
from drivers.registry import MODELS

pytestmark = pytest.mark.virtual_time

LATE_S = (0.0, 0.002, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.12, 0.14)
"""Delays after which another task asks for the status, while the command may still wait for the line."""


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


@pytest.mark.parametrize(
    "model", [model for model, driver in sorted(MODELS.items()) if "run" in driver.model.capabilities]
)
async def test_A7_a_poll_that_was_under_way_when_a_flow_was_set_does_not_bring_the_old_one_back(model: str) -> None:
    runs = [
        (point, command) for point, command in await accepted_commands(lab_bench(model)) if isinstance(command, Run)
    ]
    for point, command in runs[:1]:
        async with on_stage(lab_bench(model)) as stage:
            actuator = stage.device.actuators[point]
            flows = [command.flow_ul_min, 2 * command.flow_ul_min]
            await actuator.apply(Run(flows[1]))
            for turn, (polls, late_s) in enumerate(product((0, 10, 11, 12), LATE_S)):
                for _ in range(polls):  # a driver may ask for the flow at every twelfth poll only
                    await actuator.status()
                wanted = flows[turn % 2]
                setting = asyncio.ensure_future(actuator.apply(Run(wanted)))
                await asyncio.sleep(late_s)
                poll = asyncio.ensure_future(actuator.status())
                await setting
                status = await actuator.status()
                assert isinstance(status, PumpStatus)
                assert status.flow_ul_min == pytest.approx(wanted, rel=0.02), (point, polls, late_s)
                await asyncio.gather(poll, return_exceptions=True)
