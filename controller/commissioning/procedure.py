"""The procedure of commissioning: a person prepares the rig, each part is moved once, and its effect is checked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from controller.commissioning import pumps, surroundings
from controller.commissioning.bench import WHO, CommissioningRig
from controller.commissioning.record import wiring_hash
from controller.commissioning.terms import Ask, Check, Report, Tell
from controller.rig.quantities import quantity_text
from drivers.commands import Run, Switch

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
    return (
        f"No tissue is in the rig, the vessels hold medium or stock as the file says ({vessels}), lines are primed, every"
        " tube is in its pump, the gas bottles are open, and the chamber is warm?"
    )


async def _checks(bench: CommissioningRig, ask: Ask) -> AsyncIterator[Check]:
    rig = bench.rig
    for device in bench.unreachable:
        yield Check(device, "answers", False, "it does not answer. Check power, cable and address")
    heart = rig.lines[rig.organs.heart.line].pump or ""
    beats = await pumps.heart(bench)
    yield beats
    beating = None
    if beats.ok:  # draws are refused while the heart stands
        keep = bench.keep(heart, Run(rig.organs.heart.basal_ul_min), float("inf"), "the heart goes on")
        beating = asyncio.create_task(keep, name="heart")
    try:
        async for check in pumps.transfers(bench, ask):
            yield check
        if (found := await surroundings.ph_probes(bench)) is not None:
            yield found
        for check in await _valves(bench, ask):
            yield check
        async for check in _surroundings(bench):
            yield check
    finally:
        if beating is not None:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)
    yield await _emergency(bench)


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


async def _emergency(bench: CommissioningRig) -> Check:
    """Stop everything: the heart falls to its basal flow, and further commands are refused until the reset."""
    rig = bench.rig
    heart = rig.lines[rig.organs.heart.line].pump or ""
    effect = "everything but the basal circulation rests"
    await bench.command(heart, Run(rig.organs.heart.max_ul_min), "test of the emergency stop")
    await bench.gate.estop(WHO, "test of the emergency stop")
    await asyncio.sleep(STOP_S)
    await bench.gate.poll(heart)
    flow = bench.flow(heart)
    pulse = await bench.command(heart, Run(rig.organs.heart.max_ul_min), "test of the emergency stop")
    bench.gate.reset(WHO, "the test of the emergency stop is over")
    basal = abs(flow - rig.organs.heart.basal_ul_min) <= 0.1 * rig.organs.heart.basal_ul_min
    if basal and not pulse.ok:
        return Check("emergency stop", effect, True, f"the heart fell to {flow / 1000:g} mL/min; commands were refused")
    what = f"the heart says {flow / 1000:g} mL/min" if not basal else "a command passed all the same"
    return Check("emergency stop", effect, False, f"{what}. Check the link of {heart}; do not put tissue in")
