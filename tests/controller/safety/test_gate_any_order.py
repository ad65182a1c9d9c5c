"""The gate under any sequence of requests, failures and pauses; single cases are in test_gate.py."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.gate.readback import command_text
from controller.rig.description import Rig
from controller.safety.kernel import comes_to_rest
from drivers.commands import Command, Dispense, Level, Run, Stop, Switch
from drivers.device import Actuator
from sim.virtual_time import run_virtual
from tests.controller.safety.bench import Bench
from tests.controller.safety.facts import RIG
from tests.controller.safety.hearts import three_hearts

HEART, HEATER, VALVE = "reglo.heart", "relay.heater", "relay.return_valve"
DRAW, RETURN, FEED, CO2 = "reglo.draw", "reglo.return", "dose_fresh.pump", "gas_co2.flow"

RIGS: dict[str, Rig] = {"one heart": RIG, "three hearts": three_hearts()}


def steps(hearts: Sequence[str]) -> st.SearchStrategy[list[tuple[str, Any]]]:
    """Requests, failures and pauses of a rig with some hearts."""
    heart = st.sampled_from(hearts)
    asked: st.SearchStrategy[tuple[str, Command]] = st.one_of(
        st.tuples(heart, st.builds(Run, st.floats(100.0, 9000.0)) | st.just(Stop())),
        st.tuples(st.just(HEATER), st.builds(Switch, st.booleans(), st.none() | st.floats(1.0, 200.0))),
        st.tuples(st.just(VALVE), st.builds(Switch, st.booleans())),
        st.tuples(st.just(CO2), st.builds(Level, st.floats(0.0, 20.0))),
        st.tuples(
            st.sampled_from([DRAW, RETURN, FEED]),
            st.builds(
                Dispense, st.floats(100.0, 6000.0), st.floats(2000.0, 12_000.0), st.sampled_from(["d-1", "d-2", "d-3"])
            ),
        ),
    )
    failing = heart | st.sampled_from([HEATER, VALVE, DRAW, RETURN])
    step: st.SearchStrategy[tuple[str, Any]] = st.one_of(
        st.tuples(st.just("ask"), st.lists(asked, min_size=1, max_size=4)),
        st.tuples(st.just("wait"), st.integers(1, 45)),
        st.tuples(st.just("silence"), failing),
        st.tuples(st.just("deafen"), failing),
        st.tuples(st.just("restore"), st.none()),
        st.tuples(st.just("estop"), st.none()),
        st.tuples(st.just("reset"), st.none()),
    )
    return st.lists(step, min_size=1, max_size=12)


@dataclass
class Witness:
    """Check every command on its way from the gate to a device."""

    bench: Bench
    wrong: list[str] = field(default_factory=list)
    busy: set[str] = field(default_factory=set)

    def watch(self) -> None:
        for name, output in self.bench.outputs.items():
            self._stand_before(name, output)

    def _stand_before(self, name: str, output: Actuator) -> None:
        device = output.apply

        async def apply(command: Command) -> None:
            self.saw(name, command)
            overlapping = name in self.busy
            if overlapping and self.bench.gate.emergency is None:
                self.wrong.append(f"two commands at once to {name}")
            self.busy.add(name)
            try:
                await device(command)
            finally:
                self.busy.discard(name)

        output.apply = apply  # type: ignore[method-assign]

    def saw(self, name: str, command: Command) -> None:
        gate = self.bench.gate
        rows = [row for row in self.bench.rows.of("act") if row["actuator"] == name]
        recorded = [row.get("allowed") or row["command"] for row in rows]
        debt = gate._outputs[name].debt
        if debt is None or debt.command != command:
            recorded = recorded[-1:]  # a pending command has one row, however often it is tried
        if command_text(command) not in recorded and gate.emergency is None:
            self.wrong.append(f"{name} receives {command}, the journal says {recorded}")
        calm = comes_to_rest(command) or command == self.bench.limits.basal[name]
        if gate.emergency is not None and not calm:
            self.wrong.append(f"{name} receives {command} in an emergency")
        match command:
            case Switch(on=True, for_s=for_s) if name == HEATER and not (for_s is not None and 0 < for_s <= 60):
                self.wrong.append(f"heat without an end: {command}")
            case Run(flow_ul_min=flow) if name not in self.bench.hearts or not 300.0 <= flow <= 4000.0:
                self.wrong.append(f"{name} receives {command}")
            case Dispense(volume_ul=ul) if not math.isfinite(ul):
                self.wrong.append(f"an endless dose for {name}")


def _restore(bench: Bench) -> None:
    for output in bench.outputs.values():
        output.silent = output.deaf = False


async def _live_through(rig: Rig, steps: list[tuple[str, Any]]) -> list[str]:
    bench = Bench(rig=rig)
    witness = Witness(bench)
    witness.watch()
    await bench.circulate()
    for step, what in steps:
        match step:
            case "ask":
                before = len(bench.rows.rows)
                outcomes = await asyncio.gather(*(bench.ask(*request) for request in what))
                for (name, _), outcome in zip(what, outcomes, strict=True):
                    if not outcome.accepted and not outcome.reasons:
                        witness.wrong.append(f"{name} is refused without a reason")
                doses = [o for (_, request), o in zip(what, outcomes, strict=True) if isinstance(request, Dispense)]
                refused = [body for kind, body in bench.rows.rows[before:] if kind == "act.refused"]
                if sum(not outcome.accepted for outcome in doses) > len(refused):
                    witness.wrong.append("a refused dose is not in the journal")
            case "wait":
                await bench.live(what)
            case "silence":
                bench.outputs[what].silent = True
            case "deafen":
                bench.outputs[what].deaf = True
            case "restore":
                _restore(bench)
            case "estop":
                await bench.gate.estop("anna", "a drill")
            case "reset":
                bench.gate.reset("anna", "all is well")
    _restore(bench)
    if bench.gate.emergency is not None:
        await bench.live(60)  # however long: nothing but a person ends it (I5)
        if (await bench.ask(bench.hearts[-1], Run(2000.0))).accepted:
            witness.wrong.append("an emergency ended by itself")
    bench.gate.reset("anna", "all is well")
    await bench.live(200, poll_every=10)  # no further requests
    for name, output in bench.outputs.items():
        said = await bench.gate.status(name)
        view = bench.store.actuators[name]
        if name in bench.hearts:
            if bench.pump(name).flow not in (0.0, 1600.0):
                witness.wrong.append(f"the heart runs at {bench.pump(name).flow} without a lease")
        elif output.kind != "level" and (getattr(said, "running", False) or getattr(said, "on", False)):
            witness.wrong.append(f"{name} is still on: {said}")
        if view.lease_until_s is not None:
            witness.wrong.append(f"{name} still has a lease")
    return witness.wrong


@pytest.mark.parametrize("name", RIGS)
@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_A1_A5_A7_A9_D4_whatever_is_asked_and_whatever_fails(name: str, data: st.DataObject) -> None:
    """A row before each byte, one command at a time, no heat or flow without an end, and rest without requests."""
    rig = RIGS[name]
    hearts = [rig.lines[heart.line].pump or "" for heart in rig.organs.hearts.values()]
    assert run_virtual(_live_through(rig, data.draw(steps(hearts)))) == []


@pytest.mark.virtual_time
async def test_concurrent_submits_to_one_actuator_are_serialised_and_others_do_not_wait() -> None:
    bench = Bench()
    witness = Witness(bench)
    witness.watch()
    bench.outputs[HEART].takes_s = 2.0
    begin_s = bench.loop.time()
    beats = [asyncio.create_task(bench.ask(HEART, Run(500.0 * n))) for n in (1, 2, 3)]
    await asyncio.sleep(0)
    assert (await bench.ask(HEATER, Switch(True, 5.0))).ok
    assert bench.loop.time() - begin_s < 1.0
    outcomes = await asyncio.gather(*beats)
    assert [outcome.seq for outcome in outcomes] == sorted(outcome.seq or 0 for outcome in outcomes)
    assert witness.wrong == []
