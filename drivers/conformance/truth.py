"""Properties of readings: the physically true value, unit and sign, and doubt where the device doubts.

The ids in brackets are those of docs/behaviours.md (F6, I2).
"""

from __future__ import annotations

import asyncio
import math

from drivers.commands import LevelStatus, Quality
from drivers.conformance.bench import Bench, Sense
from drivers.conformance.stage import SETTLE_S, Stage, on_stage
from drivers.conformance.trying import NotApplicable, expect
from drivers.errors import DeviceError

ROUNDS = 2
"""Number of times that every value of the bench is used, so that a cached reading is detected."""
CALM_S = 5.0
IDLE_S = 120.0
"""A reading after this idle time must be fresh (s)."""


async def reads_what_is_true(bench: Bench) -> None:
    """Check that every sensor reads each value that the bench makes true: in its unit, with its sign, and fresh
    (F6).
    """
    async with on_stage(bench) as stage:
        device = stage.device
        if not device.sensors:
            raise NotApplicable("it has no sensors")
        for point, sensor in device.sensors.items():
            sense = _sense(bench, point)
            expect(sensor.unit == sense.unit, f"{point} is said to be in {sensor.unit}; the bench has {sense.unit}")
        for number in range(ROUNDS * max(len(sense.values) or 1 for sense in bench.senses.values())):
            await _make_true(stage, number)
            for point in device.sensors:
                await _compare(stage, point)
        await asyncio.sleep(IDLE_S)
        await _make_true(stage, 1)
        for point in device.sensors:
            await _compare(stage, point)


async def _make_true(stage: Stage, number: int) -> None:
    """Make a value true at each point: a different one at each, so that exchanged points are detected."""
    for place, (point, sense) in enumerate(stage.bench.senses.items()):
        if sense.values:
            stage.far.measure(point, sense.values[(number + place) % len(sense.values)])
    await asyncio.sleep(SETTLE_S)


async def _compare(stage: Stage, point: str) -> None:
    """Read `point` and compare it with the truth before and after: a bath changes by itself meanwhile."""
    sensor, sense = stage.device.sensors[point], _sense(stage.bench, point)
    before = _truth(stage, point)
    try:
        value = await sensor.read()
    except DeviceError as error:
        raise AssertionError(f"{point} cannot be read while {before:g} {sense.unit} is true there: {error}") from error
    low, high = sorted((before, _truth(stage, point)))
    expect(isinstance(value, float) and math.isfinite(value), f"{point} reads {value!r}, which is no number")
    expect(
        sense.near(value, min(max(value, low), high)),
        f"{point} reads {value:g} {sense.unit}; the truth is {high:g} {sense.unit}",
    )
    expect(sensor.quality is Quality.GOOD, f"{point} reads {value:g} rightly and calls that {sensor.quality}")
    if not sensor.stable:
        await asyncio.sleep(CALM_S)  # a balance calls a weight stable after it has been at rest for a moment
        await sensor.read()
    expect(sensor.stable, f"{point} is at rest at {value:g}, and the driver says that it is in motion")


async def says_when_its_device_doubts(bench: Bench) -> None:
    """Check that a reading which the device itself doubts is an error or of lowered quality (I2)."""
    doubtful = [point for point, sense in bench.senses.items() if sense.doubts]
    tried = 0
    for point in doubtful:
        async with on_stage(bench) as stage:
            if (sensor := stage.device.sensors.get(point)) is None:
                continue
            await sensor.read()
            await asyncio.sleep(SETTLE_S)
            expect(stage.far.doubt(point), f"the bench says that its device can doubt {point}, and it cannot")
            tried += 1
            for _ in range(2):
                await asyncio.sleep(SETTLE_S)
                try:
                    value = await sensor.read()
                except DeviceError:
                    continue
                expect(
                    sensor.quality is not Quality.GOOD,
                    f"the device says that {point} is not to be trusted, and the driver calls {value:g} good",
                )
    if not tried:
        raise NotApplicable("the bench knows no way in which its device says that a reading is not to be trusted")


async def tells_motion_from_rest(bench: Bench) -> None:
    """Check that a value in motion is a good reading that is not stable, and one at rest is stable (A10)."""
    tried = 0
    for point in [point for point, sense in bench.senses.items() if sense.moves]:
        async with on_stage(bench) as stage:
            if (sensor := stage.device.sensors.get(point)) is None:
                continue
            await sensor.read()
            await asyncio.sleep(CALM_S)
            await sensor.read()
            expect(sensor.stable, f"{point} is at rest, and the driver says that it is in motion")
            expect(
                stage.far.disturb(point), f"the bench says that its device can tell motion at {point}, and it cannot"
            )
            tried += 1
            for _ in range(2):
                await asyncio.sleep(SETTLE_S)
                value = await sensor.read()
                expect(
                    not sensor.stable,
                    f"the device says that {point} is in motion, and the driver calls {value:g} stable",
                )
                expect(
                    sensor.quality is Quality.GOOD,
                    f"{point} is in motion, and the driver calls that {sensor.quality}: motion belongs in `stable`",
                )
    if not tried:
        raise NotApplicable("the bench knows no way in which its device says that a value is in motion")


async def tells_measured_from_commanded(bench: Bench) -> None:
    """Check that the status of a level has the measured value, not the commanded one (A7)."""
    tried = 0
    async with on_stage(bench) as stage:
        for point, actuator in stage.device.actuators.items():
            sense = bench.senses.get(point)
            if actuator.kind != "level" or sense is None:
                continue
            tried += 1
            for value in sense.values or (0.0,):
                if sense.values:
                    stage.far.measure(point, value)
                await asyncio.sleep(SETTLE_S)
                before = _truth(stage, point)
                status = await actuator.status()
                low, high = sorted((before, _truth(stage, point)))
                expect(isinstance(status, LevelStatus), f"the status of {point} is {status!r} and no LevelStatus")
                told = getattr(status, "measured", math.nan)
                expect(
                    sense.near(told, min(max(told, low), high)),
                    f"the status of {point} tells {told:g} {sense.unit} measured; the truth is {high:g}",
                )
    if not tried:
        raise NotApplicable("it has no level of which the bench knows what is measured there")


def _sense(bench: Bench, point: str) -> Sense:
    sense = bench.senses.get(point)
    if sense is None:
        raise AssertionError(
            f"the bench does not say what is true at sensor {point}; name it in Bench.senses (docs/writing-a-driver.md)"
        )
    return sense


def _truth(stage: Stage, point: str) -> float:
    truth = stage.far.measured().get(point)
    if truth is None:
        raise AssertionError(f"the far end's measured() does not name {point}")
    return truth
