"""Hazards of parts that cannot do what the rig needs of them: the stated capability is less than the needed one."""

from __future__ import annotations

from collections.abc import Iterator
from math import pi

from controller.hazards import bounds
from controller.hazards.terms import NEVER_S, Hazard, Subject
from controller.rig.description import Rig
from controller.rig.heating import warmed_chambers
from controller.rig.problems import Finding
from controller.rig.quantities import quantity_text


def hazards(subject: Subject) -> Iterator[Hazard]:
    """Yield a row for each part that falls short."""
    rig = subject.rig
    for id_, gaps in (
        ("filter_not_sterile", [*_pores(rig), *_shared_filters(rig)]),
        ("heater_too_weak", list(_heater(rig))),
        ("tubing_mismatch", list(_tubing(rig))),
        ("straw_above_level", list(_straws(rig))),
        ("overflow_at_brim", list(_brims(rig))),
    ):
        if gaps:
            place = str(gaps[0].place[1])
            yield Hazard(id_, place, "none", "none", (), "", 0.0, NEVER_S, "stated against needed", tuple(gaps))


def _pores(rig: Rig) -> Iterator[Finding]:
    immune = rig.organs.immune
    if immune is not None and rig.filters[immune.filter].pore_um > bounds.STERILE_UM:
        what = f"pores of {rig.filters[immune.filter].pore_um:g} um let bacteria pass"
        fix = f"Use a filter of at most {bounds.STERILE_UM:g} um as the sterile barrier"
        yield Finding(("filters", immune.filter, "pore"), what, fix)


def _shared_filters(rig: Rig) -> Iterator[Finding]:
    """Yield a finding for each filter that two lines pass: one of them would carry to the other what it holds back."""
    seen: dict[str, str] = {}
    for name, line in rig.lines.items():
        if line.filter is None:
            continue
        if line.filter in seen:
            what = f"filter “{line.filter}” is in line “{seen[line.filter]}” already"
            yield Finding(("lines", name, "filter"), what, "Give each line a filter of its own")
        seen.setdefault(line.filter, name)


def _heater(rig: Rig) -> Iterator[Finding]:
    """Yield a finding if the heater gives less than a sphere of the medium would lose to still air."""
    skin = rig.organs.skin
    if skin is None:
        return
    vessels = {*warmed_chambers(rig), *(() if rig.loop is None else (rig.loop,))}
    areas = (pi ** (1 / 3) * (6.0 * rig.vessels[name].volume_ul * 1e-9) ** (2 / 3) for name in vessels)
    needed_w = bounds.STILL_AIR_W_M2_K * sum(areas) * max(skin.setpoint_c - skin.ambient_c, 0.0)
    if skin.power_w < needed_w:
        what = f"{skin.power_w:g} W cannot hold {skin.setpoint_c:g} degC: {needed_w:.2g} W are lost to the room"
        yield Finding(("organs", "skin", "power"), what, f"Use a heater of at least {2 * needed_w:.1g} W")


def _tubing(rig: Rig) -> Iterator[Finding]:
    """Yield a finding for each pump channel whose tubing is far wider or narrower than the line that it moves."""
    for name, line in rig.lines.items():
        if line.pump is None or "bore_mm" not in line.model_fields_set:
            continue
        device, _, point = line.pump.partition(".")
        for number, channel in rig.devices[device].channels.items():
            if channel.point != point or channel.tubing_mm is None:
                continue
            if not 1.0 / bounds.BORE_FACTOR <= channel.tubing_mm / line.bore_mm <= bounds.BORE_FACTOR:
                what = (
                    f"the pump has tubing of {channel.tubing_mm:g} mm, and line “{name}” a bore of {line.bore_mm:g} mm"
                )
                fix = f"Write the tubing that is in the pump head (is it {line.bore_mm:g} mm?), or correct the bore"
                yield Finding(("devices", device, "channels", number, "tubing"), what, fix)


def _straws(rig: Rig) -> Iterator[Finding]:
    """Yield a finding for each line whose straw ends above the level: it moves air, and what it should move stays."""
    for name, line in rig.lines.items():
        vessel = rig.vessels.get(line.from_)
        if vessel is None or not line.draws_above_ul:
            continue
        level_ul = vessel.volume_ul if vessel.overflow_ul is None else vessel.overflow_ul
        if line.draws_above_ul > level_ul:
            what = f"its straw ends at {quantity_text(line.draws_above_ul, 'uL')}, above the level of “{line.from_}”"
            fix = f"Write at most {quantity_text(level_ul, 'uL')}, or start with more medium"
            yield Finding(("lines", name, "draws_above"), what, fix)


def _brims(rig: Rig) -> Iterator[Finding]:
    """Yield a finding for each overflow that begins so near to the brim that the vessel runs over first."""
    drained = {line.from_ for line in rig.lines.values() if line.passive}
    for name in sorted(drained & rig.vessels.keys()):
        vessel = rig.vessels[name]
        level_ul = vessel.volume_ul if vessel.overflow_ul is None else vessel.overflow_ul
        if vessel.capacity_ul - level_ul < bounds.BRIM_SHARE * vessel.capacity_ul:
            what = f"its overflow begins {quantity_text(vessel.capacity_ul - level_ul, 'uL')} below the brim"
            key = "volume" if vessel.overflow_ul is None else "overflow"
            limit = quantity_text((1.0 - bounds.BRIM_SHARE) * vessel.capacity_ul, "uL")
            yield Finding(("vessels", name, key), what, f"Write at most {limit}, or a larger capacity")
