"""The procedure of commissioning: a person prepares the rig, each part is moved once, and its effect is checked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

from controller.commissioning import pumps, selectors, surroundings
from controller.commissioning.bench import WHO, CommissioningRig
from controller.commissioning.record import wiring_hash
from controller.commissioning.terms import Ask, Check, Report, Tell
from controller.rig.organs import HeartConfig
from controller.rig.quantities import quantity_text
from drivers.commands import Command, Dispense, Run, Switch

STOP_S = 3.0


class NotReady(Exception):
    """The person has not confirmed the preparation. The message says what is needed."""


async def commission(bench: CommissioningRig, *, by: str, utc: str, ask: Ask, tell: Tell) -> Report:
    """Carry out every check; a failed check does not prevent the others.

    Args:
        bench: the connected rig.
        by: the person responsible.
        utc: time of the start.
        ask: asks the person.
        tell: called with each result at once.

    Returns:
        The report.

    Raises:
        NotReady: the person did not confirm the preparation; nothing was moved.
    """
    prepared = preparation(bench)
    if not await ask(prepared):
        raise NotReady(f"nothing was moved. Next: {prepared}")
    checks = []
    async for check in _checks(bench, ask):
        tell(str(check))
        checks.append(check)
    return Report(bench.rig.name, wiring_hash(bench.rig), by, utc, tuple(checks))


def preparation(bench: CommissioningRig) -> str:
    """Return what the person has to prepare."""
    vessels = ", ".join(
        f"{name} {quantity_text(vessel.volume_ul, 'uL')}"
        for name, vessel in bench.rig.vessels.items()
        if vessel.volume_ul
    )
    rig = bench.rig
    ready = ["lines are primed, every tube is in its pump"] if any(line.pump for line in rig.lines.values()) else []
    if rig.organs.lung is not None:
        ready.append("the gas bottles are open")
    what = ", ".join((*ready, "and the chamber is warm" if ready else "the chamber is warm"))
    return f"No tissue is in the rig, the vessels hold medium or stock as the file says ({vessels}), {what}?"


async def _checks(bench: CommissioningRig, ask: Ask) -> AsyncIterator[Check]:
    rig = bench.rig
    for device in bench.unreachable:
        yield Check(device, "answers", False, "it does not answer. Check power, cable and address")
    beating = []
    for name, heart in rig.organs.hearts.items():
        beats = await pumps.heart(bench, ask, name)
        yield beats
        if beats.ok:  # draws are refused while the heart stands
            pump = rig.lines[heart.line].pump or ""
            keep = bench.keep(pump, Run(heart.basal_ul_min), float("inf"), "the heart goes on")
            beating.append(asyncio.create_task(keep, name=name))
    try:
        async for check in pumps.transfers(bench, ask):
            yield check
        async for check in selectors.ports(bench, ask):
            yield check
        if (found := await surroundings.ph_probes(bench)) is not None:
            yield found
        for check in await _valves(bench, ask):
            yield check
        async for check in _surroundings(bench):
            yield check
        if not any(line.pump for line in rig.lines.values()):
            async for check in surroundings.readings(bench, ask):
                yield check
    finally:
        for task in beating:
            task.cancel()
        await asyncio.gather(*beating, return_exceptions=True)
    async for check in _emergency(bench):
        yield check


async def _surroundings(bench: CommissioningRig) -> AsyncIterator[Check]:
    """Check the gases and the heater, as far as the rig has them."""
    lung, skin = bench.rig.organs.lung, bench.rig.organs.skin
    if lung is not None:
        async for check in surroundings.gases(bench, lung):
            yield check
    if skin is not None:
        yield await surroundings.warmth(bench, skin)


async def _valves(bench: CommissioningRig, ask: Ask) -> list[Check]:
    """Check that a person sees each valve open and close; that medium passes is checked with its pump."""
    checks = []
    for name, line in bench.rig.lines.items():
        if line.valve is None:
            continue
        outcome = await bench.command(line.valve, Switch(True), "test of the valve")
        seen = outcome.ok and await ask(f"Is the valve of line “{name}” open now, and no other?")
        await bench.command(line.valve, Switch(False), "test of the valve ends")
        shut = seen and await ask(f"Is the valve of line “{name}” shut now?")
        why = "a person saw otherwise" if outcome.ok else f"it could not be switched: {outcome.why}"
        checks.append(Check(line.valve, f"opens line {name}", shut, "a person saw it open and shut" if shut else why))
    return checks


async def _emergency(bench: CommissioningRig) -> AsyncIterator[Check]:
    """Stop everything: each heart falls to its basal flow, and further commands are refused until the reset.

    A rig without actuators has nothing to stop.
    """
    rig = bench.rig
    hearts = {rig.lines[heart.line].pump or "": heart for heart in rig.organs.hearts.values()}
    others = [line.pump for line in rig.lines.values() if line.pump is not None and line.pump not in hearts]
    trials: dict[str, Command] = {pump: Run(heart.max_ul_min) for pump, heart in hearts.items()}
    if not trials and others:
        trials = {others[0]: Dispense(1.0, 1.0, f"{WHO}.emergency")}
    if not trials:
        return
    effect = "everything but the basal circulation rests"
    for pump in hearts:
        await bench.command(pump, trials[pump], "test of the emergency stop")
    await bench.gate.estop(WHO, "test of the emergency stop")
    await asyncio.sleep(STOP_S)
    passed = []
    for pump, command in trials.items():
        await bench.gate.poll(pump)
        if (await bench.command(pump, command, "test of the emergency stop")).ok:
            passed.append(pump)
    flows = {pump: bench.flow(pump) for pump in hearts}
    bench.gate.reset(WHO, "the test of the emergency stop is over")
    yield _stopped(effect, hearts, flows, passed)


def _stopped(effect: str, hearts: Mapping[str, HeartConfig], flows: Mapping[str, float], passed: list[str]) -> Check:
    """Judge the emergency stop by the flow that each heart reports (µL/min) and by the pumps that obeyed all the same."""
    for pump, heart in hearts.items():
        if not abs(flows[pump] - heart.basal_ul_min) <= 0.1 * heart.basal_ul_min:
            what = f"the heart says {flows[pump] / 1000:g} mL/min. Check the link of {pump}; do not put tissue in"
            return Check("emergency stop", effect, False, what)
    if passed:
        what = f"a command passed all the same. Check the link of {passed[0]}; do not put tissue in"
        return Check("emergency stop", effect, False, what)
    if not hearts:
        return Check("emergency stop", effect, True, "commands were refused")
    fell = " and ".join(f"{flow / 1000:g} mL/min" for flow in flows.values())
    return Check("emergency stop", effect, True, f"the heart fell to {fell}; commands were refused")
