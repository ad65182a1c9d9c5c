"""Properties of outputs: off when cancelled, closed or in doubt, and always reported as they are.

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
    Guarantee,
    Level,
    LevelStatus,
    PumpStatus,
    Run,
    Status,
    Stop,
    Switch,
)
from drivers.conformance.bench import Bench
from drivers.conformance.stage import DOSE_S, SETTLE_S, TIMED_S, Stage, accepted_commands, is_on, on_stage
from drivers.conformance.trying import NotApplicable, SteppedCoroutine, expect, now_s, turning_on, works_of
from drivers.errors import DeviceError, LinkDown

DOSE_FLOW_TOLERANCE = 0.25
"""Tolerance of a dose's flow, as a share: only its volume matters."""
CANCEL_AT = (0.0, 0.5, 0.95)
"""Moments of cancellation within each await: before its request is sent, in the middle, just before the reply."""


async def verifies_first(bench: Bench) -> None:
    """Check that nothing is sent for a command or a reading before verification, and that verification changes no
    output.
    """
    async with on_stage(bench, mute=True) as stage:
        device = stage.device
        expect(not device.conversation.verified, "it counts as verified although nothing ever answered")
        for name, work in works_of(device, [(point, Stop()) for point in device.actuators]):
            stage.peer.sent.clear()
            try:
                await work()
            except LinkDown:
                pass
            else:
                raise AssertionError(f"{name} was carried out although the device is not verified")
            expect(not stage.peer.sent, f"{name} sent {stage.peer.sent} to a device that is not verified")
    for point, command in await accepted_commands(bench):
        async with on_stage(bench) as stage:
            await stage.device.actuators[point].apply(command)
            before = dict(stage.far.outputs())
            await stage.device.verify()
            expect(dict(stage.far.outputs()) == before, f"verifying changed an output while {command} was on")


async def same_command_twice_is_once(bench: Bench) -> None:
    """Check that applying a command twice gives the same outputs, status and duration as applying it once (A4)."""
    for point, command in await turning_on(bench):
        ended_s = []
        for times in (1, 2):
            async with on_stage(bench) as stage:
                actuator = stage.device.actuators[point]
                began_s = now_s()
                await actuator.apply(command)
                outputs, status = dict(stage.far.outputs()), await actuator.status()
                if times == 2:
                    await actuator.apply(command)
                    expect(
                        dict(stage.far.outputs()) == outputs and _equivalent(await actuator.status(), status),
                        f"{command} twice gives {await actuator.status()} and {dict(stage.far.outputs())},"
                        f" once {status} and {outputs}",
                    )
                if isinstance(command, Dispense) and outputs != stage.rest:
                    ended_s.append(await _end_of(stage) - began_s)
                    await actuator.apply(command)
                    expect(not stage.moved, f"dose “{command.dose_id}” was given again after it had ended")
                elif times == 1:
                    await actuator.apply(Stop())
                    await actuator.apply(Stop())
        if len(ended_s) == 2:
            once_s, twice_s = ended_s
            expect(abs(twice_s - once_s) < 1.0 + 0.05 * once_s, f"the dose lasts {twice_s:g} s, not {once_s:g} s")


async def cancelled_anywhere_ends_at_rest(bench: Bench) -> None:
    """Check that a cancelled command leaves the output off, or reports that it could not be turned off (A2)."""
    for point, command in await turning_on(bench):
        async with on_stage(bench) as stage:
            await stage.device.actuators[point].status()
            await asyncio.sleep(SETTLE_S)
            undisturbed = SteppedCoroutine(stage.device.actuators[point].apply(command))
            await undisturbed.whole()
        for at, lasted_s in enumerate(undisturbed.lasted_s):
            for part in CANCEL_AT:
                await _cancelled_at(bench, point, command, at, part * lasted_s)


async def _cancelled_at(bench: Bench, point: str, command: Command, at: int, after_s: float) -> None:
    """Cancel the command `after_s` seconds into await number `at`."""
    async with on_stage(bench) as stage:
        actuator = stage.device.actuators[point]
        resting = await actuator.status()
        await asyncio.sleep(SETTLE_S)
        try:
            await asyncio.ensure_future(SteppedCoroutine(actuator.apply(command), at, after_s).whole())
        except asyncio.CancelledError as error:
            reported = any("could not be commanded off" in note for note in getattr(error, "__notes__", ()))
            await asyncio.sleep(SETTLE_S)
            where = f"{command} cancelled {after_s:g} s into await {at}"
            expect(reported or not stage.moved, f"{where} leaves {dict(stage.far.outputs())}")
            expect(reported or not is_on(await actuator.status(), resting), f"{where} leaves {await actuator.status()}")


async def lost_confirmation_ends_at_rest(bench: Bench) -> None:
    """Check that a command fails and the output is off if the reply to its start is lost (A2)."""
    for point, command in await turning_on(bench):
        async with on_stage(bench) as stage:
            was = lost = False

            def loses(reply: bytes, stage: Stage = stage) -> Sequence[tuple[float, bytes]]:
                nonlocal was, lost
                now_on = stage.moved
                if now_on and not was and not lost:
                    lost = True
                    return ()
                was = now_on
                return ((0.0, reply),)

            stage.replies = loses
            try:
                await stage.device.actuators[point].apply(command)
            except DeviceError:
                await asyncio.sleep(SETTLE_S)
                expect(not stage.moved, f"{command} failed for a lost reply and leaves {dict(stage.far.outputs())}")


async def closing_turns_off(bench: Bench) -> None:
    """Check that close() brings every output to rest, is idempotent, and completes even if it is cancelled (A3)."""
    commands = await turning_on(bench)
    for point, command in commands:
        for cancelled in (False, True):
            async with on_stage(bench) as stage:
                actuator = stage.device.actuators[point]
                resting = await actuator.status()
                await actuator.apply(command)
                closing = asyncio.ensure_future(stage.device.close())
                if cancelled:
                    await asyncio.sleep(0.001)
                    closing.cancel()
                await asyncio.wait((closing,))
                expect(
                    closing.cancelled() or closing.exception() is None, f"close() after {command} failed with an error"
                )
                expect(not stage.moved, f"close() after {command} leaves {dict(stage.far.outputs())}")
                await stage.device.close()
                await asyncio.sleep(SETTLE_S)
                expect(not is_on(await actuator.status(), resting), f"closed, it says {await actuator.status()}")
    async with on_stage(bench) as stage:
        applied = {}
        for point, command in commands:
            if point not in applied:
                applied[point] = command
                await stage.device.actuators[point].apply(command)
        await stage.device.close()
        expect(not stage.moved, f"close() with {len(applied)} outputs on leaves {dict(stage.far.outputs())}")


async def ends_by_itself_where_it_says_so(bench: Bench) -> None:
    """Check that a command with the guarantee “device” ends without further communication (A1, A5)."""
    tried = 0
    for point, command in await turning_on(bench):
        async with on_stage(bench) as stage:
            actuator = stage.device.actuators[point]
            if actuator.guarantee_for(command) is not Guarantee.DEVICE:
                continue
            await actuator.apply(command)
            if not stage.moved:
                continue
            tried += 1
            stage.peer.refuse_to_open = True
            stage.peer.hang_up()
            lasts_s = TIMED_S if isinstance(command, Switch) else DOSE_S
            await asyncio.sleep(1.5 * lasts_s + 15.0)
            expect(not stage.moved, f"{command} is said to end by the device, but goes on: {dict(stage.far.outputs())}")
    if not tried:
        raise NotApplicable("no command is said to end by the device itself")


async def reads_back(bench: Bench) -> None:
    """Check that a device which confirms a command and does nothing is detected, by an error or the status (A7)."""
    tried = 0
    for point, command in await turning_on(bench):
        undisturbed = await _turning_on(bench, point, command)
        if undisturbed is None:
            continue
        tried += 1
        number, answers = undisturbed
        async with on_stage(bench) as stage:
            actuator = stage.device.actuators[point]
            resting = await actuator.status()
            count = 0

            def lies(
                request: bytes,
                stage: Stage = stage,
                number: int = number,
                answers: list[tuple[float, bytes]] = answers,
            ) -> bytes | None:
                nonlocal count
                count += 1
                if count - 1 != number:
                    return request
                for delay_s, reply in answers:
                    asyncio.get_running_loop().call_later(delay_s, stage.peer.say, reply)
                return None

            await asyncio.sleep(SETTLE_S)
            stage.requests = lies
            try:
                await actuator.apply(command)
                await asyncio.sleep(SETTLE_S)
                status = await actuator.status()
            except DeviceError:
                continue
            if not stage.moved:
                expect(
                    not is_on(status, resting), f"{command} was only confirmed, not done, and the status is {status}"
                )
    if not tried:
        raise NotApplicable("the bench cannot see its outputs")


async def _turning_on(bench: Bench, point: str, command: Command) -> tuple[int, list[tuple[float, bytes]]] | None:
    """Return the number of the request that turns the output on, and the device's answer to it."""
    async with on_stage(bench) as stage:
        await stage.device.actuators[point].status()
        await asyncio.sleep(SETTLE_S)
        count, number, sent_s = 0, -1, 0.0
        answers: list[tuple[float, bytes]] = []

        def asked(request: bytes) -> bytes:
            nonlocal count, sent_s
            if number < 0:
                answers.clear()
                sent_s = now_s()
            count += 1
            return request

        def said(reply: bytes) -> Sequence[tuple[float, bytes]]:
            nonlocal number
            if number < 0 or count - 1 == number:
                answers.append((now_s() - sent_s, reply))
            if number < 0 and stage.moved:
                number = count - 1
            return ((0.0, reply),)

        stage.requests, stage.replies = asked, said
        await stage.device.actuators[point].apply(command)
        return None if number < 0 else (number, answers)


async def says_what_it_does(bench: Bench) -> None:
    """Check that the status after a command is the commanded one, and rest after Stop (A7)."""
    for point, command in await turning_on(bench):
        async with on_stage(bench) as stage:
            actuator = stage.device.actuators[point]
            resting = await actuator.status()
            await actuator.apply(command)
            status = await actuator.status()
            expect(is_on(status, resting), f"after {command} the status is {status}")
            flow = getattr(status, "flow_ul_min", None)
            wanted = getattr(command, "flow_ul_min", None)
            if flow is not None and wanted is not None:
                tolerance = FLOW_TOLERANCE if isinstance(command, Run) else DOSE_FLOW_TOLERANCE
                off = abs(abs(flow) - abs(wanted))
                expect(off <= tolerance * abs(wanted), f"after {command} the status is {status}")
            if isinstance(command, Run) and flow is not None:
                expect(flow * command.flow_ul_min > 0, f"after {command} it says that it pumps the other way: {status}")
            if isinstance(command, Level):
                said = getattr(status, "setpoint", math.nan)
                expect(math.isclose(said, command.value, rel_tol=0.02), f"after {command} the status is {status}")
            await actuator.apply(Stop())
            await asyncio.sleep(SETTLE_S)
            expect(not stage.moved, f"after Stop it still does {dict(stage.far.outputs())}")
            expect(not is_on(await actuator.status(), resting), f"after Stop the status is {await actuator.status()}")


async def _end_of(stage: Stage) -> float:
    """Wait until every output rests by itself; return the loop time (s)."""
    for _ in range(round(20 * DOSE_S)):
        if not stage.moved:
            return now_s()
        await asyncio.sleep(0.25)
    raise AssertionError(f"a dose of {DOSE_S:g} s has not ended after {5 * DOSE_S:g} s: {dict(stage.far.outputs())}")


def _equivalent(one: Status, other: Status) -> bool:
    """Return whether statuses are equal except for running totals and measured values."""
    match one, other:
        case PumpStatus(), PumpStatus():
            return (one.running, one.flow_ul_min) == (other.running, other.flow_ul_min)
        case LevelStatus(), LevelStatus():
            return one.setpoint == other.setpoint
    return one == other
