"""Movement of medium: what each pump moves, and what happens to it from the source of its line to the target."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sim.plant import branches, dialysis, hydraulics, membranes, turnover
from sim.plant.branches import set_flow
from sim.plant.columns import COLUMNS, Body, Content, LineRecord, Link, Sizes, TallyCause
from sim.plant.compiled import compiled, inlined
from sim.plant.overflow import deliver, open_outlets
from sim.plant.rows import add, leak, remove_negative

F8 = NDArray[np.float64]
Records = NDArray[np.void]

MIN_UL = 1e-6
"""Less liquid than this has no concentration."""
MAX_FOULING = 1e9
"""A blocked filter is a very large resistance, not an infinite one: the flow stays a number."""


@compiled
def command_lines(
    links: Records, nodes: Records, outlets: Records, lines: Records, body: Body, sizes: Sizes, dt_s: float
) -> None:  # fmt: skip
    """Set the flow and pressure of each line for this step, and count the wear of its tube.

    Those at a junction follow from :func:`sim.plant.branches.balance`.
    """
    for number in range(sizes.pumped):
        line: LineRecord = lines[number]
        line.pressure_kpa = 0.0
        if line.command_ul_min == 0.0:
            line.flow_ul_s = 0.0
            line.free_ul_min = 0.0
            continue
        turned = abs(line.command_ul_min) / line.revolution_ul * dt_s / 60.0
        # Tubing and filter as they will be in the middle of the step.
        worn = hydraulics.wear(line.revolutions + 0.5 * turned)
        free = line.command_ul_min * line.gain * worn * max(0.0, 1.0 - line.worn)
        line.revolutions += turned
        resistance = line.kpa_per_ul_min
        if links[number].filtered == 1:
            resistance += filter_resistance(line, body, dt_s)
        line.free_ul_min = free
        if links[number].source >= sizes.vessels or links[number].target >= sizes.vessels:
            line.kpa_in_series = resistance
            continue
        flow = hydraulics.loaded(free, resistance) * line.flow_scale if line.open > 0.0 else 0.0
        set_flow(line, flow)
    for number in range(sizes.pumped, sizes.pumped + sizes.branches):
        line = lines[number]
        line.kpa_in_series = line.kpa_per_ul_min
        if links[number].filtered == 1:
            line.kpa_in_series += filter_resistance(line, body, dt_s)
    if sizes.outlets > 0:
        open_outlets(nodes, outlets, lines)


@compiled
def filter_resistance(line: LineRecord, body: Body, dt_s: float) -> float:
    """Return the resistance of the filter (kPa per µL/min) in the middle of the step."""
    passing = abs(line.flow_ul_s) * 0.5 * dt_s
    fouling = min(MAX_FOULING, membranes.fouled(line.fouling, line.fouling_per_ul * passing, membranes.LAW))
    whole = line.filter_kpa_per_ul_min * fouling * max(1.0, body.clog)
    return whole * (membranes.TORN_RESISTANCE if body.torn > 0.0 else 1.0)


@inlined
def move(
    number: int, links: Records, nodes: Records, outlets: Records, traits: Records, vessels: F8, held: F8, lines: Records,
    body: Body, tally: F8, scratch: F8, dt_s: float,
) -> None:  # fmt: skip
    """Move the medium of one pumped line for `dt_s`: source, dead volume, filter, dialyser, leak, target."""
    line: LineRecord = lines[number]
    link: Link = links[number]
    volume = abs(line.flow_ul_s) * dt_s
    if volume <= 0.0:
        return
    backwards = line.flow_ul_s < 0.0
    source, target = (link.target, link.source) if backwards else (link.source, link.target)
    entering, leaving = scratch[0], scratch[1]
    above_ul = 0.0 if backwards else line.draws_above_ul
    taken = draw(line, body, vessels[source], entering, volume, above_ul, nodes[source].holds == 1)
    if backwards:
        line.backwards_ul += taken
    if taken > 0.0 and entering[Content.INSULIN] > 0.0:
        lose_insulin(entering, taken, tally)
    hydraulics.pass_along(held[number], entering, leaving, volume / line.cell_ul, backwards)
    remove_negative(leaving)
    if link.filtered == 1:
        filter_out(leaving, line, body, tally)
    if not backwards:
        treat(link, line, vessels, leaving, tally)
    leak(line, leaving, tally, dt_s)
    line.arrived_ul += leaving[Content.LIQUID]
    if nodes[target].outlets == 0 or nodes[target].holds == 0:
        add(vessels[target], leaving)
    else:
        deliver(target, leaving, nodes, outlets, traits, vessels, lines, tally, scratch, dt_s)


@inlined
def branch(
    number: int, share: float, links: Records, nodes: Records, outlets: Records, traits: Records, vessels: F8, held: F8,
    lines: Records, body: Body, tally: F8, scratch: F8, dt_s: float,
) -> None:  # fmt: skip
    """Move the medium of one branch for `dt_s`; of what waits in a junction it takes a `share`."""
    line: LineRecord = lines[number]
    link: Link = links[number]
    volume = abs(line.flow_ul_s) * dt_s
    if volume <= 0.0:
        return
    backwards = line.flow_ul_s < 0.0
    source, target = (link.target, link.source) if backwards else (link.source, link.target)
    entering, leaving = scratch[0], scratch[1]
    if nodes[source].holds == 1:
        taken = draw(line, body, vessels[source], entering, volume, 0.0 if backwards else line.draws_above_ul, True)
    else:
        taken = take_share(vessels[source], entering, share)
        line.moved_ul += taken
    if backwards:
        line.backwards_ul += taken
    hydraulics.pass_along(held[number], entering, leaving, volume / line.cell_ul, backwards)
    remove_negative(leaving)
    if link.filtered == 1:
        filter_out(leaving, line, body, tally)
    leak(line, leaving, tally, dt_s)
    line.arrived_ul += leaving[Content.LIQUID]
    if nodes[target].outlets == 0 or nodes[target].holds == 0:
        add(vessels[target], leaving)
    else:
        deliver(target, leaving, nodes, outlets, traits, vessels, lines, tally, scratch, dt_s)


@compiled
def from_vessels(
    links: Records, nodes: Records, outlets: Records, traits: Records, vessels: F8, held: F8, lines: Records, body: Body,
    sizes: Sizes, tally: F8, scratch: F8, dt_s: float,
) -> None:  # fmt: skip
    """Move the medium of the branches that draw from a vessel."""
    for number in range(sizes.pumped, sizes.pumped + sizes.branches):
        upstream = links[number].source if lines[number].flow_ul_s > 0.0 else links[number].target
        if upstream < sizes.vessels:
            branch(
                number, 1.0, links, nodes, outlets, traits, vessels, held, lines, body, tally, scratch, dt_s
            )  # fmt: skip


@compiled
def from_junctions(
    links: Records, nodes: Records, outlets: Records, traits: Records, vessels: F8, held: F8, lines: Records, body: Body,
    sizes: Sizes, network: F8, tally: F8, scratch: F8, dt_s: float, delivering: bool,
) -> None:  # fmt: skip
    """Move the medium of the branches that leave junctions, upstream first.

    Args:
        delivering: those under pressure, behind pumps; else those under suction, before pumps
    """
    for k in range(sizes.junctions):
        junction = int(network[k, sizes.junctions + branches.ORDER])
        if (network[junction, sizes.junctions + branches.PRESSURE] > 0.0) != delivering:
            continue
        node = sizes.vessels + junction
        left = branches.leaving_ul_s(node, links, lines, sizes)
        for number in range(sizes.pumped, sizes.pumped + sizes.branches):
            flow = branches.out_of(node, number, links, lines)
            if flow > 0.0:
                share = min(1.0, flow / left)
                left = max(left - flow, flow * 1e-12)
                branch(
                    number, share, links, nodes, outlets, traits, vessels, held, lines, body, tally, scratch, dt_s
                )  # fmt: skip


@inlined
def take_share(giver: F8, entering: F8, share: float) -> float:
    """Take a share of what waits in a junction; return its volume (µL)."""
    for column in range(COLUMNS):
        part = giver[column] * share
        entering[column] = part
        giver[column] -= part
    taken: float = entering[Content.LIQUID]
    return taken


@inlined
def draw(
    line: LineRecord, body: Body, giver: F8, entering: F8, volume: float, above_ul: float, counts: bool
) -> float:  # fmt: skip
    """Take what enters a line from its source, and count when the pump begins to move air.

    Args:
        above_ul: the line draws air below this volume of its source, as a straw does: then that is no fault
        counts: count it at all

    Returns:
        The volume taken (µL), less than `volume` when the source runs dry or a bubble passes.
    """
    air = min(line.bubble_ul, volume)
    line.bubble_ul -= air
    wanted = volume - air
    taken: float = min(wanted, max(0.0, giver[Content.LIQUID] - above_ul))
    if taken < wanted * 0.999:
        if line.dry == 0.0 and counts and above_ul == 0.0:
            line.dry = 1.0
            line.times_dry += 1.0
            body.events += 1.0
    elif wanted > 0.0:
        line.dry = 0.0
    share = taken / giver[Content.LIQUID] if giver[Content.LIQUID] > 0.0 else 0.0
    for column in range(COLUMNS):
        part = giver[column] * share
        entering[column] = part
        giver[column] -= part
    if share >= 1.0:
        for column in range(COLUMNS):
            giver[column] = 0.0
    line.moved_ul += taken
    return taken


@inlined
def lose_insulin(entering: F8, taken: float, tally: F8) -> None:
    """Turn the insulin that precipitates at a pass through a pump into particles; `taken` is the volume (µL)."""
    # The quotient of two volumes near the least number of the machine is no number.
    albumin_mm = entering[Content.ALBUMIN] / taken if taken > 1e-12 else 0.0
    lost = entering[Content.INSULIN] * turnover.insulin_lost(albumin_mm)
    entering[Content.INSULIN] -= lost
    tally[TallyCause.PUMP, Content.INSULIN] -= lost
    entering[Content.PARTICLES] += lost
    tally[TallyCause.PUMP, Content.PARTICLES] += lost


@compiled
def filter_out(leaving: F8, line: LineRecord, body: Body, tally: F8) -> None:
    """Retain particles and microbes in the filter of a line, which fouls; a torn one retains little and fouls no more."""
    torn = body.torn > 0.0
    for column in (Content.PARTICLES, Content.MICROBES):
        whole = line.retained if column == Content.MICROBES else membranes.RETENTION
        part = leaving[column] * (1.0 - membranes.TORN_PASSES if torn else whole)
        leaving[column] -= part
        tally[TallyCause.FILTER, column] -= part
    if not torn:
        grown = membranes.fouled(line.fouling, line.fouling_per_ul * leaving[Content.LIQUID], membranes.LAW)
        line.fouling = min(MAX_FOULING, grown)


@compiled
def treat(link: Link, line: LineRecord, vessels: F8, leaving: F8, tally: F8) -> None:
    """Count a use of returned medium, and exchange with the batch around the fibres of a dialyser."""
    if link.returns == 1:
        leaving[Content.REUSE] += leaving[Content.LIQUID]
        tally[TallyCause.RETURN, Content.REUSE] += leaving[Content.LIQUID]
    if link.dialyses >= 0 and leaving[Content.LIQUID] > 0.0:
        koa_ul_s = dialysis.risen(line.koa_ul_s, line.koa_at_ul_s, line.flow_ul_s)
        through_fibres(vessels[link.dialyses], leaving, koa_ul_s, line.flow_ul_s)


@compiled
def through_fibres(batch: F8, dialysate: F8, koa_ul_s: float, flow_ul_s: float) -> None:
    """Exchange solutes between dialysate and the batch around the fibres. No water passes: the pressures are balanced."""
    passed, volume = dialysate[Content.LIQUID], batch[Content.LIQUID]
    if volume < MIN_UL:
        return
    share = dialysis.exchange_share(koa_ul_s, flow_ul_s, passed, volume)
    for column in dialysis.SMALL:
        crossed = (dialysate[column] / passed * volume - batch[column]) * share
        batch[column] += crossed
        dialysate[column] -= crossed
    # Basal medium has no insulin; what crosses is lost.
    insulin_share = dialysis.exchange_share(dialysis.INSULIN_KOA * koa_ul_s, flow_ul_s, passed, volume)
    leaked = batch[Content.INSULIN] * insulin_share
    batch[Content.INSULIN] -= leaked
    dialysate[Content.INSULIN] += leaked
