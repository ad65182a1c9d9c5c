"""A10 over random crashes, pauses, power cuts, noise, counters and calibrations; and a judge that is judged itself (J1)."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from controller.core.run_states import RunState
from controller.runs.runner import RunnerError
from controller.steps.steps import StepRecord
from controller.transfers import transfers
from controller.transfers.delivery import Complete, Decision, Give, tolerance
from controller.transfers.routes import Route, Trust, routes_of
from protocols.language import Lab
from sim.virtual_time import run_virtual
from tests.execution.protocols_for_tests import recipe
from tests.execution.world import OPENED, RIG, Controller, Pump, World

ROUTES = routes_of(RIG)
VERBS: dict[str, Callable[[Lab], Callable[[float], object]]] = {
    "liver.add_glucose": lambda lab: lab.liver.add_glucose,
    "kidney.draw": lambda lab: lab.kidney.draw,
}
SIGMAS = 2.0
"""How far calibration and balance are off at the most, in their standard deviations."""
DRIP_UL = 5.0


@dataclass(frozen=True)
class Event:
    """Something that happens `share` of its time into a dose."""

    kind: str
    share: float
    guarded: bool


@dataclass(frozen=True)
class Case:
    verb: str
    minimums: float
    """The request, in minimum volumes of the pump."""
    used_ul: float
    counter_ul: float
    gain_sds: float
    jitter_g: float
    balance: str
    events: tuple[Event, ...]

    @property
    def route(self) -> Route:
        return ROUTES[self.verb]

    @property
    def requested_ul(self) -> float:
        return max(self.route.min_ul, round(self.minimums * self.route.min_ul, 1))


@dataclass
class Result:
    delivered_ul: float
    low_ul: float
    high_ul: float
    doses: int
    held: bool


events = st.builds(
    Event,
    kind=st.sampled_from(["crash", "crash", "pause", "power", "by hand"]),
    share=st.floats(0.0, 1.1),
    guarded=st.booleans(),
)
cases = st.builds(
    Case,
    verb=st.sampled_from(list(VERBS)),
    minimums=st.one_of(st.floats(1.0, 3.0), st.floats(3.0, 12.0)),
    used_ul=st.sampled_from([0.0, 4000.0]),
    counter_ul=st.sampled_from([1.0, 10.0]),
    gain_sds=st.floats(-SIGMAS, SIGMAS),
    jitter_g=st.sampled_from([0.0, 0.005]),
    balance=st.sampled_from(["works", "works", "dead", "stuck"]),
    events=st.lists(events, max_size=3).map(tuple),
)


def judge(case: Case, result: Result) -> list[str]:
    """Say what is wrong with a run that has ended: nothing in excess of the request, and nothing lost unless it was held."""
    limits = tolerance(case.route, _trust(case), case.requested_ul)
    stated_ul = limits.pump_ul + 2 * limits.weighing_ul * math.sqrt(result.doses) + DRIP_UL
    found = []
    if result.delivered_ul > case.requested_ul + stated_ul:
        found.append(f"excess: {result.delivered_ul:.0f} of {case.requested_ul:.0f} µL, stated {stated_ul:.0f}")
    if result.delivered_ul < case.requested_ul - stated_ul and not result.held:
        found.append(f"lost: {result.delivered_ul:.0f} of {case.requested_ul:.0f} µL, stated {stated_ul:.0f}")
    if not result.low_ul - DRIP_UL <= result.delivered_ul <= result.high_ul + DRIP_UL:
        found.append(f"{result.delivered_ul:.0f} µL are booked as {result.low_ul:.0f} to {result.high_ul:.0f}")
    return found


def _trust(case: Case) -> Trust:
    return Trust(1.0, case.route.rel_sd, case.route.dose_sd_ul, "factory")


async def perform(case: Case, path: Path) -> Result:
    """Carry out one transfer through its events; a person resumes the run whenever it is held."""
    world = World()
    pump = world.pumps[case.route.pump]
    pump.step_ul, pump.counted_ul, pump.gain = case.counter_ul, case.used_ul, 1 + case.gain_sds * case.route.rel_sd
    world.mass_jitter_g = case.jitter_g

    async def one(lab: Lab, params: object) -> None:
        await VERBS[case.verb](lab)(case.requested_ul)  # type: ignore[misc]

    catalogue = {"one": recipe(one)}
    controller = Controller(world, path, catalogue=catalogue)
    if case.balance == "dead":
        world.balance_works = False
    await controller.runs.start("one", {}, "anna", "a test")
    if case.balance == "stuck":
        world.stuck_g = world.mass_g
    held = False
    for event in case.events:
        held |= await _moving(controller, pump)
        if controller.runs.list()[0].state.ended:
            break
        nominal_s = case.requested_ul / case.route.flow_ul_min * 60.0
        await asyncio.sleep(event.share * nominal_s)
        if controller.runs.list()[0].state.ended:
            break
        controller = await _occur(event, controller, world, pump, path)
    for _ in range(12):
        await controller.until(
            lambda: controller.runs.list()[0].state.ended or controller.runs.list()[0].state is RunState.HELD
        )
        run = controller.runs.list()[0]
        if run.state.ended:
            break
        held |= await _resumed(controller)
    assert run.state is RunState.COMPLETE, run.messages
    world.advance()
    rows = [row.body for row in controller.journal.entries(kinds=("moved",)) if "asked_ul" in row.body]
    result = Result(pump.moved_ul, sum(row["low"] for row in rows), sum(row["high"] for row in rows), len(rows), held)
    await controller.gone()
    return result


async def _moving(controller: Controller, pump: Pump) -> bool:
    """Wait until a dose runs or the run has ended; whether the run was held for something on the way."""
    held = False
    while pump.flow_ul_min == 0.0 and not controller.runs.list()[0].state.ended:
        if controller.runs.list()[0].state is RunState.HELD:
            held |= await _resumed(controller)
        await asyncio.sleep(0.2)
        pump.advance()
    return held


async def _resumed(controller: Controller) -> bool:
    """Resume a held run; whether it was held by itself, and an alarm said so."""
    run = controller.runs.list()[0]
    told = bool([kind for kind, _, _ in controller.alarms if kind == "run_held"]) or bool(run.messages)
    await controller.runs.resume(run.id, "anna", "I looked")
    return told


async def _occur(event: Event, controller: Controller, world: World, pump: Pump, path: Path) -> Controller:
    match event.kind:
        case "pause":
            with contextlib.suppress(Exception):
                await controller.runs.pause(controller.runs.list()[0].id, "anna", "a pause")
        case "power":
            pump.lose_power()
        case "by hand":
            pump.stop_by_hand()
        case _:
            await controller.gone()
            if event.guarded:
                pump.stop_by_hand()
            await asyncio.sleep(3.0)
            controller = Controller(world, path, catalogue=controller.catalogue)
            await controller.runs.recover()
            if not controller.runs.list():
                raise RunnerError("the run is gone")
    return controller


def performed(case: Case) -> Result:
    with TemporaryDirectory() as folder:
        try:
            return run_virtual(perform(case, Path(folder) / "j.db"))
        finally:
            while OPENED:
                OPENED.pop().close()


@example(Case("kidney.draw", 1.5, 0.0, 1.0, 0.0, 0.0, "stuck", ()))
@example(Case("kidney.draw", 1.0, 0.0, 1.0, 0.0, 0.0, "dead", (Event("power", 0.0, False),)))
@example(Case("liver.add_glucose", 1.0, 0.0, 10.0, 0.0, 0.0, "works", (Event("crash", 0.0, True),)))
@example(Case("liver.add_glucose", 1.0, 0.0, 1.0, 1.0, 0.0, "dead", (Event("power", 1.0, False),)))
@example(Case("kidney.draw", 1.0, 0.0, 1.0, 0.0, 0.0, "stuck", (Event("power", 0.0, False),)))
@settings(max_examples=120, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(cases)
def test_A10_random_crashes_neither_lose_nor_double_a_dose(case: Case) -> None:
    assert judge(case, performed(case)) == []


SPOILED = Case("liver.add_glucose", 1.0, 4000.0, 10.0, 0.0, 0.0, "works", (Event("crash", 0.0, True),))


def _old_rule(step: StepRecord, route: Route, trust: Trust, requested_ul: float) -> Decision:
    """What releases did that lost doses: a rest below the minimum was dropped."""
    rest_ul = requested_ul - step.charged_ul
    if step.finished or (step.parts and rest_ul < max(route.min_ul, 0.01 * requested_ul)):
        return Complete()
    return Give(rest_ul)


def _whole_again(step: StepRecord, route: Route, trust: Trust, requested_ul: float) -> Decision:
    """A rule that gives the whole dose after every crash."""
    return Complete() if step.finished else Give(requested_ul)


def test_J1_the_judge_notices_the_rule_that_lost_doses(monkeypatch: pytest.MonkeyPatch) -> None:
    assert judge(SPOILED, performed(SPOILED)) == []
    monkeypatch.setattr(transfers, "decide", _old_rule)
    assert [each for each in judge(SPOILED, performed(SPOILED)) if each.startswith("lost")]


def test_J1_the_judge_notices_a_dose_that_is_given_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfers, "decide", _whole_again)
    case = Case("liver.add_glucose", 4.0, 4000.0, 10.0, 0.0, 0.0, "works", (Event("crash", 0.7, True),))
    assert [each for each in judge(case, performed(case)) if each.startswith("excess")]
