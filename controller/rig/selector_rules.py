"""Rules of selectors: ports, common line, valve and rest; groups of chambers; pairs that must never meet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import get_args

from controller.rig.description import Line, Rig, Vessel
from controller.rig.families import TURN, may_be_point, points_of
from controller.rig.graph import lines_into_chambers
from controller.rig.organ_lines import organ_lines
from controller.rig.problems import Finding, Place, named, nearest
from controller.rig.selectors import common_lines, direction, forbidden, paths, selector_of_port

POSITIONS, REST = "positions", "rest_position"
"""Settings of an actuator: the number of positions of its valve, and where the guard moves it."""


def selector_is_a_place_of_its_own(rig: Rig, name: str) -> Iterator[Finding]:
    """No vessel and no junction has its name."""
    for kind, others in (("vessel", rig.vessels), ("junction", rig.junctions)):
        if name in others:
            yield Finding(("selectors", name), f"a {kind} is called “{name}” as well", "Give the selector another name")


def selector_has_one_common_line(rig: Rig, name: str) -> Iterator[Finding]:
    """One pump moves medium through it, or another selector does; and it has ports."""
    place: Place = ("selectors", name)
    outward = direction(rig, name) == "out"
    common, end = common_lines(rig, name), "to" if outward else "from"
    if not common:
        yield Finding(
            place, f"no pump moves medium through selector “{name}”", f"Add a line with “{end}: {name}” and a pump"
        )
    elif len(common) > 1:
        ways = "lead into it, and ports lead out" if outward else "lead out of it, and ports lead in"
        what = f"lines {named(common)} {ways}: a selector has one common line"
        yield Finding(place, what, "Lead all its ports out of it, or all into it, and one pumped line the other way")
    elif rig.lines[common[0]].pump is None and selector_of_port(rig, common[0]) is None:
        what = f"line “{common[0]}” is the common line of selector “{name}”, and no pump drives it"
        yield Finding(("lines", common[0]), what, "Write “pump: device.channel” instead of “passive: true”")
    if not _at_ports(rig, name):
        side = "from" if outward else "to"
        fix = f"Add lines with “{side}: {name}”, “port:” and “passive: true”"
        yield Finding(place, f"selector “{name}” has no ports", fix)


def selector_ports(rig: Rig, name: str) -> Iterator[Finding]:
    """Each of its ports has a position of its own, which the valve has, and no pump."""
    taken: dict[int, str] = {}
    last = _positions(rig, name)
    for line, spec in _at_ports(rig, name).items():
        place: Place = ("lines", line, "port")
        if spec.port is None:
            what = f"line “{line}” is at selector “{name}” and has no position"
            yield Finding(("lines", line), what, "Add “port:” with the valve's position")
            continue
        if spec.port in taken:
            what = f"position {spec.port} of selector “{name}” is that of line “{taken[spec.port]}”"
            yield Finding(place, what, "Give each port its own position")
        if last is not None and spec.port > last:
            what = f"the valve of selector “{name}” has positions 1 to {last}, and no {spec.port}"
            yield Finding(place, what, f"Write a position up to {last}, or correct “{POSITIONS}” of its device")
        taken.setdefault(spec.port, line)
        yield from _end_of_port(rig, line, spec)


def _end_of_port(rig: Rig, line: str, spec: Line) -> Iterator[Finding]:
    """Yield what is wrong with a port: it has a pump of its own, or does not lead to a vessel or selector."""
    if spec.pump is not None:
        what = f"pump “{spec.pump}” drives a port: it would press against the valve in every other position"
        yield Finding(("lines", line, "pump"), what, "Write “passive: true”; the pump belongs on the common line")
    if spec.valve is not None:
        what = f"valve “{spec.valve}” is in the line of a port, which its selector opens and closes"
        yield Finding(("lines", line, "valve"), what, "Remove it, or put it into the common line")
    for key, end in (("from", spec.from_), ("to", spec.to)):
        if end in rig.junctions:
            what = f"a port leads to junction “{end}”, where the shares of a dose are not known"
            yield Finding(("lines", line, key), what, "Lead each port to a vessel, or to a selector")
    if {spec.from_, spec.to} <= set(rig.selectors) and direction(rig, spec.from_) != direction(rig, spec.to):
        what = f"it leads from a port of selector “{spec.from_}” to one of selector “{spec.to}”"
        yield Finding(("lines", line), what, "Join their common lines, or lead it to a vessel")


def selector_valve(rig: Rig, name: str) -> Iterator[Finding]:
    """Its valve is a multi-position valve that some device has, and turns nothing else."""
    valve = rig.selectors[name].valve
    place: Place = ("selectors", name, "valve")
    kind = points_of(rig).get(valve)
    if kind != TURN and not may_be_point(rig, valve):
        what = (
            f"no device has the valve “{valve}”"
            if kind is None
            else f"“{valve}” is a {kind}, not a multi-position valve"
        )
        yield Finding(place, what, nearest(valve, [p for p, of in points_of(rig).items() if of == TURN], "valves"))
    first = next(other for other, of in rig.selectors.items() if of.valve == valve)
    if first != name:
        yield Finding(place, f"valve “{valve}” is that of selector “{first}”", "Give each selector a valve of its own")


def selector_rest(rig: Rig, name: str) -> Iterator[Finding]:
    """At rest it is closed or leads to waste, and the device knows that position."""
    selector = rig.selectors[name]
    place: Place = ("selectors", name, "rest")
    last = _positions(rig, name)
    if last is not None and selector.rest > last:
        yield Finding(place, f"the valve has positions 1 to {last}", "Choose a position without a line")
    for line, spec in _at_ports(rig, name).items():
        if spec.port != selector.rest:
            continue
        inward = direction(rig, name) == "in"
        if inward or spec.to not in rig.vessels or rig.vessels[spec.to].kind != "waste":
            ends = f"from “{spec.from_}”" if inward else f"to “{spec.to}”"
            what = f"at rest, position {selector.rest}, line “{line}” is open {ends}"
            fix = "Choose a position without a line" if inward else "Choose a position without a line, or one to waste"
            yield Finding(place, what, fix)
    yield from _device_rests_there(rig, name)


def _device_rests_there(rig: Rig, name: str) -> Iterator[Finding]:
    """Yield a finding if the actuator's own position of rest is another one."""
    valve, rest = rig.selectors[name].valve, rig.selectors[name].rest
    device = valve.partition(".")[0]
    if device not in rig.devices or may_be_point(rig, valve):
        return
    theirs = rig.devices[device].settings.get(REST, 1)
    if theirs != rest:
        shown = f"{theirs:g}" if isinstance(theirs, float | int) else theirs
        what = f"“{device}” rests at position {shown}, and selector “{name}” at {rest}"
        fix = f"Write “{REST}: {rest}” under its settings: the guard moves it there"
        yield Finding(("devices", device, "settings", REST), what, fix)


def line_port(rig: Rig, name: str, line: Line) -> Iterator[Finding]:
    """Only a line at a port of a selector has a position."""
    if line.port is not None and selector_of_port(rig, name) is None:
        at = [end for end in (line.from_, line.to) if end in rig.selectors]
        what = f"it is the common line of selector “{at[0]}”" if at else "it is at no selector"
        yield Finding(
            ("lines", name, "port"), what, "Remove “port:”" if at else "Remove it, or name the selector in from or to"
        )


def no_selector_cuts_a_heart_off(rig: Rig) -> Iterator[Finding]:
    """No heart draws or presses through a selector: it would stop with every move of the valve."""
    for heart, config in rig.organs.hearts.items():
        if config.line not in rig.lines:
            continue
        for line in lines_into_chambers(rig, heart):
            for key, end in (("from", rig.lines[line].from_), ("to", rig.lines[line].to)):
                if end in rig.selectors:
                    what = f"circulation would depend on selector “{end}”, which is closed at rest"
                    yield Finding(("lines", line, key), what, "Lead the heart's line past it; selectors are for doses")


def no_organ_passes_a_selector(rig: Rig) -> Iterator[Finding]:
    """No organ moves medium through a selector: its verbs set no position."""
    for each in organ_lines(rig):
        line = rig.lines.get(each.line)
        end = None if line is None else next((end for end in (line.from_, line.to) if end in rig.selectors), None)
        if end is not None and each.organ != "heart":
            what = f"line “{each.line}” passes selector “{end}”, which the verbs of the {each.organ} do not set"
            fix = "Leave the organ out: “dispense” and “aspirate” reach each chamber through the selector"
            yield Finding((*each.place, each.key), what, fix)


def selectors_form_no_circle(rig: Rig) -> Iterator[Finding]:
    """No way leads from a selector over ports back to it."""
    for name in rig.selectors:
        seen, ahead = set[str](), [name]
        while ahead:
            place = ahead.pop()
            ends = {line.to for line in rig.lines.values() if line.from_ == place and line.pump is None}
            fresh = [end for end in ends if end in rig.selectors and end not in seen]
            seen.update(fresh)
            ahead += fresh
        if name in seen:
            what = f"ports lead from selector “{name}” back to it"
            yield Finding(("selectors", name), what, "Lead one of them to a vessel")
            return


def groups_are_of_chambers(rig: Rig) -> Iterator[Finding]:
    """A group consists of chambers, each once, and is no other set than the batch of its name."""
    chambers = [name for name, vessel in rig.vessels.items() if vessel.kind == "chamber"]
    for group, members in rig.groups.items():
        place: Place = ("groups", group)
        if not members:
            yield Finding(place, f"group “{group}” is empty", "Name its chambers, or remove it")
        yield from _members(place, members, chambers)
        batch = {chamber for chamber, tissue in rig.tissue.items() if tissue.batch == group}
        if batch and batch != set(members):
            what = f"a batch of tissue is called “{group}” and has other chambers"
            yield Finding(place, what, "Give the group another name")


def _members(place: Place, members: Sequence[str], chambers: list[str]) -> Iterator[Finding]:
    """Yield a finding for each member of a group that is no chamber, or stands twice."""
    for index, member in enumerate(members):
        if member not in chambers:
            yield Finding((*place, index), f"“{member}” is no chamber", nearest(member, chambers, "chambers"))
        elif member in members[:index]:
            yield Finding((*place, index), f"chamber “{member}” stands twice", "Remove one of the two")


def pairs_that_never_meet(rig: Rig) -> Iterator[Finding]:
    """`safety: never` names vessels, media and kinds of vessels, and no line without a selector does what it forbids."""
    kinds = get_args(Vessel.model_fields["kind"].annotation)
    known = [*rig.vessels, *rig.media, *kinds]
    for index, pair in enumerate(rig.safety.never):
        for side, word in enumerate(pair):
            if word not in known:
                what = f"“{word}” is no vessel, no medium and no kind of vessel"
                yield Finding(("safety", "never", index, side), what, nearest(word, known, "names"))
    places = {*rig.vessels, *rig.junctions, *rig.selectors}
    if any({line.from_, line.to} - places for line in rig.lines.values()):
        return
    for path in paths(rig):
        found = forbidden(rig, path)
        if found is not None and not path.positions:
            what = f"it leads from “{path.source}” to “{path.target}”: “safety: never” forbids {found[0]} to {found[1]}"
            yield Finding(("lines", path.pumped), what, "Remove the line, or the pair")


def _at_ports(rig: Rig, selector: str) -> dict[str, Line]:
    """Return the lines on the side of a selector where its ports are, with or without a position."""
    outward = direction(rig, selector) == "out"
    return {name: line for name, line in rig.lines.items() if (line.from_ if outward else line.to) == selector}


def _positions(rig: Rig, selector: str) -> int | None:
    """Return the number of positions of a selector's valve; None where the rig file does not say it."""
    device = rig.devices.get(rig.selectors[selector].valve.partition(".")[0])
    number = None if device is None else device.settings.get(POSITIONS)
    return int(number) if isinstance(number, float | int) and not isinstance(number, bool) else None


SELECTOR_RULES = (
    selector_is_a_place_of_its_own,
    selector_has_one_common_line,
    selector_ports,
    selector_valve,
    selector_rest,
)
LINE_RULES = (line_port,)
RIG_RULES = (
    no_selector_cuts_a_heart_off,
    no_organ_passes_a_selector,
    selectors_form_no_circle,
    groups_are_of_chambers,
    pairs_that_never_meet,
)
