"""Checks of selectors: each port is set, read back, and passes a dose that a person sees at its vessel and nowhere else.

No reading shows where a valve leads: a rotor that slipped, or two tubes that are exchanged, report the right position.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from math import inf, isfinite, nan

from controller.commissioning.bench import WHO, CommissioningRig
from controller.commissioning.terms import Ask, Check
from controller.rig.dosing import dose_flow_ul_min, dosing_paths, levels_of
from controller.rig.families import MASS, points_of
from controller.rig.selectors import PumpedPath, forbidden, paths
from controller.transfers.routes import dosing_of
from drivers.commands import Dispense, Level

PORT_UL = 200.0
"""Volume of a test dose (µL): drops that a person sees, and less than a well has room for."""
PART = 0.5
"""Share of what a vessel holds, or has room for, that a test dose moves at most."""
BLOCKED_KPA = 20.0
"""Rise of the gauge before a port that is shut; a dose through an open one needs a few."""
SLACK_S = 10.0
UNREAD = "a gauge on the way gives no good reading, so that a shut port would not be seen. Look at the gauge"
TOLERANCE = 0.5
"""Relative tolerance of a weighed dose: an uncalibrated pump, and drops that hang at the tubes' ends."""


def tested(bench: CommissioningRig) -> tuple[PumpedPath, ...]:
    """Return paths that pass each port of each selector, as few as possible.

    A pair that `safety: never` forbids is not tried: its ports are passed on the way to waste. The first bottle of each
    pump comes last, so that a line which several media share is left with the medium that the ledger takes for granted.
    """
    passed: set[tuple[str, int]] = set()
    found = []
    for path in dosing_paths(bench.rig):
        if path.positions and not set(path.positions) <= passed:
            passed.update(path.positions)
            found.append(path)
    first: dict[str, str] = {}
    for path in found:
        first.setdefault(path.pumped, path.source)
    return tuple(sorted(found, key=lambda path: path.source == first[path.pumped]))


async def ports(bench: CommissioningRig, ask: Ask) -> AsyncIterator[Check]:
    """Pass a dose through each port of each selector."""
    for path in tested(bench):
        where = ", ".join(f"position {position} of {selector}" for selector, position in path.positions)
        effect = f"{where} leads from {path.source} to {path.target}"
        valve = bench.rig.selectors[path.positions[-1][0]].valve
        try:
            failure = await _positioned(bench, path) or await _seen(bench, ask, path)
        finally:
            await _at_rest(bench, path)
        yield Check(valve, effect, failure is None, failure or "read back, and a person saw it")


async def _positioned(bench: CommissioningRig, path: PumpedPath) -> str | None:
    """Set the selectors of a path and read them back. Return what went wrong."""
    for valve, level in levels_of(bench.rig, path).items():
        if level:
            outcome = await bench.command(valve, Level(level), "test of a selector")
            if not outcome.ok:
                return f"{valve} could not be set: {outcome.why}"
        await bench.gate.poll(valve)
        if bench.level(valve) != level:
            return f"{valve} reports {bench.level(valve):g} instead of {level:g}. Check its setting positions, and its rotor"
    return None


async def _seen(bench: CommissioningRig, ask: Ask, path: PumpedPath) -> str | None:
    """Let a person confirm a path by a dose. What may never enter a chamber is not moved: the line would hold it.

    Returns:
        What went wrong.
    """
    harmful = any(way.source == path.source and forbidden(bench.rig, way) for way in paths(bench.rig))
    if not harmful:
        return await _dosed(bench, ask, path)
    where = " and ".join(f"position {position} of “{selector}”" for selector, position in path.positions)
    if await ask(f"Follow the tubes by eye: do those at {where} lead from “{path.source}” to “{path.target}”?"):
        return None
    return "a person saw otherwise. Compare the tubes at the valve's ports with the file"


async def _dosed(bench: CommissioningRig, ask: Ask, path: PumpedPath) -> str | None:
    """Give a dose along a path and let a person look. Return what went wrong."""
    rig = bench.rig
    room_ul = rig.vessels[path.target].limit_ul - bench.volumes[path.target].ul
    left_ul = bench.volumes[path.source].ul - rig.vessels[path.source].floor_ul
    min_ul = dosing_of(rig, path.pump).min_ul
    volume_ul = max(min(PORT_UL, PART * room_ul, PART * left_ul), min_ul)
    if not 0.0 < volume_ul <= min(room_ul, left_ul):
        return (
            f"“{path.source}” holds too little, or “{path.target}” has no room for {max(volume_ul, min_ul):.0f} µL. Fill as"
            " the file says, or use a pump with smaller doses"
        )
    scales = _scales(bench, path)
    before_g = [await bench.value(scale) for scale, _ in scales]
    rest_kpa = {gauge: await _at_hand(bench, gauge) for gauge in _gauges(bench, path)}
    if not all(isfinite(kpa) for kpa in rest_kpa.values()):
        return UNREAD
    flow_ul_min = dose_flow_ul_min(rig, path.pumped)
    dose = Dispense(volume_ul, flow_ul_min, f"{WHO}.{'.'.join(path.lines)}.{asyncio.get_running_loop().time():.0f}")
    outcome = await bench.command(path.pump, dose, "test of a selector", positions=levels_of(rig, path))
    if not outcome.ok:
        return f"the dose was not given: {outcome.why}"
    rise_kpa = await _watched(bench, rest_kpa, volume_ul / flow_ul_min * 60.0 + SLACK_S)
    bench.volumes[path.source].ul -= volume_ul
    bench.volumes[path.target].ul += volume_ul
    bench.gate.booked(path.pump)
    if not isfinite(rise_kpa):
        return UNREAD
    if rise_kpa > BLOCKED_KPA:
        return f"the pressure before it rose by {rise_kpa:.0f} kPa: the port is shut. Look at its tube and clamps"
    question = (
        f"Has liquid gone from “{path.source}” to “{path.target}”, out of that tube alone and into no other vessel?"
    )
    if not await ask(question):
        return "a person saw otherwise. Compare the tubes at the valve's ports with the file, and look at its rotor"
    for (scale, sign), was_g in zip(scales, before_g, strict=True):
        moved_ul = sign * (await bench.value(scale) - was_g) * 1000.0
        if not isfinite(moved_ul) or abs(moved_ul - volume_ul) > TOLERANCE * volume_ul:
            return (
                f"{scale} saw {moved_ul:.0f} µL where {volume_ul:.0f} µL were asked for. Prime the lines, and calibrate"
            )
    return None


def _scales(bench: CommissioningRig, path: PumpedPath) -> Sequence[tuple[str, float]]:
    """Return the balances under both ends of a path, with the sign of the change there."""
    signs = {path.target: 1.0, path.source: -1.0}
    places = {
        point: bench.rig.devices[point.partition(".")[0]].at or ""
        for point, kind in points_of(bench.rig).items()
        if kind == MASS
    }
    return [(point, signs[place]) for point, place in places.items() if place in signs]


def _gauges(bench: CommissioningRig, path: PumpedPath) -> list[str]:
    """Return the gauges on the way of a dose."""
    return [gauge for gauge in bench.gauges if bench.rig.devices[gauge.partition(".")[0]].at in path.lines]


async def _at_hand(bench: CommissioningRig, gauge: str) -> float:
    """Return the latest pressure of a gauge (kPa); wait for one if it has given none yet. NaN if none comes."""
    pressure = bench.now(gauge)
    return pressure if isfinite(pressure) else await bench.value(gauge)


async def _watched(bench: CommissioningRig, rest: Mapping[str, float], seconds: float) -> float:
    """Wait for the end of a dose, `seconds` at most. Return the maximum rise of a gauge above its `rest` (kPa).

    Returns:
        0 without a gauge; NaN if a gauge has given no good reading meanwhile.
    """
    loop = asyncio.get_running_loop()
    end_s, highest = loop.time() + seconds, dict.fromkeys(rest, -inf)
    while loop.time() < end_s:
        await asyncio.sleep(1.0)
        for gauge in rest:
            if isfinite(rise_kpa := bench.now(gauge) - rest[gauge]):
                highest[gauge] = max(highest[gauge], rise_kpa)
    return nan if -inf in highest.values() else max(highest.values(), default=0.0)


async def _at_rest(bench: CommissioningRig, path: PumpedPath) -> None:
    """Stop the pump, then bring the selectors to rest."""
    await bench.gate.stop(path.pump, "test of a selector ends", requester=WHO)
    for valve in levels_of(bench.rig, path):
        await bench.gate.stop(valve, "test of a selector ends", requester=WHO)
