"""The gate on a rig with three hearts: each has its own lease, interlocks and basal flow."""

from __future__ import annotations

import pytest

from controller.gate.foreign import AGAIN_S
from drivers.commands import Dispense, Run, Stop
from tests.controller.safety.bench import Bench
from tests.controller.safety.facts import DRAW
from tests.controller.safety.hearts import HEARTS, gauge, pump, three_hearts
from tests.controller.safety.test_foreign import second_master

pytestmark = pytest.mark.virtual_time

LEFT, MIDDLE, RIGHT = map(pump, HEARTS)
OTHERS = (MIDDLE, RIGHT)
LEASE_S = 30


def flows(bench: Bench) -> dict[str, float]:
    return {heart: bench.pump(heart).flow for heart in bench.hearts}


async def renewed(bench: Bench, hearts: tuple[str, ...], seconds: int) -> None:
    """Live on while the leases of some hearts are renewed."""
    for _ in range(seconds // 10):
        await bench.live(10)
        for heart in hearts:
            await bench.ask(heart, Run(2000.0))


async def test_A1_each_heart_has_a_lease_of_its_own() -> None:
    bench = Bench(rig=three_hearts())
    await bench.circulate()
    await renewed(bench, OTHERS, LEASE_S + 10)
    assert flows(bench) == {LEFT: 1600.0, MIDDLE: 2000.0, RIGHT: 2000.0}
    assert bench.raised("lease_expired") == [LEFT]


async def test_I1_pressure_in_one_line_stops_one_heart() -> None:
    bench = Bench(rig=three_hearts())
    await bench.circulate()
    bench.readings[gauge("left")] = 90.0
    await bench.live(3)
    assert flows(bench) == {LEFT: 0.0, MIDDLE: 2000.0, RIGHT: 2000.0}
    assert (await bench.ask(MIDDLE, Run(2500.0))).ok
    verdict = await bench.ask(LEFT, Run(2000.0))
    assert any("over_pressure_heart.to_left" in reason for reason in verdict.reasons)


async def test_a_dead_gauge_slows_its_own_heart_only() -> None:
    bench = Bench(rig=three_hearts())
    await bench.circulate()
    bench.readings[gauge("left")] = None
    await renewed(bench, bench.hearts, 20)
    assert flows(bench) == {LEFT: 1600.0, MIDDLE: 2000.0, RIGHT: 2000.0}


async def test_a_draw_from_a_shared_loop_stops_when_no_heart_mixes_it() -> None:
    bench = Bench(rig=three_hearts())
    await bench.circulate()
    assert (await bench.ask(DRAW, Dispense(10_000.0, 4000.0, "long"))).ok
    for heart in (RIGHT, MIDDLE):
        bench.pump(heart).flow, bench.pump(heart).deaf = 0.0, True
    await bench.live(8)
    assert bench.pump(DRAW).flow == 4000.0
    assert bench.pump(LEFT).flow == 2000.0
    bench.pump(LEFT).flow, bench.pump(LEFT).deaf = 0.0, True
    await bench.live(8)
    assert bench.pump(DRAW).flow == 0.0
    refused = await bench.ask(DRAW, Dispense(1000.0, 4000.0, "next"))
    assert refused.reasons[0] == f"interlock no_heart_flow.left: {LEFT} heart left stands"


async def test_A12_a_heart_under_foreign_command_is_kept_at_its_basal_flow_and_the_others_obey() -> None:
    bench = Bench(rig=three_hearts())
    await bench.circulate()
    await second_master(bench, RIGHT, Stop(), 60)
    sent = await second_master(bench, RIGHT, Stop(), 540)
    assert set(sent) == {Run(1600.0)}, "its basal state, and nothing else"
    assert 540 / AGAIN_S - 2 <= len(sent) <= 540 / AGAIN_S + 1
    assert (await bench.ask(LEFT, Run(2000.0))).ok
    assert {source for kind, source, _ in bench.alarms if kind == "foreign_command"} == {RIGHT}


async def test_A9_an_emergency_stop_leaves_every_heart_at_its_basal_flow() -> None:
    bench = Bench(rig=three_hearts())
    await bench.circulate()
    bench.outputs[MIDDLE].silent = True
    await bench.gate.estop("anna", "a drill")
    assert (flows(bench)[LEFT], flows(bench)[RIGHT]) == (1600.0, 1600.0)
    bench.outputs[MIDDLE].silent = False
    await bench.live(20)
    assert set(flows(bench).values()) == {1600.0}


async def test_the_controllers_leave_taking_leaves_every_heart_at_its_basal_flow() -> None:
    bench = Bench(rig=three_hearts())
    await bench.circulate()
    assert await bench.gate.fall_back("the controller ends") == ()
    assert set(flows(bench).values()) == {1600.0}
