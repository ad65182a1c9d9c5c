"""Properties of units, bounds, memory endurance and blocking.

The ids in brackets are those of docs/behaviours.md (D7, F6).
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

from drivers.commands import Command, Dispense, Level, Run, Stop, Switch
from drivers.conformance.bench import Bench
from drivers.conformance.stage import SETTLE_S, accepted_commands, on_stage
from drivers.conformance.trying import NotApplicable, SteppedCoroutine, expect, works_of
from drivers.device import Actuator
from drivers.errors import DeviceError
from drivers.settings import BadSetting
from drivers.transport.link import Link
from drivers.transport.url import LinkUrl

MAX_CALL_S = 0.015
"""Maximum time that a driver may block the loop in one step (s): a longer one delays every other device."""
CALL_TRIES = 8
CALL_AWAITS = 500
"""A call with more awaits than this polls without waiting."""
POLLS = 40
COMMANDS_A_DAY = 1440
RECONNECTIONS_A_DAY = 24
READS_A_DAY = 86_400 // 5


async def keeps_units_and_ranges(bench: Bench) -> None:
    """Check that every point has a unit, readings are finite, and no command outside the range reaches an output
    (D7, F6).
    """
    model = bench.driver.model
    expect(bool(model.id and model.vendor and model.name and model.manual), f"its catalogue entry has gaps: {model}")
    _refuses_unknown_settings(bench)
    async with on_stage(bench) as stage:
        device = stage.device
        expect(bool(device.sensors or device.actuators or device.results), "it has no point at all, and no results")
        for point, sensor in stage.device.sensors.items():
            expect(bool(sensor.unit), f"sensor {point} has no unit")
            value = await sensor.read()
            expect(isinstance(value, float) and math.isfinite(value), f"sensor {point} reads {value!r}")
        for point, actuator in stage.device.actuators.items():
            expect(actuator.kind == "switch" or bool(actuator.unit), f"actuator {point} has no unit")
            for command in _impossible(actuator):
                await _refused(actuator, point, command)
                expect(not stage.moved, f"{command} was refused, and yet {dict(stage.far.outputs())}")


def _refuses_unknown_settings(bench: Bench) -> None:
    """Raise AssertionError if the driver accepts a setting that it does not have."""
    link = Link(LinkUrl.parse("sim:conformance"), line=bench.driver.line)
    wrong = replace(bench.config, settings={**bench.config.settings, "no_such_setting": 1.0})
    try:
        bench.driver(link, wrong)
    except BadSetting:
        return
    raise AssertionError("a setting that it does not know is passed over in silence")


async def _refused(actuator: Actuator, point: str, command: Command) -> None:
    """Raise AssertionError unless `command` is refused by a DeviceError."""
    try:
        await actuator.apply(command)
    except DeviceError:
        return
    except Exception as error:
        raise AssertionError(f"{command} raises {error!r} instead of being refused") from error
    raise AssertionError(f"{command} is taken by {point}, which must refuse it")


async def spares_the_memory(bench: Bench) -> None:
    """Check the memory writes of a driver that is verified hourly, read every 5 s and commanded every minute."""
    commands = await accepted_commands(bench)
    async with on_stage(bench) as stage:
        if (first := stage.far.memory_writes()) is None:
            raise NotApplicable("the bench does not count what is written to memory")

        def written() -> int:
            nonlocal first
            now = stage.far.memory_writes() or 0
            since, first = now - (first or 0), now
            return since

        device = stage.device
        for _ in range(5):
            await device.verify()
        a_day = written() / 5 * RECONNECTIONS_A_DAY
        for _ in range(POLLS):
            await asyncio.sleep(SETTLE_S)
            for _, work in works_of(device, []):
                await work()
        a_day += written() / POLLS * READS_A_DAY
        for number in range(5):
            for point, command in commands:
                again = replace(command, dose_id=f"{number}") if isinstance(command, Dispense) else command
                await device.actuators[point].apply(again)
                await device.actuators[point].apply(Stop())
                await asyncio.sleep(SETTLE_S)
        a_day += written() / max(1, 5 * len(commands)) * COMMANDS_A_DAY
        most = bench.memory_writes_a_day
        expect(a_day <= most, f"it would write the device's memory {a_day:.0f} times a day; {most} is its bound")


async def never_blocks(bench: Bench) -> None:
    """Check that no call blocks the event loop."""
    commands = await accepted_commands(bench)
    slowest: dict[str, float] = {}
    parsed_s = math.inf
    for _ in range(CALL_TRIES):  # a busy machine is slow at times, a blocking call always: the fastest counts
        async with on_stage(bench) as stage:
            works = [("verify", stage.device.verify), *works_of(stage.device, commands)]
            for name, work in works:
                if name in slowest and slowest[name] < MAX_CALL_S:
                    continue
                steps = SteppedCoroutine(work(), most=CALL_AWAITS)
                await steps.whole()
                slowest[name] = min(slowest.get(name, math.inf), steps.longest_s)
                for actuator in stage.device.actuators.values():
                    await actuator.apply(Stop())
                await asyncio.sleep(SETTLE_S)
            parsed_s = min(parsed_s, stage.said_longest_s)
        if max(parsed_s, *slowest.values()) < MAX_CALL_S:
            return
    expect(parsed_s < MAX_CALL_S, f"what comes keeps the loop for {1000 * parsed_s:.0f} ms at once")
    for name, longest_s in slowest.items():
        expect(longest_s < MAX_CALL_S, f"{name} keeps the loop for {1000 * longest_s:.0f} ms in one step")


def _impossible(actuator: Actuator) -> list[Command]:
    """Return commands that no device can execute, or that are for another kind of actuator."""
    match actuator.kind:
        case "pump":
            flows = (math.nan, math.inf, -math.inf, 1e12)
            doses = ((math.nan, 10.0), (math.inf, 10.0), (0.0, 10.0), (-5.0, 10.0), (1e12, 1e12), (10.0, math.nan))
            return [
                *(Run(flow) for flow in flows),
                *(Dispense(volume, flow, f"impossible-{volume}-{flow}") for volume, flow in doses),
                Dispense(1000.0, 0.0, "impossible-flow"),
                Switch(True),
                Level(1.0),
            ]
        case "switch":
            times = (math.nan, math.inf, -1.0, 0.0, 1e12)
            return [*(Switch(True, for_s=for_s) for for_s in times), Run(100.0), Level(1.0)]
        case "level":
            return [*(Level(value) for value in (math.nan, math.inf, -math.inf, 1e12, -1e12)), Run(100.0), Switch(True)]
