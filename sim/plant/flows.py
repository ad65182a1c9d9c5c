"""Movement of medium: what each pump moves, and what happens to it from the source of its line to the target."""

from __future__ import annotations

from math import exp

import numpy as np
from numpy.typing import NDArray

from sim.plant import dialysis, hydraulics, membranes, turnover
from sim.plant.columns import COLUMNS, Body, Content, LineRecord, Link, Places, TallyCause
from sim.plant.compiled import compiled

F8 = NDArray[np.float64]
Records = NDArray[np.void]

MIN_UL = 1e-6
"""Less liquid than this has no concentration."""
MAX_FOULING = 1e9
"""A blocked filter is a very large resistance, not an infinite one: the flow stays a number."""


@compiled
def command_lines(links: Records, lines: Records, body: Body, dt_s: float) -> None:
    """Set the flow and pressure of each pump for this step, and count the wear of its tube."""
    for number in range(lines.shape[0]):
        line: LineRecord = lines[number]
        line.pressure_kpa = 0.0
        if line.command_ul_min == 0.0:
            line.flow_ul_s = 0.0
            continue
        turned = abs(line.command_ul_min) / line.revolution_ul * dt_s / 60.0
        # Tubing and filter as they will be in the middle of the step.
        worn = hydraulics.wear(line.revolutions + 0.5 * turned)
        free = line.command_ul_min * line.gain * worn * max(0.0, 1.0 - line.worn)
        line.revolutions += turned
        resistance = line.kpa_per_ul_min
        if links[number].filtered == 1:
            resistance += filter_resistance(line, body, dt_s)
        flow = hydraulics.loaded(free, resistance) * line.flow_scale if line.open > 0.0 else 0.0
        line.flow_ul_s = flow / 60.0
        if free != 0.0:
            line.pressure_kpa = hydraulics.P_STALL_KPA * max(0.0, 1.0 - abs(flow / free))
            if free < 0.0:  # the gauge is on the delivery side: a pump that turns backwards causes suction there
                line.pressure_kpa = -line.pressure_kpa


@compiled
def filter_resistance(line: LineRecord, body: Body, dt_s: float) -> float:
    """Return the resistance of the filter (kPa per µL/min) in the middle of the step."""
    passing = abs(line.flow_ul_s) * 0.5 * dt_s
    fouling = min(MAX_FOULING, membranes.fouled(body.fouling, body.fouling_per_ul * passing, membranes.LAW))
    whole = body.filter_kpa_per_ul_min * fouling * max(1.0, body.clog)
    return whole * (membranes.TORN_RESISTANCE if body.torn > 0.0 else 1.0)


@compiled
def move(
    number: int, links: Records, vessels: F8, held: F8, lines: Records, body: Body, places: Places, tally: F8,
    scratch: F8, dt_s: float,
) -> None:  # fmt: skip
    """Move the medium of one line for `dt_s`: source, dead volume, filter, dialyser, leak, target."""
    line: LineRecord = lines[number]
    link: Link = links[number]
    volume = abs(line.flow_ul_s) * dt_s
    if volume <= 0.0:
        return
    backwards = line.flow_ul_s < 0.0
    source, target = (link.target, link.source) if backwards else (link.source, link.target)
    entering, leaving = scratch[0], scratch[1]
    taken = draw(line, body, vessels[source], entering, volume)
    if backwards:
        line.backwards_ul += taken
    if taken > 0.0 and entering[Content.INSULIN] > 0.0:
        lose_insulin(entering, taken, tally)
    hydraulics.pass_along(held[number], entering, leaving, volume / line.cell_ul, backwards)
    remove_negative(leaving)
    if link.filtered == 1:
        filter_out(leaving, body, tally)
    if not backwards:
        treat(link, line, vessels, leaving, tally)
    leak(line, leaving, tally, dt_s)
    line.arrived_ul += leaving[Content.LIQUID]
    if target == places.chamber:
        into_chamber(vessels, body, places, leaving)
    else:
        add(vessels[target], leaving)


@compiled
def add(row: F8, arriving: F8) -> None:
    """Add a row of contents to another."""
    for column in range(COLUMNS):
        row[column] += arriving[column]


@compiled
def remove_negative(leaving: F8) -> None:
    """Set rounded sums to 0: nothing that leaves can be negative, except the charge of a strong acid."""
    for column in range(COLUMNS):
        if leaving[column] < 0.0 and column != Content.ALKALINITY:
            leaving[column] = 0.0


@compiled
def draw(line: LineRecord, body: Body, giver: F8, entering: F8, volume: float) -> float:
    """Take what enters a line from its source, and count when the pump begins to move air.

    Returns:
        The volume taken (µL), less than `volume` when the source runs dry or a bubble passes.
    """
    air = min(line.bubble_ul, volume)
    line.bubble_ul -= air
    wanted = volume - air
    taken: float = min(wanted, giver[Content.LIQUID])
    if taken < wanted * 0.999:
        if line.dry == 0.0:
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


@compiled
def lose_insulin(entering: F8, taken: float, tally: F8) -> None:
    """Turn the insulin that precipitates at a pass through a pump into particles; `taken` is the volume (µL)."""
    lost = entering[Content.INSULIN] * turnover.insulin_lost(entering[Content.ALBUMIN] / taken)
    entering[Content.INSULIN] -= lost
    tally[TallyCause.PUMP, Content.INSULIN] -= lost
    entering[Content.PARTICLES] += lost
    tally[TallyCause.PUMP, Content.PARTICLES] += lost


@compiled
def filter_out(leaving: F8, body: Body, tally: F8) -> None:
    """Retain particles and microbes in the sterile filter, which fouls; a torn one retains little and fouls no more."""
    torn = body.torn > 0.0
    stopped = 1.0 - membranes.TORN_PASSES if torn else membranes.RETENTION
    for column in (Content.PARTICLES, Content.MICROBES):
        part = leaving[column] * stopped
        leaving[column] -= part
        tally[TallyCause.FILTER, column] -= part
    if not torn:
        grown = membranes.fouled(body.fouling, body.fouling_per_ul * leaving[Content.LIQUID], membranes.LAW)
        body.fouling = min(MAX_FOULING, grown)


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


@compiled
def leak(line: LineRecord, leaving: F8, tally: F8, dt_s: float) -> None:
    """Lose the part of what leaves a line that its leak takes."""
    if line.leak_ul_min <= 0.0 or leaving[Content.LIQUID] <= 0.0:
        return
    part = min(1.0, line.leak_ul_min * dt_s / 60.0 / leaving[Content.LIQUID])
    for column in range(COLUMNS):
        lost = leaving[column] * part
        leaving[column] -= lost
        tally[TallyCause.LEAK, column] -= lost


@compiled
def into_chamber(vessels: F8, body: Body, places: Places, arriving: F8) -> None:
    """Fill the chamber. A full one is stirred and runs over: exact for a steady inflow."""
    chamber, beyond = vessels[places.chamber], vessels[places.overflow]
    full = body.chamber_full_ul
    volume = arriving[Content.LIQUID]
    room = max(0.0, full - chamber[Content.LIQUID])
    if volume <= room:
        add(chamber, arriving)
        return
    # A chamber that is overfull (it was less full at rest) first loses its surplus.
    if chamber[Content.LIQUID] > full:
        share = 1.0 - full / chamber[Content.LIQUID]
        for column in range(COLUMNS):
            part = chamber[column] * share
            chamber[column] -= part
            beyond[column] += part
    first = room / volume
    turns = volume * (1.0 - first) / full
    stays = exp(-turns)
    mixes = (1.0 - stays) / turns if turns > 1e-9 else 1.0 - 0.5 * turns
    for column in range(COLUMNS):
        held = chamber[column] + arriving[column] * first
        rest = arriving[column] * (1.0 - first)
        now = held * stays + rest * mixes
        chamber[column] = now
        beyond[column] += held + rest - now


@compiled
def spill(vessels: F8, traits: Records, body: Body, places: Places, tally: F8, spilled: F8) -> None:
    """Remove what a vessel cannot hold."""
    for number in range(vessels.shape[0]):
        over = vessels[number, Content.LIQUID] - traits[number].capacity_ul
        if over > 0.0 and number != places.chamber:
            spilled[number] += over
            body.events += 1.0
            share = over / vessels[number, Content.LIQUID]
            for column in range(COLUMNS):
                lost = vessels[number, column] * share
                vessels[number, column] -= lost
                tally[TallyCause.OVERFLOW, column] -= lost
