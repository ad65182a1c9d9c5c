"""Properties of identity: the driver accepts the configured device only, with the settings that it needs.

The ids in brackets are those of docs/behaviours.md (A6, C2, F6).
"""

from __future__ import annotations

import asyncio

from drivers.conformance.bench import Bench
from drivers.conformance.stage import RECOVERY_S, SETTLE_S, Stage, on_stage
from drivers.conformance.trying import NotApplicable, expect, near_truth
from drivers.errors import DeviceError, LinkDown


async def takes_no_other_device_for_its_own(bench: Bench) -> None:
    """Check that a device of another model is not verified, and that its outputs are not changed (A6)."""
    if not bench.impostors:
        raise NotApplicable("the bench has no other device to put in its place")
    for name, impostor in bench.impostors.items():
        async with on_stage(bench, far=impostor(bench.config), verified=False) as stage:
            resting = dict(stage.far.outputs())
            await asyncio.sleep(RECOVERY_S / 2)
            expect(not stage.device.conversation.verified, f"it takes a {name} for a {bench.model}")
            expect(bool(stage.link.failures), f"a {name} answers in its place, and the link tells of no failure")
            expect(dict(stage.far.outputs()) == resting, f"it changed an output of a {name} that answered in its place")


async def notices_an_exchanged_device(bench: Bench) -> None:
    """Check that a device of another model is detected after the line was lost (A6)."""
    if not bench.impostors:
        raise NotApplicable("the bench has no other device to put in its place")
    name, impostor = next(iter(bench.impostors.items()))
    async with on_stage(bench) as stage:
        stage.exchange(impostor(bench.config))
        resting = dict(stage.far.outputs())
        stage.peer.hang_up()
        await asyncio.sleep(RECOVERY_S)
        expect(
            not stage.device.conversation.verified,
            f"the line was lost, a {name} answers since, and it is trusted as before",
        )
        for point, sensor in stage.device.sensors.items():
            try:
                value = await sensor.read()
            except DeviceError:
                continue
            raise AssertionError(f"a {name} answers since the line was lost, and {point} reads {value:g}")
        expect(dict(stage.far.outputs()) == resting, f"it changed an output of a {name} that had been put in its place")


async def speaks_to_its_own_address(bench: Bench) -> None:
    """Check that a device of the same model at another address is not accepted (C2)."""
    if bench.other is None:
        raise NotApplicable("it has its line for itself")
    async with on_stage(bench, far=bench.far_end(bench.other), verified=False) as stage:
        await asyncio.sleep(RECOVERY_S / 2)
        expect(
            not stage.device.conversation.verified,
            f"the only device on the line has the address {bench.other.address}, and it is taken for"
            f" {bench.config.address or 'the one without'}",
        )


async def copes_with_changed_settings(bench: Bench) -> None:
    """Check that changed settings of the device are corrected or refused; readings are never wrong (F6)."""
    async with on_stage(bench) as stage:
        if not stage.far.misset():
            raise NotApplicable("the bench knows no setting of the device that matters")
        stage.far.power_cycle()
        stage.peer.hang_up()
        await asyncio.sleep(RECOVERY_S)
        await _reads_right_or_not(stage)
    far = bench.far_end(bench.config)
    for point, sense in bench.senses.items():
        if sense.values:
            far.measure(point, sense.values[0])
    far.connect(lambda data: None)
    far.misset()
    async with on_stage(bench, far=far, verified=False) as stage:
        await asyncio.sleep(SETTLE_S)
        await _reads_right_or_not(stage)


async def _reads_right_or_not(stage: Stage) -> None:
    for point, sensor in stage.device.sensors.items():
        for _ in range(2):
            try:
                value = await sensor.read()
            except (DeviceError, LinkDown):
                continue
            near_truth(stage, point, value, "with the device's own settings changed")
