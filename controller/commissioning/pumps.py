"""Checks of pumps: each moves the commanded flow, as seen on the balance and on the gauge of its line, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from math import inf, isfinite, isnan

from controller.commissioning.bench import WHO, CommissioningRig, Effect
from controller.commissioning.terms import Ask, Check
from controller.hazards import physics
from controller.hazards.pressure import working_kpa
from controller.hazards.terms import Subject
from controller.rig.description import Line, Rig
from controller.rig.graph import entering, heart_of_line, lines_of_heart
from controller.rig.problems import named
from controller.rig.selectors import paths
from controller.safety.limits import limits_of
from drivers.commands import Run

DOSE_UL = 1500.0
"""Volume of each test dose (µL); a wrong one neither empties nor overfills a vessel of a rig that passed its check."""
TOLERANCE = 0.3
"""Relative tolerance of a dose: uncalibrated pumps differ by up to 25 %."""
NOTHING_G = 0.15
"""Effect of drips and draught on the balance (g)."""
SHARE = 0.3
"""Minimum rise of a responding gauge, as a share of the pressure that its line needs."""
NOISE_KPA = 0.2
HEART_S = 40.0
PART = 0.5
"""Share of what a small vessel holds, or has room for, that a test dose moves at most."""


@dataclass(frozen=True, slots=True)
class Signature:
    """Effect of a pump: fills (+1), empties (-1) or leaves (0) the weighed vessel, and the gauges that rise."""

    mass: int
    gauges: frozenset[str]


NOTHING = Signature(0, frozenset())
"""Neither balance nor gauge responds."""


def signatures(rig: Rig, gauges: tuple[str, ...]) -> dict[str, Signature]:
    """Return the expected effect of each pumped line, by the rig file. Without a kidney nothing is weighed."""
    kidney = rig.organs.kidney
    weighed = None if kidney is None else kidney.vessel
    return {
        name: Signature(
            (line.to == weighed) - (line.from_ == weighed),
            frozenset(gauge for gauge in gauges if rig.devices[gauge.partition(".")[0]].at == name),
        )
        for name, line in rig.lines.items()
        if line.pump is not None
    }


async def heart(bench: CommissioningRig, ask: Ask, name: str) -> Check:
    """Raise a heart from its minimum to its maximum flow: its gauge rises, and the balance stays.

    If no gauge stands on its line, a person looks at it.
    """
    rig, spec = bench.rig, bench.rig.organs.hearts[name]
    pump = rig.lines[spec.line].pump or ""
    watched = bool(signatures(rig, bench.gauges)[spec.line].gauges)
    effect = f"{spec.max_ul_min / 1000:g} mL/min raise the gauge of line {spec.line}"
    if not watched:
        effect = f"{spec.max_ul_min / 1000:g} mL/min run along line {spec.line}"
    if bench.scale is not None:
        await bench.gate.stop(pump, "it stands while the balance is read", requester=WHO)
    before_g = await bench.weight()
    low = await bench.keep(pump, Run(spec.min_ul_min), HEART_S, "test of the heart")
    rest = {gauge: await bench.value(gauge) for gauge in bench.gauges}
    await bench.keep(pump, Run(spec.max_ul_min), HEART_S, "test of the heart")
    rise = {gauge: await bench.value(gauge) - rest[gauge] for gauge in bench.gauges}
    flow_ul_min = bench.flow(pump)
    seen = watched or not low.ok or await _is_seen(bench, ask, name, pump)
    if bench.scale is not None:
        await bench.gate.stop(pump, "it stands while the balance is read", requester=WHO)
    after_g = await bench.weight()
    if not low.ok:
        return Check(pump, effect, False, f"it cannot be commanded: {low.why}")
    if not seen:
        return Check(
            pump, effect, False, f"a person saw otherwise. Look at power, cassette, tubing and clamps of {pump}"
        )
    return _heart_check(bench, name, effect, after_g - before_g, rise, flow_ul_min)


async def _is_seen(bench: CommissioningRig, ask: Ask, name: str, pump: str) -> bool:
    """Let a person look at a heart without a gauge, while it runs at its maximum."""
    rig, spec = bench.rig, bench.rig.organs.hearts[name]
    ends = named([vessel for line in lines_of_heart(rig, name) for vessel in entering(rig, line)])
    question = (
        f"Does medium run along line “{spec.line}” from {rig.lines[spec.line].from_} into {ends}, out of each outlet,"
        " and along no other line?"
    )
    running = asyncio.create_task(bench.keep(pump, Run(spec.max_ul_min), inf, "a person looks at the heart"))
    try:
        return await ask(question)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def _heart_check(
    bench: CommissioningRig,
    name: str,
    effect: str,
    mass_g: float,
    rise: Mapping[str, float],
    flow_ul_min: float,
) -> Check:
    """Judge a heart by the change of the balance, the rise of the gauges (kPa) and the flow that it reports."""
    rig, spec = bench.rig, bench.rig.organs.hearts[name]
    line, pump = spec.line, bench.rig.lines[spec.line].pump or ""
    needed = physics.line_kpa(rig.lines[line], spec.max_ul_min - spec.min_ul_min)
    watched = bool(signatures(rig, bench.gauges)[line].gauges)
    seen = Signature(_sign(mass_g), frozenset(g for g, kpa in rise.items() if kpa > SHARE * needed))
    check = _judge(bench, line, pump, effect, seen) if watched or seen != NOTHING else Check(pump, effect, True, "")
    if not check.ok:
        return check
    if isnan(flow_ul_min) or abs(flow_ul_min - spec.max_ul_min) > TOLERANCE * spec.max_ul_min:
        what = f"it says that it moves {flow_ul_min / 1000:g} mL/min. Check its tubing setting"
        return Check(pump, effect, False, what)
    if not watched:
        return Check(pump, effect, True, "a person saw medium run out of each outlet")
    return Check(pump, effect, True, ", ".join(f"{gauge} rose by {rise[gauge]:.2f} kPa" for gauge in seen.gauges))


async def transfers(bench: CommissioningRig, ask: Ask) -> AsyncIterator[Check]:
    """Give one dose along each line that an organ uses for transfers: first those that fill, then those that empty.

    Lines at selectors have checks of their own (:mod:`controller.commissioning.selectors`).
    """
    rig = bench.rig
    expected = signatures(rig, bench.gauges)
    selected = {path.pumped for path in paths(rig) if path.positions}
    lines = [name for name in expected if heart_of_line(rig, name) is None and name not in selected]
    for name in sorted(lines, key=lambda line: -expected[line].mass):
        yield await _transfer(bench, ask, name, expected[name])


def _dose_ul(bench: CommissioningRig, name: str) -> float:
    """Return the volume of a test dose: less than usual where the vessels are small and the balance is not needed (µL)."""
    rig, line = bench.rig, bench.rig.lines[name]
    if bench.weighed is not None and bench.weighed in (line.from_, line.to):
        return DOSE_UL
    rooms = [
        (rig.vessels[vessel].limit_ul - bench.volumes[vessel].ul) / share
        for vessel, share in entering(rig, name).items()
    ]
    left = bench.volumes[line.from_].ul - rig.vessels[line.from_].floor_ul
    return min(DOSE_UL, *(PART * each for each in (*rooms, left)))


async def _transfer(bench: CommissioningRig, ask: Ask, name: str, wanted: Signature) -> Check:
    line = bench.rig.lines[name]
    pump, dose_ul = line.pump or "", _dose_ul(bench, name)
    sides = {1: f"fill {bench.weighed}", -1: f"empty {bench.weighed}", 0: f"do not change {bench.weighed}"}
    if bench.weighed is None:
        sides[0] = f"run along line {name}"
    effect = f"{dose_ul / 1000:g} mL {sides[wanted.mass]}"
    if dose_ul <= 0.0:
        return Check(
            pump, effect, False, f"“{line.from_}” holds nothing to move, or its target is full. Fill as the file says"
        )
    own = (line.valve,) if line.valve else ()
    done = await bench.dose(name, dose_ul, own)
    if done.refused is not None:
        return Check(pump, effect, False, f"the dose was not given: {done.refused}")
    seen = Signature(_sign(done.mass_g), _risen(bench, done))
    if seen.mass == 0 and wanted.mass != 0 and not seen.gauges - wanted.gauges:
        return await _nothing_moved(bench, name, effect, done)
    check = _judge(bench, name, pump, effect, seen)
    if not check.ok:
        return check
    return await _amount(bench, ask, name, wanted, effect, done)


async def _amount(bench: CommissioningRig, ask: Ask, name: str, wanted: Signature, effect: str, done: Effect) -> Check:
    """Check the amount of a dose with the right effect. Ask a person if another line, or none, would show the same effect."""
    line = bench.rig.lines[name]
    pump = line.pump or ""
    if wanted.mass and abs(abs(done.mass_g) * 1000.0 - DOSE_UL) > TOLERANCE * DOSE_UL:
        what = f"{abs(done.mass_g):.2f} g moved where {DOSE_UL / 1000:g} g were asked for. Check its tubing, and calibrate it"
        return Check(pump, effect, False, what)
    same = [other for other, each in signatures(bench.rig, bench.gauges).items() if each == wanted and other != name]
    unseen = bool(same) or wanted == NOTHING
    if unseen and not await ask(
        f"Has liquid gone along line “{name}” ({line.from_} to {line.to}), and along no other?"
    ):
        what = f"a person saw another line move. Compare channel or link of {pump} with line {', '.join(same)}"
        return Check(
            pump, effect, False, what if same else f"a person saw otherwise. Look at tubing and clamps of {pump}"
        )
    if bench.scale is None:
        return Check(pump, effect, True, "a person saw it" if unseen else f"{', '.join(wanted.gauges)} rose")
    return Check(pump, effect, True, f"the balance changed by {done.mass_g:+.2f} g")


async def _nothing_moved(bench: CommissioningRig, name: str, effect: str, done: Effect) -> Check:
    """Find out why nothing was moved: a dead pump, or a valve that the file puts on another line."""
    rig = bench.rig
    line = rig.lines[name]
    pump = line.pump or ""
    own = (line.valve,) if line.valve else ()
    others = {each.valve for each in rig.lines.values() if each.valve is not None and each.valve != line.valve}
    for valve in sorted(others):
        again = await bench.dose(name, DOSE_UL, (*own, valve))
        if again.refused is None and _sign(again.mass_g):
            what = f"it moves medium only while {valve} is open: that valve is on line “{name}”, unlike in the file"
            return Check(pump, effect, False, what)
    return Check(pump, effect, False, f"the pump moves nothing: {_blockage(line, done)}")


def _blockage(line: Line, done: Effect) -> str:
    """Return where to look for the cause of a pump that moves nothing."""
    pressed = [f"{gauge} rose by {kpa:.0f} kPa" for gauge, kpa in done.rise_kpa.items() if kpa > 5.0]
    if pressed:
        return f"its line is shut ({', '.join(pressed)}): look at valve {line.valve}, clamps and filter"
    return "look at its power, its cassette and its tubing, and at clamps"


def _risen(bench: CommissioningRig, done: Effect) -> frozenset[str]:
    """Return the gauges that rose by what a line with a gauge needs."""
    subject = Subject(bench.rig, limits_of(bench.rig))
    needs = {}
    for gauge in bench.gauges:
        line = bench.rig.lines[bench.rig.devices[gauge.partition(".")[0]].at or ""]
        needs[gauge] = working_kpa(subject, line) if line.pump else 0.0
    min_kpa = min((SHARE * need for need in needs.values() if need), default=0.0)
    return frozenset(gauge for gauge, kpa in done.rise_kpa.items() if kpa > max(NOISE_KPA, min_kpa))


def _sign(mass_g: float) -> int:
    if not isfinite(mass_g) or abs(mass_g) < NOTHING_G:
        return 0
    return 1 if mass_g > 0 else -1


def _judge(bench: CommissioningRig, name: str, pump: str, effect: str, seen: Signature) -> Check:
    """Compare the observed effect with the expected one, and name the part that pump or gauge seems to be."""
    rig = bench.rig
    expected = signatures(rig, bench.gauges)
    wanted = expected[name]
    if seen == wanted:
        return Check(pump, effect, True, "as the file says")
    if seen.mass == wanted.mass and len(seen.gauges) == len(wanted.gauges) == 1:
        (right,), (wrong,) = wanted.gauges, seen.gauges
        what = f"gauge {wrong} responds to {pump}, and {right} does not: the gauges are exchanged, or the pumps are"
        return Check(pump, effect, False, what)
    if seen == NOTHING:
        return Check(pump, effect, False, "nothing responds: the pump moves nothing, or its gauge sits elsewhere")
    did = {1: "fills", -1: "empties", 0: "leaves"}[seen.mass]
    gauges = f", and {', '.join(sorted(seen.gauges))} responds" if seen.gauges else ", and no gauge responds"
    like = _like(rig, expected, seen)
    which = f"as {' or '.join(like)} should: they are exchanged" if like else "as no line of the file does"
    return Check(pump, effect, False, f"it {did} {bench.weighed or 'the balance'}{gauges}, {which}")


def _like(rig: Rig, expected: Mapping[str, Signature], seen: Signature) -> list[str]:
    """Return the pumps that are expected to have the observed effect."""
    like = [f"{rig.lines[other].pump} (line “{other}”)" for other, its in expected.items() if its == seen]
    if like or seen.mass != 0:
        return like
    # A pump that presses against its own closed valve moves nothing.
    valves = (other for other, its in expected.items() if its.gauges == seen.gauges and rig.lines[other].valve)
    return [f"{rig.lines[other].pump} (line “{other}”, its valve shut)" for other in valves]
