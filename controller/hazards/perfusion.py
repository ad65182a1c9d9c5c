"""Hazards of flow: a heart stands, delivers too little oxygen, or shears the tissue; a branch is blocked; no medium comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf

from controller.alarms.definitions import DEFINITIONS
from controller.hazards import bounds, physics
from controller.hazards.interlocks import time_gap
from controller.hazards.terms import Hazard, Subject
from controller.hazards.timing import FOLLOWS_S, READINGS, blind_s
from controller.rig.description import Rig
from controller.rig.families import max_flow_ul_min
from controller.rig.flow_sensors import MEAN_OVER_S, line_flow_sensors
from controller.rig.graph import (
    chambers_of_heart,
    fed_by_hearts,
    lines_into_chambers,
    lines_of_heart,
    outlets,
    unperfused_chambers,
    vessels_behind,
)
from controller.rig.organ_lines import organ_lines
from controller.rig.organs import HeartConfig
from controller.rig.problems import Finding, named
from controller.safety.interlocks import NO_HEART_FLOW
from controller.safety.limits import draws_from

MIN_LEASE_S = 5.0
"""Minimum lease (s): it is renewed three times in its length, at most once a tick; a shorter one lapses under load."""

MIN_FLOW_SHARE = 0.5
"""Share of the tissue's oxygen use that the minimum flow has to deliver: that flow is meant for minutes [P]."""
FLOWS: tuple[tuple[str, Callable[[HeartConfig], float], float], ...] = (
    ("basal", lambda heart: heart.basal_ul_min, 1.0),
    ("flow", lambda heart: heart.flow_ul_min, 1.0),
    ("min", lambda heart: heart.min_ul_min, MIN_FLOW_SHARE),
)
"""Key and value of each flow that has to feed the tissue, and the share of the tissue's use that it has to deliver."""


def hazards(subject: Subject) -> Iterator[Hazard]:
    """Yield the rows of flow: those of each heart, of each branch, and of chambers that no heart's medium reaches."""
    rig = subject.rig
    fed = fed_by_hearts(rig)
    for index, (name, heart) in enumerate(rig.organs.hearts.items()):
        others = list(_pumps(subject)) if index == 0 else []
        yield _loss_of_flow(subject, name, heart, fed, others)
    yield from _branches(subject)
    for chamber in unperfused_chambers(rig):
        yield _unperfused(rig, chamber)


def lasts_s(rig: Rig, heart: str) -> float:
    """Return how long the oxygen lasts in that chamber of a heart's where it is used up first (s)."""
    return min((_chamber_lasts_s(rig, chamber) for chamber in chambers_of_heart(rig, heart)), default=inf)


def _chamber_lasts_s(rig: Rig, chamber: str) -> float:
    return physics.oxygen_lasts_s(rig, chamber, physics.open_supply_pmol_s(rig.vessels[chamber]))


def _loss_of_flow(
    subject: Subject, name: str, heart: HeartConfig, fed: dict[str, dict[str, float]], others: list[Finding]
) -> Hazard:
    """Return the row of a heart that stands or that delivers too little or too much; `others` are gaps of other pumps."""
    rig, limits = subject.rig, subject.heart_limits(name)
    chambers = [chamber for chamber, shares in fed.items() if name in shares]
    harm_s, takes_s = lasts_s(rig, name), blind_s(limits.stale_s)
    demand = sum(physics.oxygen_demand_pmol_s(rig.tissue[chamber]) for chamber in chambers if chamber in rig.tissue)
    gaps = [gap for chamber in chambers if chamber in rig.tissue for gap in _flows(rig, name, heart, chamber, fed)]
    gaps += [*others, *_lease(name, heart, harm_s)]
    gaps += time_gap(subject, limits.pump, takes_s, harm_s, "the chamber's oxygen is used up")
    gaps += _read_seldom(rig, limits.pump)
    drawn = draws_from(rig, {*chambers, *((rig.loop,) if limits.loop and rig.loop else ())})
    stopped = (*limits.draws, *limits.loop_draws)
    if not set(drawn) <= set(stopped) or (not drawn and rig.organs.kidney is not None and _is_first(rig, name)):
        fix = "Name the pumped line that draws medium away"
        gaps.append(Finding(("organs", "kidney", "draw"), "nothing stops drawing while the heart stands", fix))
    note = f"{demand:.0f} pmol/s out of what is dissolved in the chamber"
    sensors = line_flow_sensors(rig)
    measured = [sensors[line] for line in lines_of_heart(rig, name) if line in sensors]
    if demand and harm_s == inf:
        note = "oxygen from the open surface feeds the tissue while it is at rest"
    acts = "draws stop, heart restarts, alarm" if stopped else "heart restarts, alarm"
    acts += f"; line_flow: alarm of {named(measured)}" if measured else ""
    return Hazard(
        subject.id_of("loss_of_flow", name), named(chambers), limits.pump, f"{NO_HEART_FLOW}: {acts}",
        (*stopped, limits.pump), f"at least {heart.min_ul_min / 1000:g} mL/min", takes_s, harm_s,
        note, tuple(gaps),
    )  # fmt: skip


def _is_first(rig: Rig, heart: str) -> bool:
    return next(iter(rig.organs.hearts)) == heart


def _flows(
    rig: Rig, name: str, heart: HeartConfig, chamber: str, fed: dict[str, dict[str, float]]
) -> Iterator[Finding]:
    """Yield a finding for each flow of a heart that starves or shears the tissue in one chamber."""
    place = ("organs", "hearts", name)
    demand, share = _demand_pmol_s(rig, chamber), fed[chamber][name]
    surface = physics.open_supply_pmol_s(rig.vessels[chamber])
    whose, where = ("the tissue", "") if len(rig.tissue) == 1 else (f"the tissue up to “{chamber}”", f" to “{chamber}”")
    for key, flow_of, needed_share in FLOWS:
        flow = flow_of(heart)
        others = sum(flow_of(rig.organs.hearts[other]) * part for other, part in fed[chamber].items() if other != name)
        supply = physics.oxygen_supply_pmol_s(flow * share)
        missing = needed_share * demand - surface - physics.oxygen_supply_pmol_s(others)
        if supply < missing:
            what = f"{flow / 1000:g} mL/min brings {supply:.0f} pmol/s of oxygen{where}, and {whose} uses {demand:.0f}"
            needed = missing / physics.oxygen_supply_pmol_s(share) / 1000.0
            yield Finding((*place, key), what, f"Write at least {needed:.2f} mL/min")
    most = sum(rig.organs.hearts[other].max_ul_min * part for other, part in fed[chamber].items())
    shear = physics.shear_pa(rig, chamber, most)
    if shear > bounds.MAX_SHEAR_PA:
        what = f"{heart.max_ul_min / 1000:g} mL/min shears the tissue{where and f' in “{chamber}”'} with {shear:.2f} Pa"
        allowed = heart.max_ul_min * bounds.MAX_SHEAR_PA / shear / 1000.0
        yield Finding((*place, "max"), what, f"Write at most {allowed:.1f} mL/min")


def _demand_pmol_s(rig: Rig, chamber: str) -> float:
    """Return the oxygen use of the tissue in a chamber and of that in the chambers before it on the way of its medium."""
    demand = physics.oxygen_demand_pmol_s(rig.tissue[chamber])
    for other, tissue in rig.tissue.items():
        if other == chamber:
            continue
        share = sum(vessels_behind(rig, line).get(chamber, 0.0) for line in outlets(rig, other))
        demand += min(share, 1.0) * physics.oxygen_demand_pmol_s(tissue)
    return demand


def _pumps(subject: Subject) -> Iterator[Finding]:
    """Yield a finding for each organ's flow that its pump cannot move."""
    for each in organ_lines(subject.rig):
        pump, flow = subject.rig.lines[each.line].pump or "", each.max_ul_min
        max_ul_min = max_flow_ul_min(subject.rig, pump)
        if flow > max_ul_min and max_ul_min < inf:
            limit = f"{max_ul_min / 1000:.1f} mL/min"
            what = f"{flow / 1000:g} mL/min is more than “{pump}” can move with its tubing ({limit})"
            fix = "Lower the flow, or fit wider tubing and say so under its channel"
            yield Finding((*each.place, each.flow_key), what, fix)


def _read_seldom(rig: Rig, pump: str) -> Iterator[Finding]:
    device = pump.partition(".")[0]
    every_s = rig.devices[device].every_s
    if every_s > FOLLOWS_S:
        what = f"“{pump}” circulates medium and is read every {every_s:g} s: another controller could stop it unseen"
        yield Finding(("devices", device, "every"), what, f"Write at most {FOLLOWS_S:g} s")


def _lease(name: str, heart: HeartConfig, harm_s: float) -> Iterator[Finding]:
    lease_s = heart.lease_s
    if not MIN_LEASE_S <= lease_s <= harm_s:
        what = f"a lease of {lease_s:g} s is outside {MIN_LEASE_S:g} s to {harm_s:.0f} s (oxygen in the chamber)"
        yield Finding(("organs", "hearts", name, "lease"), what, "Write 30 s")


def _branches(subject: Subject) -> Iterator[Hazard]:
    """Yield a row for each branch of a heart's line: while it is blocked, the others take its flow."""
    rig = subject.rig
    lines = dict.fromkeys(line for name in rig.organs.hearts for line in lines_into_chambers(rig, name))
    for line in lines:
        if rig.lines[line].from_ in rig.junctions:
            yield _blocked_branch(subject, line)


def _blocked_branch(subject: Subject, line: str) -> Hazard:
    rig = subject.rig
    starved = [chamber for chamber in vessels_behind(rig, line) if chamber in rig.tissue]
    harm_s = min((_chamber_lasts_s(rig, chamber) for chamber in starved), default=inf)
    gaps = []
    if (sensor := line_flow_sensors(rig).get(line)) is not None:
        return _measured_branch(subject, line, sensor, harm_s)
    if harm_s < inf:
        what = f"while branch “{line}” is blocked, {named(starved)} gets no medium, and no sensor shows it"
        fix = "Give the chamber a heart of its own, or an open surface that feeds it (“surface: …”)"
        gaps.append(Finding(("lines", line), what, fix))
    return Hazard(
        f"blocked_{line}", line, "none", "none; the other branches take its flow", (), "", 0.0, harm_s,
        "look at each outlet on the daily round: no sensor sees the flow of one branch", tuple(gaps), residual=True,
        group="blocked_branches",
    )  # fmt: skip


def _measured_branch(subject: Subject, line: str, sensor: str, harm_s: float) -> Hazard:
    """Return the row of a branch with a flow sensor: a person who is called has to come in time."""
    alarm = DEFINITIONS["line_flow"]
    takes_s = READINGS * subject.every_s(sensor) + MEAN_OVER_S + alarm.on_delay_s
    gaps = []
    if takes_s + alarm.respond_within_s > harm_s:
        what = (
            f"while branch “{line}” is blocked, the oxygen lasts {harm_s:.0f} s, too short for a person who is called"
        )
        fix = "Give the chamber a heart of its own, or an open surface that feeds it (“surface: …”)"
        gaps.append(Finding(("lines", line), what, fix))
    return Hazard(
        f"blocked_{line}", line, sensor, "line_flow: alarm; a person acts", (), "", takes_s, harm_s,
        "the other branches take its flow", tuple(gaps), residual=True, group="blocked_branches",
    )  # fmt: skip


def _unperfused(rig: Rig, chamber: str) -> Hazard:
    """Return the row of a chamber into which lines lead that bring nothing."""
    lines = [f"“{heart.line}”" for heart in rig.organs.hearts.values()]
    whose = (
        f"the heart's line {lines[0]} does" if len(lines) == 1 else "the lines of hearts do" if lines else "pumps do"
    )
    what = f"{whose} not reach it: tissue in it gets no oxygen"
    fix = "Lead the heart's medium through it (an overflow from a perfused chamber), or remove it from the file"
    gap = Finding(("vessels", chamber, "kind"), what, fix)
    note = "medium at rest holds oxygen for minutes"
    return Hazard(f"unperfused_{chamber}", chamber, "none", "none", (), "", 0.0, 0.0, note, (gap,))
