"""Rules of anatomy: do the organs' lines lead where the organ needs them, and are its set-points in order?"""

from __future__ import annotations

from collections.abc import Iterator

from controller.rig.description import Rig
from controller.rig.graph import lines_into_chambers
from controller.rig.organ_lines import organ_lines
from controller.rig.problems import Finding, Place, nearest
from controller.rig.quantities import quantity_text
from controller.rig.temperature_limits import temperature_limits


def heart_flows(rig: Rig) -> Iterator[Finding]:
    """Check that each heart's working flow and basal flow lie between its minimum and its maximum."""
    for name, heart in rig.organs.hearts.items():
        place: Place = ("organs", "hearts", name)
        low, high = heart.min_ul_min, heart.max_ul_min
        between = f"{quantity_text(low, 'uL/min')} and {quantity_text(high, 'uL/min')}"
        if low > high:
            what = f"the minimum flow ({quantity_text(low, 'uL/min')}) is above the maximum"
            yield Finding((*place, "min"), what, "Swap min and max")
            continue
        for key, flow in (("basal", heart.basal_ul_min), ("flow", heart.flow_ul_min)):
            if not low <= flow <= high:
                what = f"{key} ({quantity_text(flow, 'uL/min')}) is outside min to max"
                yield Finding((*place, key), what, f"Choose a flow between {between}")


def heart_feeds_chambers(rig: Rig) -> Iterator[Finding]:
    """Each heart's line leads into a chamber, or into a junction behind which there is one."""
    for name, heart in rig.organs.hearts.items():
        line = rig.lines.get(heart.line)
        if line is None:
            continue
        place: Place = ("organs", "hearts", name, "line")
        if line.to in rig.junctions:
            if not any(_is_chamber(rig, end) for end in _ends_of_branches(rig, line.to)):
                what = f"no branch of junction “{line.to}” leads into a chamber"
                yield Finding(place, what, "Lead its branches into chambers")
        elif not _is_chamber(rig, line.to):
            chambers = " or ".join(f"“{chamber}”" for chamber in rig.tissue)
            what = f"line “{heart.line}” leads to “{line.to}”, not to the chamber {chambers}"
            yield Finding(place, what, "Name the line that feeds the chamber")


def _is_chamber(rig: Rig, name: str) -> bool:
    return name in rig.vessels and rig.vessels[name].kind == "chamber"


def _ends_of_branches(rig: Rig, junction: str) -> Iterator[str]:
    """Yield the vessels behind a junction, over further junctions."""
    seen, ahead = {junction}, [junction]
    while ahead:
        place = ahead.pop()
        for line in rig.lines.values():
            if line.from_ == place and line.to not in seen:
                seen.add(line.to)
                if line.to in rig.junctions:
                    ahead.append(line.to)
                else:
                    yield line.to


def hearts_draw_from_one_loop(rig: Rig) -> Iterator[Finding]:
    """Each heart draws from a loop, the same one for all, or from a bottle (single pass)."""
    first: str | None = None
    for name, heart in rig.organs.hearts.items():
        line = rig.lines.get(heart.line)
        vessel = None if line is None else rig.vessels.get(line.from_)
        if line is None or vessel is None:
            continue
        if vessel.kind not in ("loop", "source"):
            what = f"the heart draws from “{line.from_}”, of kind “{vessel.kind}”"
            fix = "Name a line from a vessel with “kind: loop” (recirculation) or “kind: source” (single pass)"
            yield Finding(("organs", "hearts", name, "line"), what, fix)
        elif vessel.kind == "loop" and first not in (None, line.from_):
            what = f"the heart draws from “{line.from_}”, and another one from “{first}”: a rig has one loop"
            yield Finding(("organs", "hearts", name, "line"), what, "Describe the second loop as a rig of its own")
        elif vessel.kind == "loop":
            first = line.from_


def each_heart_has_a_pump_of_its_own(rig: Rig) -> Iterator[Finding]:
    """No two hearts command one pump."""
    pumps: dict[str, str] = {}
    for name, heart in rig.organs.hearts.items():
        line = rig.lines.get(heart.line)
        if line is None or line.pump is None:
            continue
        if line.pump in pumps:
            what = f"pump “{line.pump}” is that of heart “{pumps[line.pump]}”"
            fix = "One heart drives all cassettes of a pump head: remove this heart, and keep the lines of its pump"
            yield Finding(("organs", "hearts", name, "line"), what, fix)
        pumps.setdefault(line.pump, name)


def no_valve_shuts_a_heart_off(rig: Rig) -> Iterator[Finding]:
    """No valve is in the lines that lead from a heart into its chambers: a valve closes when nothing keeps it open."""
    hearts = (name for name, heart in rig.organs.hearts.items() if heart.line in rig.lines)
    for heart in hearts:
        for line in lines_into_chambers(rig, heart):
            if rig.lines[line].valve is not None:
                what = f"valve “{rig.lines[line].valve}” closes when control ends, and the heart goes on against it"
                yield Finding(("lines", line, "valve"), what, "Remove it: circulation must not depend on a valve")


def the_hearts_gauge_is_of_the_only_heart(rig: Rig) -> Iterator[Finding]:
    """Limits of pressure of several hearts stand by line."""
    if rig.safety.over_pressure_heart is not None and len(rig.organs.hearts) != 1:
        what = f"it belongs to the only heart, and the rig has {len(rig.organs.hearts) or 'none'}"
        fix = "Write it under “safety: over_pressure:”, by the name of the heart's line"
        yield Finding(("safety", "over_pressure_heart"), what, fix if rig.organs.hearts else "Remove it")


def kidney_is_there_for_what_needs_it(rig: Rig) -> Iterator[Finding]:
    """The liver doses into the kidney's vessel, and the immune organ filters what the kidney returns."""
    if rig.organs.kidney is not None:
        return
    if rig.organs.liver is not None:
        what = "the liver conditions medium in the kidney's vessel, and the rig has no kidney"
        yield Finding(("organs", "liver"), what, "Describe the kidney, or remove the liver")
    if rig.organs.immune is not None:
        what = "the filter guards the way back from the kidney's vessel, and the rig has no kidney"
        yield Finding(("organs", "immune"), what, "Describe the kidney, or remove the immune organ")


def kidney_lines(rig: Rig) -> Iterator[Finding]:
    """Draw fills the kidney's vessel; return and discard empty it, discard into waste."""
    kidney = rig.organs.kidney
    if kidney is None:
        return
    for key, name, end, vessel in (
        ("draw", kidney.draw, "to", kidney.vessel),
        ("return", kidney.return_, "from", kidney.vessel),
        ("discard", kidney.discard, "from", kidney.vessel),
        ("discard", kidney.discard, "to", kidney.waste),
    ):
        line = rig.lines.get(name)
        there = None if line is None else line.to if end == "to" else line.from_
        if there is not None and there != vessel:
            verb = "ends in" if end == "to" else "starts at"
            what = f"line “{name}” {verb} “{there}”, not {'in' if end == 'to' else 'at'} “{vessel}”"
            yield Finding(("organs", "kidney", key), what, f"Name a line with “{end}: {vessel}”")


def kidney_dialyses_its_vessel(rig: Rig) -> Iterator[Finding]:
    """The kidney's line of dialysate passes through a dialyser that hangs in the kidney's vessel."""
    kidney = rig.organs.kidney
    if kidney is None:
        return
    line = rig.lines.get(kidney.dialyse or "")
    if line is None:
        if kidney.dialyse is not None:
            what = f"line “{kidney.dialyse}” does not exist"
            yield Finding(("organs", "kidney", "dialyse"), what, nearest(kidney.dialyse, rig.lines, "lines"))
        return
    place = ("organs", "kidney", "dialyse")
    if line.dialyser is None:
        what = f"line “{kidney.dialyse}” passes through no dialyser"
        yield Finding(place, what, "Add “dialyser: name” to it, and describe it under “dialysers:”")
    elif line.dialyser in rig.dialysers and rig.dialysers[line.dialyser].vessel != kidney.vessel:
        what = f"dialyser “{line.dialyser}” hangs in “{rig.dialysers[line.dialyser].vessel}”, not in “{kidney.vessel}”"
        yield Finding(place, what, f"Write “vessel: {kidney.vessel}” under it")
    if line.pump is None:
        yield Finding(place, f"line “{kidney.dialyse}” has no pump", "Name a line with “pump: device.channel”")
    source = rig.vessels.get(line.from_)
    if source is not None and source.contains is None:
        what = f"nothing tells what “{line.from_}” contains"
        yield Finding(("vessels", line.from_, "contains"), what, "Add “contains:” with the basal medium")


def nothing_returns_unfiltered(rig: Rig) -> Iterator[Finding]:
    """What goes back passes the immune organ's filter."""
    if rig.organs.immune is None or rig.organs.kidney is None:
        return
    name, wanted = rig.organs.kidney.return_, rig.organs.immune.filter
    line = rig.lines.get(name)
    if line is not None and line.filter != wanted and wanted in rig.filters:
        what = f"line “{name}” returns medium without filter “{wanted}”"
        yield Finding(("lines", name), what, f"Add “filter: {wanted}”")


def organs_have_pumps(rig: Rig) -> Iterator[Finding]:
    """Each line that an organ moves medium through has a pump."""
    for each in organ_lines(rig):
        if each.line in rig.lines and rig.lines[each.line].pump is None:
            fix = "Name a line with “pump: device.channel”"
            yield Finding((*each.place, each.key), f"line “{each.line}” has no pump", fix)


def maximum_flows(rig: Rig) -> Iterator[Finding]:
    """A maximum flow stands at a pumped line of no organ: the others have theirs below the organ."""
    organs = {each.line: each for each in organ_lines(rig)}
    for name, line in rig.lines.items():
        place: Place = ("lines", name, "max_flow")
        if line.max_flow_ul_min is None:
            continue
        if line.pump is None:
            yield Finding(place, "no pump moves medium through it", "Remove it")
        elif name in organs:
            where = ".".join(map(str, (*organs[name].place, organs[name].flow_key)))
            yield Finding(
                place, f"the line is that of an organ, and “{where}” bounds its flow", "Remove one of the two"
            )


def co2_range(rig: Rig) -> Iterator[Finding]:
    """Check that the minimum of carbon dioxide is below its maximum."""
    lung = rig.organs.lung
    if lung is not None and lung.co2_min_pct >= lung.co2_max_pct:
        yield Finding(("organs", "lung", "co2_min"), "co2_min is not below co2_max", "Swap them")


def temperature_range(rig: Rig) -> Iterator[Finding]:
    """The set-point lies within the interlock's limits, or the heater would trip at once."""
    limit, skin = rig.safety.temperature, rig.organs.skin
    for place, each in temperature_limits(rig):
        if each.low_c >= each.high_c:
            yield Finding((*place, "low"), "low is not below high", "Swap them")
    if limit is None or limit.low_c >= limit.high_c:
        return
    if skin is not None and not limit.low_c < skin.setpoint_c < limit.high_c:
        what = f"{skin.setpoint_c:g} degC is outside the interlock's {limit.low_c:g} to {limit.high_c:g} degC"
        yield Finding(("organs", "skin", "setpoint"), what, "Choose a set-point within, or widen the interlock")


def filter_stands_its_pressure(rig: Rig) -> Iterator[Finding]:
    """The interlock trips before the filter breaks."""
    limit, immune = rig.safety.over_pressure_filter, rig.organs.immune
    if limit is None or immune is None:
        return
    sterile = rig.filters.get(immune.filter)
    if sterile is not None and limit.high_kpa > sterile.max_pressure_kpa:
        what = f"{limit.high_kpa:g} kPa is more than filter “{immune.filter}” stands"
        fix = f"Write at most {sterile.max_pressure_kpa:g} kPa"
        yield Finding(("safety", "over_pressure_filter", "high"), what, fix)


RIG_RULES = (
    heart_flows,
    heart_feeds_chambers,
    hearts_draw_from_one_loop,
    each_heart_has_a_pump_of_its_own,
    no_valve_shuts_a_heart_off,
    the_hearts_gauge_is_of_the_only_heart,
    kidney_is_there_for_what_needs_it,
    kidney_lines,
    kidney_dialyses_its_vessel,
    nothing_returns_unfiltered,
    organs_have_pumps,
    maximum_flows,
    co2_range,
    temperature_range,
    filter_stands_its_pressure,
)
