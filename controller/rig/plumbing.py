"""Rules of water: can medium flow through the vessels and lines as the rig describes them?

Each rule looks at one item and yields what is wrong with it. Rules of names and wires are in :mod:`controller.rig.wiring`.
"""

from __future__ import annotations

from collections.abc import Iterator

from controller.rig.description import Line, Rig, Vessel
from controller.rig.families import may_be_point, points_of
from controller.rig.problems import Finding, Place, nearest
from controller.rig.quantities import quantity_text


def vessel_amounts(rig: Rig, name: str, vessel: Vessel) -> Iterator[Finding]:
    """It can hold what it starts with, between its floor and its ceiling."""
    place: Place = ("vessels", name)
    ceiling = quantity_text(vessel.limit_ul, "uL")
    if vessel.limit_ul > vessel.capacity_ul:
        what = f"the ceiling ({ceiling}) is above the capacity ({quantity_text(vessel.capacity_ul, 'uL')})"
        yield Finding((*place, "ceiling"), what, "Lower the ceiling, or give the vessel's true capacity")
    if vessel.floor_ul >= vessel.limit_ul:
        what = f"the floor ({quantity_text(vessel.floor_ul, 'uL')}) is not below the ceiling ({ceiling})"
        yield Finding((*place, "floor"), what, "Lower the floor or raise the ceiling")
    elif vessel.volume_ul > vessel.limit_ul:
        what = f"starts with {quantity_text(vessel.volume_ul, 'uL')}, above its ceiling ({ceiling})"
        yield Finding((*place, "volume"), what, "Lower the volume or raise the ceiling")
    elif vessel.volume_ul < vessel.floor_ul:
        floor = quantity_text(vessel.floor_ul, "uL")
        what = f"starts with {quantity_text(vessel.volume_ul, 'uL')}, below its floor ({floor})"
        yield Finding((*place, "volume"), what, "Raise the volume or lower the floor")


def vessel_contents(rig: Rig, name: str, vessel: Vessel) -> Iterator[Finding]:
    """What it contains is described."""
    if vessel.contains is not None and vessel.contains not in rig.media:
        what = f"medium “{vessel.contains}” is not described"
        yield Finding(("vessels", name, "contains"), what, nearest(vessel.contains, rig.media, "media"))
    elif vessel.contains is None and vessel.volume_ul > 0:
        what = f"holds {quantity_text(vessel.volume_ul, 'uL')} of nothing named"
        yield Finding(("vessels", name, "volume"), what, "Add “contains:” with one of the media")


def vessel_zone(rig: Rig, name: str, vessel: Vessel) -> Iterator[Finding]:
    """Its zone is described."""
    if vessel.zone is not None and vessel.zone not in rig.zones:
        what = f"zone “{vessel.zone}” is not described"
        yield Finding(("vessels", name, "zone"), what, nearest(vessel.zone, rig.zones, "zones"))


def vessel_overflow(rig: Rig, name: str, vessel: Vessel) -> Iterator[Finding]:
    """The volume at which it overflows lies below its ceiling, and its overflow leads somewhere."""
    if vessel.overflow_ul is None:
        return
    place: Place = ("vessels", name, "overflow")
    if vessel.overflow_ul > vessel.limit_ul:
        ceiling = quantity_text(vessel.limit_ul, "uL")
        what = f"it overflows at {quantity_text(vessel.overflow_ul, 'uL')}, above its ceiling ({ceiling})"
        yield Finding(place, what, "Lower the overflow or raise the ceiling")
    if not any(line.passive and line.from_ == name for line in rig.lines.values()):
        yield Finding(place, "no passive line leads out of it", f"Add a line with “from: {name}” and “passive: true”")


def vessel_is_filled(rig: Rig, name: str, vessel: Vessel) -> Iterator[Finding]:
    """Some line leads into it, unless it is a source, or a chamber that is fed by hand."""
    if vessel.kind not in ("source", "chamber") and not any(line.to == name for line in rig.lines.values()):
        fix = f"Add a line with “to: {name}”, or make it “kind: source”"
        yield Finding(("vessels", name), f"vessel “{name}” is never filled", fix)


def vessel_is_emptied(rig: Rig, name: str, vessel: Vessel) -> Iterator[Finding]:
    """Some line leads out of it, unless it is waste, or a chamber: that one is emptied by hand, or its hazards are judged."""
    if vessel.kind not in ("waste", "chamber") and not any(line.from_ == name for line in rig.lines.values()):
        fix = f"Add a line with “from: {name}”, or make it “kind: waste”"
        yield Finding(("vessels", name), f"vessel “{name}” is never emptied", fix)


def chambers_exist(rig: Rig) -> Iterator[Finding]:
    """Tissue lives in vessels that are chambers."""
    for chamber in rig.tissue:
        place = ("tissue", chamber)
        if chamber not in rig.vessels:
            yield Finding(place, f"vessel “{chamber}” does not exist", nearest(chamber, rig.vessels, "vessels"))
        elif rig.vessels[chamber].kind != "chamber":
            what = f"vessel “{chamber}” is of kind “{rig.vessels[chamber].kind}”"
            yield Finding(place, what, "Name a vessel with “kind: chamber”")


def line_source(rig: Rig, name: str, line: Line) -> Iterator[Finding]:
    """It starts at a vessel, junction or selector: no pump draws from nowhere, and nothing is drawn back out of waste."""
    place = ("lines", name, "from")
    if line.from_ not in (known := _places(rig)):
        nowhere = f": pump {line.pump} would draw from nowhere" if line.pump else ""
        what = f"{_place_kinds(rig)} “{line.from_}” does not exist{nowhere}"
        yield Finding(place, what, nearest(line.from_, known, f"{_place_kinds(rig)}s"))
    elif line.from_ in rig.vessels and rig.vessels[line.from_].kind == "waste":
        yield Finding(place, f"draws out of waste “{line.from_}”", "Waste never returns; name another vessel")


def line_end(rig: Rig, name: str, line: Line) -> Iterator[Finding]:
    """It ends in a vessel, at a junction or at a selector."""
    if line.to not in (known := _places(rig)):
        fix = nearest(line.to, known, f"{_place_kinds(rig)}s")
        yield Finding(("lines", name, "to"), f"{_place_kinds(rig)} “{line.to}” does not exist", fix)


def _place_kinds(rig: Rig) -> str:
    """Return what the ends of a line may be, as text."""
    kinds = ("selector" if rig.selectors else "", "junction" if rig.junctions else "", "vessel")
    *others, last = (kind for kind in kinds if kind)
    return f"{', '.join(others)} or {last}" if others else last


def _places(rig: Rig) -> tuple[str, ...]:
    """Return what the ends of a line may be."""
    return (*rig.vessels, *rig.junctions, *rig.selectors)


def line_leads_on(rig: Rig, name: str, line: Line) -> Iterator[Finding]:
    """It does not end where it starts."""
    if line.from_ == line.to:
        yield Finding(("lines", name, "to"), f"leads from “{line.to}” to itself", "Name two different vessels")


def line_is_driven(rig: Rig, name: str, line: Line) -> Iterator[Finding]:
    """A pump moves it, or it is an overflow or a branch; never both."""
    if line.pump is None and not line.passive:
        fix = "Add “pump: device.channel”, or “passive: true” for an overflow"
        if line.from_ in rig.junctions:
            fix = "Add “passive: true”: it is a branch"
        elif line.port is not None:
            fix = "Add “passive: true”: the pump of the selector's common line moves it"
        yield Finding(("lines", name), "nothing moves medium through it", fix)
    if line.pump is not None and line.passive:
        yield Finding(("lines", name, "passive"), "is driven by a pump and passive", "Remove one of the two")


def line_pump(rig: Rig, name: str, line: Line) -> Iterator[Finding]:
    """Its pump is one that some device has, and drives this line alone, or further lines of the same heart."""
    if line.pump is None:
        return
    place = ("lines", name, "pump")
    pumps = [point for point, kind in points_of(rig).items() if kind.kind == "pump"]
    if line.pump not in pumps and not may_be_point(rig, line.pump):
        kind = points_of(rig).get(line.pump)
        what = f"no device has the pump “{line.pump}”" if kind is None else f"“{line.pump}” is a {kind}, not a pump"
        yield Finding(place, what, nearest(line.pump, pumps, "pumps"))
        return
    first = next(other for other, of in rig.lines.items() if of.pump == line.pump)
    if first != name and not _are_cassettes_of_a_heart(rig, first, name):
        fix = "One pump channel drives one line; name another channel"
        yield Finding(place, f"pump “{line.pump}” already drives line “{first}”", fix)


def _are_cassettes_of_a_heart(rig: Rig, first: str, second: str) -> bool:
    """Return whether two lines on one pump channel may be cassettes of one head that perfuses.

    All cassettes of a head turn at one speed: tubes of the same bore carry equal flows. They draw from the same vessel, and
    lead into chambers or junctions. Doses are measured for one line at a time, so only a heart may have several.
    """
    one, other = rig.lines[first], rig.lines[second]
    ends = {line.to for line in (one, other)}
    hearts = [heart for heart in rig.organs.hearts.values() if heart.line in rig.lines]
    return (
        any(rig.lines[heart.line].pump == one.pump for heart in hearts)
        and one.from_ == other.from_
        and one.bore_mm == other.bore_mm
        and all(end in rig.junctions or (end in rig.vessels and rig.vessels[end].kind == "chamber") for end in ends)
    )


def line_draws_above(rig: Rig, name: str, line: Line) -> Iterator[Finding]:
    """Its inlet hangs in a vessel, below the maximum volume of that."""
    place: Place = ("lines", name, "draws_above")
    if line.draws_above_ul and line.from_ in (*rig.junctions, *rig.selectors):
        kind = "junction" if line.from_ in rig.junctions else "selector"
        yield Finding(place, f"“{line.from_}” is a {kind}, and has no level", "Remove it")
    elif line.from_ in rig.vessels and line.draws_above_ul >= rig.vessels[line.from_].limit_ul:
        ceiling = quantity_text(rig.vessels[line.from_].limit_ul, "uL")
        what = f"it draws air up to the ceiling of “{line.from_}” ({ceiling}), and medium never"
        yield Finding(place, what, "Lower it: it is the volume that the vessel keeps")


def line_filter(rig: Rig, name: str, line: Line) -> Iterator[Finding]:
    """Its filter is described."""
    if line.filter is not None and line.filter not in rig.filters:
        fix = nearest(line.filter, rig.filters, "filters")
        yield Finding(("lines", name, "filter"), f"filter “{line.filter}” does not exist", fix)


def line_dialyser(rig: Rig, name: str, line: Line) -> Iterator[Finding]:
    """Its dialyser is described, and fresh dialysate goes to waste behind it: what has taken up waste never returns."""
    if line.dialyser is None:
        return
    place = ("lines", name, "dialyser")
    if line.dialyser not in rig.dialysers:
        yield Finding(
            place, f"dialyser “{line.dialyser}” does not exist", nearest(line.dialyser, rig.dialysers, "dialysers")
        )
    if line.from_ in rig.vessels and rig.vessels[line.from_].kind != "source":
        what = f"dialysate would come from “{line.from_}”, which is no bottle"
        yield Finding(("lines", name, "from"), what, "Name a vessel with “kind: source” that holds basal medium")
    if line.to in rig.vessels and rig.vessels[line.to].kind != "waste":
        what = f"spent dialysate would run into “{line.to}”"
        yield Finding(("lines", name, "to"), what, "Name a vessel with “kind: waste”")


def dialysers_hang_in_vessels(rig: Rig) -> Iterator[Finding]:
    """Each dialyser hangs in a vessel, and some line passes through it."""
    for name, dialyser in rig.dialysers.items():
        if dialyser.vessel not in rig.vessels:
            fix = nearest(dialyser.vessel, rig.vessels, "vessels")
            yield Finding(("dialysers", name, "vessel"), f"vessel “{dialyser.vessel}” does not exist", fix)
        if not any(line.dialyser == name for line in rig.lines.values()):
            fix = f"Add a line from a bottle to waste with “dialyser: {name}”, or remove it"
            yield Finding(("dialysers", name), f"nothing passes through dialyser “{name}”", fix)


def line_valve(rig: Rig, name: str, line: Line) -> Iterator[Finding]:
    """Its valve is a switch that some device has."""
    if line.valve is None or may_be_point(rig, line.valve):
        return
    kind = points_of(rig).get(line.valve)
    if kind is None or kind.kind != "switch":
        what = f"no device has the valve “{line.valve}”" if kind is None else f"“{line.valve}” is a {kind}, not a valve"
        switches = [point for point, of in points_of(rig).items() if of.kind == "switch"]
        yield Finding(("lines", name, "valve"), what, nearest(line.valve, switches, "switches"))


def junction_is_a_place_of_its_own(rig: Rig, name: str) -> Iterator[Finding]:
    """No vessel has its name."""
    if name in rig.vessels:
        yield Finding(("junctions", name), f"a vessel is called “{name}” as well", "Give the junction another name")


def junction_is_fed(rig: Rig, name: str) -> Iterator[Finding]:
    """Pumped lines lead into it, or one branch of another junction; no overflow has the pressure to feed branches."""
    place: Place = ("junctions", name)
    into = {line: of for line, of in rig.lines.items() if of.to == name}
    pumped = [line for line, of in into.items() if of.pump is not None]
    from_junctions = [line for line, of in into.items() if of.from_ in rig.junctions]
    from_vessels = [line for line, of in into.items() if of.pump is None and of.from_ in rig.vessels]
    if not into:
        yield Finding(place, f"nothing leads into junction “{name}”", f"Add a line with “to: {name}” and a pump")
    for line in from_vessels:
        what = f"line “{line}” is an overflow into a junction, where a pump's pressure drives the branches"
        yield Finding(("lines", line, "to"), what, f"Lead it into a vessel, or give it a pump to feed “{name}”")
    if len(from_junctions) > 1 or (from_junctions and pumped):
        names = " and ".join(f"“{line}”" for line in (*pumped, *from_junctions))
        what = f"lines {names} meet at junction “{name}” behind another junction: flow could turn round in a branch"
        yield Finding(place, what, "Let one branch lead into it, or only pumped lines")


def junction_branches(rig: Rig, name: str) -> Iterator[Finding]:
    """Passive lines lead out of it, and no pump draws from it: it has no volume."""
    out = {line: of for line, of in rig.lines.items() if of.from_ == name}
    if not out:
        fix = f"Add lines with “from: {name}” and “passive: true”"
        yield Finding(("junctions", name), f"nothing leads out of junction “{name}”", fix)
    for line, of in out.items():
        if of.pump is not None:
            what = f"pump “{of.pump}” draws from junction “{name}”, which has no volume"
            yield Finding(("lines", line, "pump"), what, "Draw from a vessel, or write “passive: true” for a branch")


def junctions_form_no_circle(rig: Rig) -> Iterator[Finding]:
    """No way leads from a junction back to it without a vessel."""
    for name in rig.junctions:
        seen, ahead = set[str](), [name]
        while ahead:
            ends = [line.to for line in rig.lines.values() if line.from_ == ahead[-1] and line.to in rig.junctions]
            ahead = [*ahead[:-1], *(end for end in ends if end not in seen)]
            seen.update(ends)
        if name in seen:
            what = f"branches lead from junction “{name}” back to it, and through no vessel"
            yield Finding(("junctions", name), what, "Lead one of them into a vessel")
            return


def every_pump_is_on_a_line(rig: Rig) -> Iterator[Finding]:
    """No pump would pump from nowhere to nowhere."""
    used = {line.pump for line in rig.lines.values()}
    for point, kind in points_of(rig).items():
        if kind.kind == "pump" and point not in used:
            device, _, channel = point.partition(".")
            numbers = [number for number, of in rig.devices[device].channels.items() if of.point == channel]
            place: Place = ("devices", device, "channels", numbers[0]) if numbers else ("devices", device)
            fix = f"Add a line with “pump: {point}”, or remove it"
            yield Finding(place, f"pump “{point}” is on no line: it would pump from nowhere", fix)


VESSEL_RULES = (vessel_amounts, vessel_contents, vessel_zone, vessel_overflow, vessel_is_filled, vessel_is_emptied)
LINE_RULES = (
    line_source,
    line_end,
    line_leads_on,
    line_is_driven,
    line_pump,
    line_draws_above,
    line_filter,
    line_dialyser,
    line_valve,
)
JUNCTION_RULES = (junction_is_a_place_of_its_own, junction_is_fed, junction_branches)
RIG_RULES = (chambers_exist, every_pump_is_on_a_line, dialysers_hang_in_vessels, junctions_form_no_circle)
