"""Hazards of pressure: a blocked path into which a pump presses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from controller.hazards import bounds, physics
from controller.hazards.interlocks import missing, place_gap, stale_gap, time_gap, trips_gaps
from controller.hazards.perfusion import lasts_s
from controller.hazards.terms import NEVER_S, Hazard, Subject
from controller.hazards.timing import blind_s, seen_s
from controller.rig.description import Line, PressureLimit
from controller.rig.graph import chambers_of_heart, heart_of_line, lines_into_chambers, lines_of_heart
from controller.rig.open_surfaces import chamber_ul
from controller.rig.organs import HeartConfig
from controller.rig.problems import Finding, Place
from controller.safety.limits import OVER_PRESSURE_HEART, pressure_interlock

BACKWARDS_ALARM_S = 20.0
"""Maximum age of a suction reading (15 s) plus the delay of the alarm (5 s)."""


def hazards(subject: Subject) -> Iterator[Hazard]:
    """Yield a row for each pumped line, with a gauge if it presses into a closed path or never stops."""
    for name, line in subject.rig.lines.items():
        if line.pump is None:
            continue
        if (needed := interlock_of(subject, name)) is None:
            yield _open(subject, name, line)
        else:
            yield from _pressed(subject, name, line, *needed)
    yield from _unneeded(subject)
    yield from _organs(subject)


def interlock_of(subject: Subject, line: str) -> tuple[str, Place, PressureLimit | None] | None:
    """Return name, place in the file and limit of the interlock that a line needs; None if it needs none.

    A heart never stops by itself; a filter clogs; hollow fibres burst. Every other line ends in an open vessel.
    """
    rig = subject.rig
    spec, kidney = rig.lines[line], rig.organs.kidney
    of_line = (pressure_interlock(rig, line), ("safety", "over_pressure", line), rig.safety.over_pressure.get(line))
    heart = heart_of_line(rig, line)
    if heart is not None:
        only = len(rig.organs.hearts) == 1 and line == rig.organs.hearts[heart].line
        if only and (rig.safety.over_pressure_heart is not None or line not in rig.safety.over_pressure):
            return OVER_PRESSURE_HEART, ("safety", "over_pressure_heart"), rig.safety.over_pressure_heart
        return of_line
    if spec.filter is not None and kidney is not None and line == kidney.return_:
        return "over_pressure_filter", ("safety", "over_pressure_filter"), rig.safety.over_pressure_filter
    return None if spec.filter is None and spec.dialyser is None else of_line


def max_kpa(subject: Subject, line: Line) -> tuple[float, str]:
    """Return the maximum pressure that a line bears, and the part that sets it."""
    parts = [(physics.tubing_kpa(line), "the tubing"), (bounds.REACHABLE * bounds.STALL_KPA, "what the pump can reach")]
    if line.filter is not None:
        parts.append((subject.rig.filters[line.filter].max_pressure_kpa, f"filter “{line.filter}”"))
    if line.dialyser is not None:
        max_pressure_kpa = subject.rig.dialysers[line.dialyser].max_pressure_kpa
        parts.append(
            (bounds.DIALYSER_KPA if max_pressure_kpa is None else max_pressure_kpa, f"dialyser “{line.dialyser}”")
        )
    return min(parts)


def working_kpa(subject: Subject, line: Line) -> float:
    """Return the pressure that the line needs at its maximum flow in normal operation (kPa)."""
    flow = subject.max_flow_ul_min(line.pump or "")
    kpa = physics.line_kpa(line, flow)
    if line.filter is not None:
        kpa += physics.filter_kpa(subject.rig.filters[line.filter].area_cm2, flow)
    return kpa


def _pressed(
    subject: Subject, name: str, line: Line, interlock: str, place: Place, spec: PressureLimit | None
) -> Iterator[Hazard]:
    rule, pump = subject.interlock(interlock), line.pump or ""
    if rule is None or spec is None:
        key = ".".join(map(str, place))
        fix = f"Add a gauge with “at: {name}” and “{key}: {{point: …, high: …, stale: …, trips: [{pump}]}}”"
        yield _unwatched(subject, name, missing(f"over_pressure_{name}", name, place if spec else ("lines", name), fix))
        return
    bears_kpa, part = max_kpa(subject, line)
    min_kpa = working_kpa(subject, line) + bounds.HEAD_KPA
    flow = subject.max_flow_ul_min(pump)
    harm_s = max(0.0, bears_kpa - spec.high_kpa) / physics.rise_kpa_per_s(line, flow) + bounds.OVERLOAD_BORNE_S
    gaps = list(place_gap(subject, rule.point, {name}, (*place, "point"), "gauge"))
    gaps += trips_gaps(subject, spec.trips, pump, (*place, "trips"))
    if spec.high_kpa > min(bears_kpa, rule.valid_max):
        what = f"{spec.high_kpa:g} kPa is more than {part} allows"
        gaps.append(Finding((*place, "high"), what, f"Write at most {bears_kpa:g} kPa"))
    elif spec.high_kpa < min_kpa:
        what = f"{spec.high_kpa:g} kPa is hardly above what the line needs while all is well ({min_kpa:.1f} kPa with margin)"
        gaps.append(Finding((*place, "high"), what, f"Write at least {min_kpa:.1f} kPa, at most {bears_kpa:g} kPa"))
    gaps += time_gap(subject, rule.point, seen_s(subject, rule), harm_s, f"{part} may give way")
    note = f"{flow / 1000:g} mL/min into a tube that is shut; {part} bears overload for {bounds.OVERLOAD_BORNE_S:g} s"
    yield Hazard(
        f"over_pressure_{name}", name, rule.point, f"{interlock}: {rule.on_high}", rule.trips, f"{spec.high_kpa:g} kPa",
        seen_s(subject, rule), harm_s, note, tuple(gaps),
    )  # fmt: skip
    blind = blind_s(rule.stale_s)
    late = list(stale_gap(subject, spec, place))
    late += time_gap(subject, rule.point, blind, harm_s, f"{part} may give way unseen", "stale", place)
    yield Hazard(
        f"sensor_loss_pressure_{name}", name, rule.point, f"{interlock}: {rule.on_doubt} when in doubt", rule.trips,
        f"stale after {rule.stale_s:g} s", blind, harm_s, note, tuple(late),
    )  # fmt: skip


def _unwatched(subject: Subject, name: str, row: Hazard) -> Hazard:
    """Return the row of a line without an interlock: where tubing outlasts a heart, the harm is the lack of flow."""
    rig, heart = subject.rig, heart_of_line(subject.rig, name)
    if heart is None:
        return row
    tubes = [rig.lines[each] for each in lines_into_chambers(rig, heart)]
    if any(tube.filter or tube.dialyser or physics.tubing_kpa(tube) < bounds.STALL_KPA for tube in tubes):
        return row
    note = f"the pump stalls at {bounds.STALL_KPA:g} kPa, below the tubing's rating: blocked, it starves the tissue"
    return replace(row, harm_s=lasts_s(rig, heart), note=note, group="over_pressure_hearts")


def _open(subject: Subject, name: str, line: Line) -> Hazard:
    """Return the row of a line that ends in an open vessel: a blockage stalls its pump before the tubing bursts."""
    rated = physics.tubing_kpa(line)
    gaps = []
    if rated < bounds.STALL_KPA:
        what = f"tubing of {line.bore_mm:g} mm bears {rated:g} kPa, and the pump stalls at {bounds.STALL_KPA:g} kPa"
        fix = f"Use a bore of at most {bounds.TUBING_KPA[1][0]:g} mm, or add a gauge and “safety.over_pressure.{name}”"
        gaps = [Finding(("lines", name, "bore"), what, fix)]
        if name in subject.rig.safety.over_pressure:
            gaps = []
    return Hazard(
        f"blocked_{name}", name, line.pump or "", "a dose that falls short holds the run", (line.pump or "",),
        f"{rated:g} kPa", 0.0, bounds.OVERLOAD_BORNE_S if gaps else NEVER_S,
        f"open end; the pump stalls at {bounds.STALL_KPA:g} kPa, below the tubing's rating",
        tuple(gaps),
    )  # fmt: skip


def _unneeded(subject: Subject) -> Iterator[Hazard]:
    """Yield rows for pressure interlocks on lines without a pump, or with another interlock."""
    rig = subject.rig
    for name in rig.safety.over_pressure:
        line = rig.lines.get(name)
        needed = None if line is None or line.pump is None else interlock_of(subject, name)
        place: Place = ("safety", "over_pressure", name)
        if line is None or line.pump is None:
            what, fix = f"“{name}” is no pumped line", "Write the name of a line that has a pump"
        elif needed is not None and needed[1] != place:
            what, fix = f"line “{name}” has its interlock in “{'.'.join(map(str, needed[1]))}”", "Remove one of the two"
        elif needed is None:
            yield from _pressed(
                subject, name, line, pressure_interlock(rig, name), place, rig.safety.over_pressure[name]
            )
            continue
        else:
            continue
        yield Hazard(f"over_pressure_{name}", name, "none", "none", (), "", 0.0, 0.0, "", (Finding(place, what, fix),))


def _organs(subject: Subject) -> Iterator[Hazard]:
    """Yield rows for gauges that regulators, figures and recipes read: each must sit on the expected line."""
    for name, heart in subject.rig.organs.hearts.items():
        yield _backwards(subject, name, heart)
    kidney, immune = subject.rig.organs.kidney, subject.rig.organs.immune
    if kidney is None:
        return
    back = kidney.return_
    if immune is None:
        what = f"line “{back}” returns medium to the tissue without a sterile filter"
        gap = Finding(("lines", back), what, "Add a filter to it and organs.immune with its gauge")
        yield Hazard(
            "unfiltered_return", back, "none", "none", (), "", 0.0, NEVER_S, "contamination shows within hours", (gap,)
        )
        return
    gaps = list(place_gap(subject, immune.pressure, {back}, ("organs", "immune", "pressure"), "gauge"))
    yield Hazard(
        "filter_burst", immune.filter, immune.pressure, "recipe filter-integrity; a run is held", (),
        "least pressure of the filter", 0.0, NEVER_S, "contamination shows within hours", tuple(gaps),
    )  # fmt: skip


def _backwards(subject: Subject, name: str, heart: HeartConfig) -> Hazard:
    """Return the row of a heart that turns backwards and drains a chamber: a gauge shows it, a check valve prevents it."""
    rig, gauge, line = subject.rig, heart.pressure, heart.line
    place, pump = ("organs", "hearts", name, "pressure"), subject.heart_limits(name).pump
    held = all(rig.lines[each].check_valve for each in lines_of_heart(rig, name))
    gaps = []
    if gauge is not None:
        gaps = list(place_gap(subject, gauge, {line}, place, "gauge"))
    elif not held:
        limit = rig.safety.over_pressure_heart or rig.safety.over_pressure.get(line)
        fix = f"Write “pressure: {'…' if limit is None else limit.point}” (a gauge with “at: {line}”)"
        fix += f", or fit a check valve and write “check_valve: true” under line “{line}”"
        gaps = [Finding(place, "nothing shows a heart that turns backwards and drains the chamber", fix)]
    flows = {chamber: share * heart.flow_ul_min for chamber, share in chambers_of_heart(rig, name).items()}
    harm_s = min((chamber_ul(rig.vessels[c]) / flow * 60.0 for c, flow in flows.items()), default=NEVER_S)
    note = "a check valve holds the medium" if held else "fit a check valve: from suction no software can tell why"
    return Hazard(
        subject.id_of("heart_backwards", name), line, gauge or "none",
        "check valve" if held and gauge is None else "alarm heart_backwards; a person acts", (pump,), "suction",
        0.0 if held and gauge is None else BACKWARDS_ALARM_S, harm_s, note, tuple(gaps), residual=not held,
        group="heart_backwards",
    )  # fmt: skip
