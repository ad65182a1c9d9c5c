"""The heart's regulator: renews in time, and asks at once when the pump stands."""

from __future__ import annotations

from itertools import pairwise

from controller.core.state import State
from controller.regulation.heart import HeartRegulator
from drivers.commands import Command, PumpStatus, Run
from tests.controller.regulation.states import RIG, output, state

PUMP = "reglo.heart"
FLOW = Run(RIG.organs.hearts["heart"].flow_ul_min)


def circulating(at_s: float, *, running: bool = True, commanded: Command | None = FLOW) -> State:
    return state(at_s, {}, {PUMP: output(PumpStatus(running, 2000.0, 0.0), commanded)})


def test_A1_the_lease_is_renewed_well_within_its_time() -> None:
    regulator = HeartRegulator(RIG.organs.hearts["heart"], PUMP, "regulator:heart")
    asked = [second for second in range(300) if regulator.intents(circulating(float(second)))]
    gaps = [later - earlier for earlier, later in pairwise(asked)]
    assert max(gaps) <= RIG.organs.hearts["heart"].lease_s / 2
    assert len(asked) <= 300 / (RIG.organs.hearts["heart"].lease_s / 4)


def test_a_heart_that_stands_is_asked_for_at_every_tick() -> None:
    regulator = HeartRegulator(RIG.organs.hearts["heart"], PUMP, "regulator:heart")
    for second in range(20):
        assert regulator.intents(circulating(float(second), running=False))
    for second in range(20, 40):
        assert regulator.intents(circulating(float(second), commanded=Run(1000.0)))
    assert regulator.intents(state(40.0, {}, {}))


def test_it_wants_what_the_rig_says_and_says_why() -> None:
    (intent,) = HeartRegulator(RIG.organs.hearts["heart"], PUMP, "regulator:heart").intents(state(0.0, {}, {}))
    assert intent.command == FLOW
    assert intent.requester == "regulator:heart"
    assert intent.reason
