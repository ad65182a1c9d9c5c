"""Checks of gases, probes and heater by their effect: each gas is the right one, each probe in its place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from math import isfinite

from controller.commissioning.bench import CommissioningRig
from controller.commissioning.terms import Ask, Check
from controller.gate.outcome import Outcome
from controller.rig.families import PH, TEMPERATURE, by_thermostat, points_of
from controller.rig.organs import LungConfig, SkinConfig
from controller.rig.probes import loop_ph
from drivers.commands import Level, Switch

GAS_S = 360.0
"""Duration of each mixture (s): the loop takes up half of an oxygen step within a minute, CO2 more slowly."""
PH_FALLS, PH_RISES = 0.03, 0.05
OXYGEN_RISES_PCT = 8.0
SOUR_PH = 6.9
AIR_OXYGEN_PCT = 130.0
O2_SHARE = 0.3
PULSE_S = 30.0
WARM_S = 90.0
WARMER_C = 0.2
BATH_STEP_C = 1.0
BASE_UL = 1000.0


@dataclass(frozen=True, slots=True)
class Air:
    """Effect of a gas mixture on pH and oxygen of the loop."""

    ph: float
    ph_change: float
    oxygen: float
    oxygen_change: float


async def gases(bench: CommissioningRig, lung: LungConfig) -> AsyncIterator[Check]:
    """Apply little CO2, then much, then oxygen: pH and oxygen of the loop must respond in the right direction."""
    calm = await _breathe(bench, lung, lung.co2_min_pct, 0.0)
    sour = await _breathe(bench, lung, lung.co2_max_pct, 0.0)
    rich = await _breathe(bench, lung, lung.co2_min_pct, 100.0 * O2_SHARE)
    await _breathe(bench, lung, lung.co2_min_pct, 0.0, seconds=1.0)
    yield _air(lung.air, lung.co2, calm)
    falls = sour.ph_change < min(0.0, calm.ph_change) - PH_FALLS
    detail = f"pH {calm.ph_change:+.2f} at {lung.co2_min_pct:g} % and {sour.ph_change:+.2f} at {lung.co2_max_pct:g} %"
    if not falls:
        detail += f": {lung.co2} does not acidify. " + (
            f"Oxygen rose by {sour.oxygen_change:.0f} %: it carries oxygen"
            if sour.oxygen_change > OXYGEN_RISES_PCT
            else f"It may carry another gas, {lung.air} may carry the CO2, or {lung.ph} sits elsewhere"
        )
    yield Check(lung.co2, "more CO2 makes the loop acid", falls, detail)
    rises = rich.oxygen_change > OXYGEN_RISES_PCT
    detail = f"oxygen {rich.oxygen_change:+.0f} %, pH {rich.ph_change:+.2f}"
    if not rises or rich.ph_change < -PH_FALLS:
        soured = rich.ph_change < -PH_FALLS
        detail += f": {lung.o2} " + (
            "acidifies: it carries CO2" if soured else f"does not enrich: another gas, or {lung.oxygen} sits elsewhere"
        )
    yield Check(lung.o2, "oxygen raises the oxygen of the loop", rises and rich.ph_change >= -PH_FALLS, detail)


def _air(air: str, co2: str, calm: Air) -> Check:
    effect = "air keeps pH and oxygen"
    detail = f"pH {calm.ph:.2f}, oxygen {calm.oxygen:.0f} % after {GAS_S / 60:g} min of air with little CO2"
    if not calm.ph > SOUR_PH:
        return Check(air, effect, False, f"{detail}: acid, so {air} carries CO2; is it exchanged with {co2}?")
    if not calm.oxygen < AIR_OXYGEN_PCT:
        return Check(air, effect, False, f"{detail}: more than air has, so {air} carries oxygen")
    return Check(air, effect, True, detail)


async def _breathe(
    bench: CommissioningRig, lung: LungConfig, co2_pct: float, o2_pct: float, seconds: float = GAS_S
) -> Air:
    """Set a mixture for a while; CO2 rises last and falls first."""
    co2, o2 = (round(lung.total_ml_min * pct / 100.0, 2) for pct in (co2_pct, o2_pct))
    flows = {lung.co2: co2, lung.air: round(lung.total_ml_min - co2 - o2, 2), lung.o2: o2}
    order = list(flows) if co2 <= bench.level(lung.co2) else [lung.air, lung.o2, lung.co2]
    for gas in order:
        await bench.command(gas, Level(flows[gas]), f"test of the gases: {co2_pct:g} % CO2, {o2_pct:g} % oxygen")
    if seconds < GAS_S:
        return Air(0.0, 0.0, 0.0, 0.0)
    ph, oxygen = await bench.value(lung.ph), await bench.value(lung.oxygen)
    await asyncio.sleep(seconds)
    after_ph, after_oxygen = await bench.value(lung.ph), await bench.value(lung.oxygen)
    return Air(after_ph, after_ph - ph, after_oxygen, after_oxygen - oxygen)


async def warmth(bench: CommissioningRig, skin: SkinConfig) -> Check:
    """Heat for half a minute: the chamber's probe rises, and more than any other."""
    probes = [point for point, kind in points_of(bench.rig).items() if kind == TEMPERATURE]
    before = {probe: await bench.value(probe) for probe in probes}
    await asyncio.sleep(WARM_S)
    still = {probe: await bench.value(probe) for probe in probes}
    outcome = await _heat(bench, skin)
    if not outcome.ok:
        effect = f"{skin.heater} warms {skin.temperature}"
        return Check(skin.heater, effect, False, f"it was not switched: {outcome.why}")
    after = {probe: await bench.value(probe) for probe in probes}
    if by_thermostat(bench.rig):
        await bench.command(skin.heater, Level(skin.setpoint_c), "test of the heater ends")
    gain = {probe: (after[probe] - still[probe]) - (still[probe] - before[probe]) for probe in probes}
    return _warmth_check(skin, gain)


async def _heat(bench: CommissioningRig, skin: SkinConfig) -> Outcome:
    """Raise the bath's set-point, or give one heater pulse, and wait for its effect."""
    if by_thermostat(bench.rig):
        outcome = await bench.command(skin.heater, Level(skin.setpoint_c + BATH_STEP_C), "test of the heater")
        await asyncio.sleep(2 * WARM_S)
    else:
        outcome = await bench.command(skin.heater, Switch(True, PULSE_S), "test of the heater")
        await asyncio.sleep(max(WARM_S - PULSE_S, PULSE_S))
    return outcome


def _warmth_check(skin: SkinConfig, gain: Mapping[str, float]) -> Check:
    """Judge the heater by the additional rise of each probe (K)."""
    effect = f"{skin.heater} warms {skin.temperature}"
    chamber = gain[skin.temperature]
    if isfinite(chamber) and chamber > WARMER_C:
        return Check(skin.heater, effect, True, f"{skin.temperature} rose by {chamber:.2f} degC more than before")
    other = [probe for probe, rise in gain.items() if isfinite(rise) and rise > WARMER_C]
    cause = (
        f"{', '.join(other)} did: the probes are exchanged"
        if other
        else "the switch, the heater or the probe is another"
    )
    return Check(skin.heater, effect, False, f"{skin.temperature} did not respond; {cause}")


async def ph_probes(bench: CommissioningRig) -> Check | None:
    """Give base into the weighed vessel: its probe rises, and the loop's does not. Return None if there is only one."""
    organs = bench.rig.organs
    outside = loop_ph(bench.rig)
    if organs.liver is None or bench.weighed is None or outside is None:
        return None
    inside = organs.liver.ph
    if inside == outside or points_of(bench.rig).get(inside) != PH:
        return None
    effect = f"base into {bench.weighed} raises {inside}"
    before = {probe: await bench.value(probe) for probe in (inside, outside)}
    done = await bench.dose(organs.liver.base, BASE_UL)
    if done.refused is not None:
        return Check(inside, effect, False, f"the dose was not given: {done.refused}")
    await asyncio.sleep(30.0)
    rise = {probe: await bench.value(probe) - before[probe] for probe in (inside, outside)}
    return _base_check(inside, outside, effect, rise)


def _base_check(inside: str, outside: str, effect: str, rise: Mapping[str, float]) -> Check:
    """Judge the probe of the weighed vessel by the rise of both probes after a dose of base (pH)."""
    detail = ", ".join(f"{probe} {change:+.2f}" for probe, change in rise.items())
    if rise[inside] > PH_RISES and rise[inside] > 2.0 * rise[outside]:
        return Check(inside, effect, True, detail)
    if rise[outside] > PH_RISES and rise[outside] > 2.0 * rise[inside]:
        return Check(inside, effect, False, f"{detail}: the probes {inside} and {outside} are exchanged")
    return Check(inside, effect, False, f"{detail}: the probe does not respond, or the bottle holds no base")


async def readings(bench: CommissioningRig, ask: Ask) -> AsyncIterator[Check]:
    """Let a person compare each probe with what they see: on a rig without pumps no effect shows where a probe sits."""
    for point, kind in points_of(bench.rig).items():
        if kind.kind != "sensor":
            continue
        value, at = await bench.value(point), bench.rig.devices[point.partition(".")[0]].at
        where = "" if at is None else f" at “{at}”"
        effect = f"{point} shows the {kind.quantity}{where}"
        if not isfinite(value):
            yield Check(point, effect, False, "it gives no reading. Check probe and cable")
            continue
        shown = f"{value:.4g} {kind.unit}".strip()
        right = await ask(f"Is {shown} right for the {kind.quantity}{where}, and is “{point}” the probe there?")
        yield Check(
            point, effect, right, f"a person confirmed {shown}" if right else f"a person saw otherwise than {shown}"
        )
