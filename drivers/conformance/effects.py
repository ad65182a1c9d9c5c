"""Properties of commands: the output does what was commanded, at once and in full; and it stops.

The ids in brackets are those of docs/behaviours.md (A1 to A7).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

from drivers.commands import (
    FLOW_TOLERANCE,
    Command,
    Dispense,
    Level,
    LevelStatus,
    PumpStatus,
    Run,
    Stop,
    Switch,
    SwitchStatus,
)
from drivers.conformance.bench import Bench, Untold
from drivers.conformance.stage import DOSE_S, FLOWS_UL_MIN, LEVELS, SETTLE_S, Stage, is_on, on_stage
from drivers.conformance.trying import NotApplicable, expect, patiently, tried, turning_on
from drivers.device import Actuator
from drivers.errors import Refused

ODD_FLOWS_UL_MIN = (123.4, -57.3, 1.0, -2345.6, 0.01, 1e-4, 3e5, 1e6, 1e8)
ODD_LEVELS = (33.33, 36.6, 7.77, 0.013, 4e-4, 199.0, 250.0, 1e4, 70_000.0)
LEVEL_TOLERANCE = 0.02
CELSIUS_TOLERANCE = 0.06
"""Tolerance of a temperature (°C): half of the coarsest controller's last digit."""
GRAIN = 1e-4
"""Tolerance of an output as a share of its maximum level: the last digit of its protocol."""
WITHIN_A_COMMAND = (0.0, 0.01, 0.05, 0.1, 0.3, 0.8, None)
"""Moments of a stop during the execution of a command (s), and None for a stop after it has returned."""


async def does_what_it_is_told(bench: Bench) -> None:
    """Check that each command has its full effect when it returns, and moves nothing else; a refused one has none
    (A7).
    """
    taken = 0
    async with on_stage(bench) as stage:
        for point, actuator in stage.device.actuators.items():
            largest = 0.0
            for command in _many(bench, point, actuator):
                before = dict(stage.far.outputs())
                try:
                    await actuator.apply(command)
                except Refused:
                    expect(
                        _same(stage, before) or not stage.moved,
                        f"{command} was refused, and {point} does {dict(stage.far.outputs())}",
                    )
                    continue
                await asyncio.sleep(bench.settles_s)
                taken += 1
                value = abs(wanted(command) or 0.0)
                largest = max(largest, value)
                _expect_effect(stage, point, command, largest)
                status = await actuator.status()
                expect(_tells(status, stage, point), f"{command} has its effect, and the status is {status}")
            await actuator.apply(Stop())
            await asyncio.sleep(bench.settles_s)
            expect(not stage.moved, f"Stop of {point} has returned, and it does {dict(stage.far.outputs())}")
        if not stage.device.actuators:
            raise NotApplicable("it has no outputs")
    if not taken and "run" not in bench.driver.model.capabilities:
        taken = await _doses_have_their_effect(bench)
    expect(bool(taken), "no command was taken")


async def _doses_have_their_effect(bench: Bench) -> int:
    """Check that each dose of a pump without continuous flow moves at its flow when the command returns; return the
    number of accepted doses.
    """
    taken = 0
    async with on_stage(bench) as first:
        points = list(first.device.actuators)
    for point in points:
        for flow in FLOWS_UL_MIN:
            dose = Dispense(flow * DOSE_S / 60.0, flow, f"effect of {flow:g}")
            async with on_stage(bench) as stage:
                actuator = stage.device.actuators[point]
                if await tried(actuator.apply(dose)) != "Refused":
                    taken += 1
                    await asyncio.sleep(bench.settles_s)
                    _expect_effect(stage, point, dose, flow)
                    status = await actuator.status()
                    expect(_tells(status, stage, point), f"{dose} has its effect, and the status is {status}")
    return taken


async def stops_at_once(bench: Bench) -> None:
    """Check that the output rests when Stop returns, and stays at rest; also during another command and after a
    failed one (A2).
    """
    for point, command in await turning_on(bench):
        for after_s in WITHIN_A_COMMAND:
            async with on_stage(bench) as stage:
                actuator = stage.device.actuators[point]
                start = asyncio.ensure_future(tried(actuator.apply(command)))
                if after_s is None:
                    await start
                else:
                    await asyncio.sleep(after_s)
                told = f"{command}, Stop after " + ("it has returned" if after_s is None else f"{after_s:g} s")
                stop = asyncio.ensure_future(actuator.apply(Stop()))
                await asyncio.wait((start, stop))
                stop.result()
                await asyncio.sleep(bench.settles_s)
                expect(not stage.moved, f"{told}: it does {dict(stage.far.outputs())}")
                for _ in range(10 if after_s in (0.0, None) else 1):
                    await asyncio.sleep(SETTLE_S)
                    expect(not stage.moved, f"{told}: it starts again by itself")


async def knows_what_was_begun_before_it(bench: Bench) -> None:
    """Check that a new driver reports the output's state, leaves it as it is, and can stop it (A7)."""
    for point, command in await turning_on(bench):
        async with on_stage(bench) as first:
            await first.device.actuators[point].apply(command)
            await asyncio.sleep(bench.settles_s)
            before = dict(first.far.outputs())
            if not first.moved:
                continue
            await first.link.close()
            async with on_stage(bench, far=first.far) as second:
                second.rest = first.rest
                expect(_same(second, before), f"{command}, driver restarted: it now does {dict(second.far.outputs())}")
                status = await second.device.actuators[point].status()
                expect(
                    _tells(status, second, point, bench.untold), f"{command}, driver restarted: the status is {status}"
                )
                await second.device.actuators[point].apply(Stop())
                await asyncio.sleep(bench.settles_s)
                expect(not second.moved, f"{command}, driver restarted, Stop: it does {dict(second.far.outputs())}")


async def notices_a_power_cut(bench: Bench) -> None:
    """Check that an output stopped by a power cut is reported as stopped, and not started again (A7)."""
    for point, command in await turning_on(bench):
        async with on_stage(bench) as stage:
            actuator = stage.device.actuators[point]
            resting = await actuator.status()
            await actuator.apply(command)
            await asyncio.sleep(bench.settles_s)
            stage.far.power_cycle()
            stage.peer.hang_up()
            after = dict(stage.far.outputs())
            expect(await stage.recovered(), "after a power cut it is not verified again")
            expect(_same(stage, after), f"{command}, power cut: it was started again, {dict(stage.far.outputs())}")
            status = await patiently(actuator.status)
            expect(
                is_on(status, resting) == stage.moved,
                f"{command}, power cut: the status is {status}; the output does {dict(stage.far.outputs())}",
            )


async def names_what_it_can_do(bench: Bench) -> None:
    """Check that `nearest` returns an executable command within the limit and of the same sign, and is idempotent."""
    tried_any = 0
    async with on_stage(bench) as stage:
        for point, actuator in stage.device.actuators.items():
            for command in _many(bench, point, actuator):
                value = wanted(command)
                if value is None or isinstance(command, Dispense | Switch):
                    continue
                tried_any += 1
                for most in (math.inf, abs(value), 0.5 * abs(value)):
                    await _expect_nearest(actuator, command, value, most)
    if not tried_any:
        raise NotApplicable("it has no output whose level can be chosen")


async def _expect_nearest(actuator: Actuator, command: Command, value: float, most: float) -> None:
    """Check the command that an output names as nearest to `command` of the signed amount `value`, within `most`."""
    nearest = actuator.nearest(command, most)
    got = wanted(nearest)
    expect(type(nearest) is type(command), f"the nearest to {command} is {nearest}")
    expect(got is not None and math.isfinite(got), f"the nearest to {command} is {nearest}")
    if got is None or nearest == command:
        return
    expect(abs(got) <= most * (1 + 1e-9), f"the nearest to {command} of at most {most:g} is {nearest}")
    expect(got * value >= 0.0, f"the nearest to {command} goes the other way: {nearest}")
    again = actuator.nearest(nearest, most)
    expect(
        math.isclose(wanted(again) or 0.0, got, rel_tol=1e-9),
        f"the nearest to {command} is {nearest}, and the nearest to that is {again}",
    )
    if not isinstance(command, Level) or got > 0.0:
        await _expect_accepted(actuator, command, nearest)


async def _expect_accepted(actuator: Actuator, command: Command, nearest: Command) -> None:
    """Check that an output executes the command that it names as nearest to `command`; stop it afterwards."""
    try:
        await actuator.apply(nearest)
    except Refused as error:
        message = f"it names {nearest} as nearest to {command}, and refuses that: {error}"
        raise AssertionError(message) from error
    await actuator.apply(Stop())


def wanted(command: Command) -> float | None:
    """Return the commanded amount with its sign; None for Stop."""
    match command:
        case Run(flow_ul_min=flow) | Dispense(flow_ul_min=flow):
            return flow
        case Level(value=value):
            return value
        case Switch(on=on):
            return float(on)
    return None


def _many(bench: Bench, point: str, actuator: Actuator) -> Sequence[Command]:
    """Return commands of all sizes, one after the other without a stop between them."""
    given = [each for each in bench.commands.get(point, ()) if not isinstance(each, Dispense)]
    match actuator.kind:
        case "pump":
            flows = [flow for size in FLOWS_UL_MIN for flow in (size, -size)]
            return [*given, *(Run(flow) for flow in (*flows, *ODD_FLOWS_UL_MIN))]
        case "level":
            return [*given, *(Level(value) for value in (*LEVELS, *ODD_LEVELS))]
        case "switch":
            return [Switch(True), Switch(False), Switch(True), Switch(True)]


def _same(stage: Stage, before: dict[str, float]) -> bool:
    return dict(stage.far.outputs()) == before


def _expect_effect(stage: Stage, point: str, command: Command, largest: float) -> None:
    outputs = dict(stage.far.outputs())
    value = wanted(command)
    if value is None:
        return
    does = outputs.get(point, 0.0)
    allowed = FLOW_TOLERANCE * abs(value)
    if isinstance(command, Level):
        allowed = _allowed(stage, point, value) + GRAIN * largest
    expect(
        abs(does - value) <= allowed and (does != 0.0 or value == 0.0),
        f"{command} has returned without an error, and in truth {point} does {does:g}",
    )
    others = {
        other for other in {*outputs, *stage.rest} if other != point and outputs.get(other) != stage.rest.get(other)
    }
    expect(not others, f"{command} to {point} moved {', '.join(sorted(others))} too: {outputs}")


def _allowed(stage: Stage, point: str, value: float) -> float:
    """Return the allowed deviation of a level from `value`."""
    celsius = stage.device.actuators[point].unit == "degC"
    return CELSIUS_TOLERANCE if celsius else LEVEL_TOLERANCE * abs(value)


def _tells(status: object, stage: Stage, point: str, untold: frozenset[Untold] = frozenset()) -> bool:
    """Return whether a status reports what the output truly does, except for what the protocol leaves `untold`."""
    does = stage.far.outputs().get(point, 0.0)
    match status:
        case PumpStatus(running=running, flow_ul_min=flow):
            if "direction" in untold:
                flow, does = abs(flow), abs(does)
            return running == (does != 0.0) and ("flow" in untold or abs(flow - does) <= FLOW_TOLERANCE * abs(does))
        case SwitchStatus(on=on):
            return bool(on == (does != 0.0))
        case LevelStatus(setpoint=setpoint):
            at_rest = does == stage.rest.get(point, 0.0)
            return at_rest or abs(setpoint - does) <= _allowed(stage, point, does)
    return False
