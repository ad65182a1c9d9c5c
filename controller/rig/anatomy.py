"""Rules of anatomy: do the organs' lines lead where the organ needs them, and are its set-points in order?"""

from __future__ import annotations

from collections.abc import Iterator

from controller.rig.description import Rig
from controller.rig.organ_lines import organ_lines
from controller.rig.problems import Finding, nearest
from controller.rig.quantities import quantity_text


def heart_flows(rig: Rig) -> Iterator[Finding]:
    """Check that the heart's working flow and basal flow lie between its minimum and its maximum."""
    heart = rig.organs.heart
    low, high = heart.min_ul_min, heart.max_ul_min
    between = f"{quantity_text(low, 'uL/min')} and {quantity_text(high, 'uL/min')}"
    if low > high:
        what = f"the minimum flow ({quantity_text(low, 'uL/min')}) is above the maximum"
        yield Finding(("organs", "heart", "min"), what, "Swap min and max")
        return
    for key, flow in (("basal", heart.basal_ul_min), ("flow", heart.flow_ul_min)):
        if not low <= flow <= high:
            what = f"{key} ({quantity_text(flow, 'uL/min')}) is outside min to max"
            yield Finding(("organs", "heart", key), what, f"Choose a flow between {between}")


def heart_feeds_the_chamber(rig: Rig) -> Iterator[Finding]:
    """The heart's line is pumped and leads to the organoid."""
    line = rig.lines.get(rig.organs.heart.line)
    if line is not None and line.to != rig.chamber:
        what = f"line “{rig.organs.heart.line}” leads to “{line.to}”, not to the chamber “{rig.chamber}”"
        yield Finding(("organs", "heart", "line"), what, "Name the line that feeds the chamber")


def kidney_lines(rig: Rig) -> Iterator[Finding]:
    """Draw fills the kidney's vessel; return and discard empty it, discard into waste."""
    kidney = rig.organs.kidney
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
    if rig.organs.immune is None:
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
            yield Finding(("organs", each.organ, each.key), f"line “{each.line}” has no pump", fix)


def co2_range(rig: Rig) -> Iterator[Finding]:
    """Check that the minimum of carbon dioxide is below its maximum."""
    lung = rig.organs.lung
    if lung is not None and lung.co2_min_pct >= lung.co2_max_pct:
        yield Finding(("organs", "lung", "co2_min"), "co2_min is not below co2_max", "Swap them")


def temperature_range(rig: Rig) -> Iterator[Finding]:
    """The set-point lies within the interlock's limits, or the heater would trip at once."""
    limit, skin = rig.safety.temperature, rig.organs.skin
    if limit is None:
        return
    if limit.low_c >= limit.high_c:
        yield Finding(("safety", "temperature", "low"), "low is not below high", "Swap them")
    elif skin is not None and not limit.low_c < skin.setpoint_c < limit.high_c:
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
    heart_feeds_the_chamber,
    kidney_lines,
    kidney_dialyses_its_vessel,
    nothing_returns_unfiltered,
    organs_have_pumps,
    co2_range,
    temperature_range,
    filter_stands_its_pressure,
)
