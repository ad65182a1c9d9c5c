"""Properties of volumes: a dose is given once and in full, and the total counts what was really moved.

The ids in brackets are those of docs/behaviours.md (A4, A5, A10, F2, F3).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from drivers.commands import FLOW_TOLERANCE, Dispense, PumpStatus, Run, Stop
from drivers.conformance.bench import Bench
from drivers.conformance.stage import DOSE_S, SETTLE_S, Stage, on_stage
from drivers.conformance.trying import NotApplicable, expect, patiently, tried, turning_on
from drivers.device import Actuator
from drivers.errors import Refused

COUNT_S = 20.0
STEPS = 10.0
"""Number of steps of a coarse total for which it is observed."""
DOSE_TOLERANCE = 0.03
"""Tolerance of a dose as a share: 2 % for the pump's own steps, and the start and stop."""
MAX_LOST = 12
"""Number of replies to the start of a dose that are lost, one at a time."""
GROWN_UL = 1e-6
COARSE_UL = 1000.0
"""Coarsest step of a total (µL): no pump here is coarser than whole millilitres."""


async def counts_what_it_moves(bench: Bench) -> None:
    """Check that the total grows by the moved volume in both directions, never falls, and survives reconnection
    (F3).
    """
    runs = [(point, command) for point, command in await turning_on(bench) if isinstance(command, Run | Dispense)]
    if not runs:
        raise NotApplicable("it has no pump")
    for point, command in runs:
        async with on_stage(bench) as stage:
            count = await _Count.begun(stage, point)
            await count.actuator.apply(command)
            lasts_s = max(COUNT_S, count.long_enough_s(command.flow_ul_min)) if isinstance(command, Run) else DOSE_S / 2
            for _ in range(4):
                await asyncio.sleep(lasts_s / 4)
                await count.compare(f"{command} under way")
            await stage.device.verify()
            await count.compare(f"{command}, verified again")
            await patiently(partial(count.actuator.apply, Stop()))
            await count.compare(f"{command}, stopped half-way")
            stage.peer.hang_up()
            expect(await stage.recovered(), "it is not verified again after a lost line")
            await count.compare(f"{command}, stopped, line lost")
            again = (
                Dispense(command.volume_ul, command.flow_ul_min, "again") if isinstance(command, Dispense) else command
            )
            await count.actuator.apply(again)
            await asyncio.sleep(1.5 * DOSE_S if isinstance(command, Dispense) else COUNT_S)
            await count.compare(f"{command} once more")
            await count.actuator.apply(Stop())
            await asyncio.sleep(COUNT_S)
            await count.compare("at rest")


class _Count:
    """A pump's total and the truth, from a common start."""

    def __init__(self, stage: Stage, point: str, status: PumpStatus) -> None:
        self.stage, self.point = stage, point
        self.actuator: Actuator = stage.device.actuators[point]
        self._first = self._last = status
        self._moved_ul = moved_ul(stage, point)

    def long_enough_s(self, flow_ul_min: float) -> float:
        """Return the time in which a flow moves many steps of the total (s)."""
        return 60.0 * STEPS * self._first.resolution_ul / abs(flow_ul_min)

    @classmethod
    async def begun(cls, stage: Stage, point: str) -> _Count:
        """Start counting."""
        return cls(stage, point, await _pump_status(stage, point))

    async def compare(self, told: str) -> None:
        """Raise AssertionError unless the total has grown by the moved volume; `context` begins the message."""
        before_ul = moved_ul(self.stage, self.point)
        status = await patiently(partial(_pump_status, self.stage, self.point))
        low_ul, high_ul = before_ul - self._moved_ul, moved_ul(self.stage, self.point) - self._moved_ul
        counted_ul = status.delivered_ul - self._first.delivered_ul
        slack_ul = self._first.resolution_ul + status.resolution_ul + FLOW_TOLERANCE * high_ul + GROWN_UL
        expect(
            low_ul - slack_ul <= counted_ul <= high_ul + slack_ul,
            f"{told}: the total has grown by {counted_ul:g} µL (± {slack_ul:g}); in truth {high_ul:g} µL were moved",
        )
        expect(
            status.resolution_ul <= COARSE_UL,
            f"{told}: the total may be off by {status.resolution_ul:g} µL at {high_ul:g} µL moved, which says nothing",
        )
        fallen_ul = self._last.delivered_ul - status.delivered_ul
        expect(
            fallen_ul <= self._last.resolution_ul + status.resolution_ul + GROWN_UL,
            f"{told}: the total fell from {self._last.delivered_ul:g} to {status.delivered_ul:g} µL",
        )
        self._last = status


async def gives_a_dose_once_and_whole(bench: Bench) -> None:
    """Check that a dose moves its volume in its direction and ends, and that its id moves nothing more (A4, A5,
    A10).
    """
    doses = [(point, each) for point, each in await turning_on(bench) if isinstance(each, Dispense)]
    if not doses:
        raise NotApplicable("it gives no doses")
    for point, dose in doses:
        for share in (1.0, 0.5):
            async with on_stage(bench) as stage:
                await _whole(stage, point, Dispense(share * dose.volume_ul, dose.flow_ul_min, f"dose {share:g}"))
        async with on_stage(bench) as stage:
            await _stopped(stage, point, dose)
        async with on_stage(bench) as stage:
            await _in_turn(stage, point, dose)
        for number in range(MAX_LOST):
            async with on_stage(bench) as stage:
                if not await _lost(stage, point, dose, number):
                    break


async def _whole(stage: Stage, point: str, dose: Dispense) -> None:
    actuator = stage.device.actuators[point]
    before_ul, counted = moved_ul(stage, point), await _pump_status(stage, point)
    try:
        await actuator.apply(dose)
    except Refused:
        return
    does = stage.far.outputs().get(point, 0.0)
    expect(does >= 0.0, f"{dose} pumps backwards: {does:g} µL/min")
    lasts_s = 60.0 * dose.volume_ul / dose.flow_ul_min
    for _ in range(round(20 * lasts_s)):
        if not stage.moved:
            break
        await asyncio.sleep(0.25)
    expect(not stage.moved, f"{dose} should last {lasts_s:g} s and has not ended after {5 * lasts_s:g} s")
    await asyncio.sleep(SETTLE_S)
    status = await _pump_status(stage, point)
    expect(not status.running, f"{dose} has ended, and the status is {status}")
    given_ul = moved_ul(stage, point) - before_ul
    _expect_volume(dose, given_ul, "")
    counted_ul = status.delivered_ul - counted.delivered_ul
    slack_ul = status.resolution_ul + counted.resolution_ul + DOSE_TOLERANCE * given_ul
    expect(abs(counted_ul - given_ul) <= slack_ul, f"{dose} moved {given_ul:g} µL, and {counted_ul:g} µL are counted")
    await tried(actuator.apply(dose))
    await asyncio.sleep(lasts_s + SETTLE_S)
    _expect_volume(dose, moved_ul(stage, point) - before_ul, " when its id came again")


async def _stopped(stage: Stage, point: str, dose: Dispense) -> None:
    """Check that the same id gives nothing more after a dose was stopped half-way."""
    actuator = stage.device.actuators[point]
    before_ul = moved_ul(stage, point)
    await actuator.apply(dose)
    await asyncio.sleep(DOSE_S / 2)
    await actuator.apply(Stop())
    await tried(actuator.apply(dose))
    await asyncio.sleep(1.5 * DOSE_S)
    given_ul = moved_ul(stage, point) - before_ul
    expect(given_ul <= dose.volume_ul * 0.75, f"{dose}, stopped half-way and commanded again, moved {given_ul:g} µL")


async def _in_turn(stage: Stage, point: str, dose: Dispense) -> None:
    """Check that two doses of different ids are both given, and the first id once more gives nothing."""
    actuator = stage.device.actuators[point]
    before_ul = moved_ul(stage, point)
    for dose_id in ("first", "second", "first", "second"):
        await tried(actuator.apply(Dispense(dose.volume_ul, dose.flow_ul_min, dose_id)))
        await asyncio.sleep(1.5 * DOSE_S)
    given_ul = moved_ul(stage, point) - before_ul
    expect(
        abs(given_ul - 2 * dose.volume_ul) <= 2 * DOSE_TOLERANCE * dose.volume_ul,
        f"two doses of {dose.volume_ul:g} µL, each commanded twice in turn, moved {given_ul:g} µL",
    )


async def _lost(stage: Stage, point: str, dose: Dispense, number: int) -> bool:
    """Check that no more than the dose is moved when reply `number` to its start is lost; return whether it was
    sent.
    """
    actuator = stage.device.actuators[point]
    await actuator.status()
    await asyncio.sleep(SETTLE_S)
    before_ul, count = moved_ul(stage, point), 0

    def lose(reply: bytes) -> Sequence[tuple[float, bytes]]:
        nonlocal count
        count += 1
        return () if count == number + 1 else ((0.0, reply),)

    stage.replies = lose
    outcome = await tried(actuator.apply(dose))
    await asyncio.sleep(SETTLE_S)
    expect(outcome == "done" or not stage.moved, f"{dose} failed ({outcome}) when reply {number} was lost, and goes on")
    await asyncio.sleep(1.5 * DOSE_S)
    stage.let_all_pass()
    given_ul = moved_ul(stage, point) - before_ul
    expect(
        given_ul <= dose.volume_ul * (1 + DOSE_TOLERANCE),
        f"{dose} ({outcome}), reply {number} lost, moved {given_ul:g} µL",
    )
    if (outcome == "done" and number == 0) or given_ul > 0.0:
        expect(await stage.recovered(), "it is not verified again after a lost reply")
        await tried(actuator.apply(dose))
        await asyncio.sleep(1.5 * DOSE_S)
        given_ul = moved_ul(stage, point) - before_ul
        expect(
            given_ul <= dose.volume_ul * (1 + DOSE_TOLERANCE),
            f"{dose} ({outcome}), reply {number} lost, commanded again, moved {given_ul:g} µL in all",
        )
    return count > number


def moved_ul(stage: Stage, point: str) -> float:
    """Return the volume that the pump has truly moved (µL); raise AssertionError if the bench does not
    provide it.
    """
    moved = stage.far.delivered()
    if not moved and not stage.moved and point not in moved:
        return 0.0  # it has never moved
    if point not in moved:
        raise AssertionError(
            f"the far end's delivered() does not say what {point} has moved (docs/writing-a-driver.md)"
        )
    return moved[point]


async def _pump_status(stage: Stage, point: str) -> PumpStatus:
    status = await stage.device.actuators[point].status()
    if not isinstance(status, PumpStatus):
        raise AssertionError(f"the status of {point} is {status!r} and no PumpStatus")
    return status


def _expect_volume(dose: Dispense, given_ul: float, told: str) -> None:
    expect(
        abs(given_ul - dose.volume_ul) <= DOSE_TOLERANCE * dose.volume_ul,
        f"{dose}{told} moved {given_ul:g} µL in truth",
    )
