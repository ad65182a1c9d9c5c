"""Passive outlets: a full vessel runs over into another, over collecting junctions and further vessels as well.

Outlets run by gravity and are mostly air: they have no dead volume. Several open outlets of one vessel share what runs over
by their resistance. A closed outlet holds the liquid back: the vessel then fills to its capacity.
"""

from __future__ import annotations

from math import exp

import numpy as np
from numpy.typing import NDArray

from sim.plant.columns import COLUMNS, Body, Content, TallyCause
from sim.plant.compiled import compiled, inlined
from sim.plant.rows import add, leak

F8 = NDArray[np.float64]
Records = NDArray[np.void]
PENDING = 5
"""First of the rows of scratch that hold what is on its way into a node, one for each node."""
OVER = 4
"""The row of scratch that holds what runs over."""


@compiled
def open_outlets(nodes: Records, outlets: Records, lines: Records) -> None:
    """Find the outlets from which the way to a vessel is open, the last ones first."""
    for k in range(nodes.shape[0] - 1, -1, -1):
        number = nodes[k].draining
        if number < 0:
            continue
        for outlet in range(nodes[number].first_outlet, nodes[number].first_outlet + nodes[number].outlets):
            line = lines[outlets[outlet].line]
            line.passes = (
                1.0 if line.open > 0.0 and line.flow_scale > 0.0 and ahead(outlet, nodes, outlets, lines) else 0.0
            )


@compiled
def ahead(outlet: int, nodes: Records, outlets: Records, lines: Records) -> bool:
    """Return whether medium can leave the far end of an outlet: a vessel, or a junction with an open outlet."""
    target = outlets[outlet].target
    return nodes[target].holds == 1 or drains(target, nodes, outlets, lines)


@compiled
def drains(number: int, nodes: Records, outlets: Records, lines: Records) -> bool:
    """Return whether an outlet of a node is open."""
    node = nodes[number]
    for outlet in range(node.first_outlet, node.first_outlet + node.outlets):
        if lines[outlets[outlet].line].passes > 0.0:
            return True
    return False


@inlined
def deliver(
    target: int, arriving: F8, nodes: Records, outlets: Records, traits: Records, vessels: F8, lines: Records, tally: F8,
    scratch: F8, dt_s: float,
) -> None:  # fmt: skip
    """Put what arrives into a node, and let what it cannot hold run on."""
    node = nodes[target]
    if node.outlets == 0:
        add(vessels[target], arriving)
        return
    outlet = outlets[node.first_outlet]
    line = lines[outlet.line]
    if node.outlets == 1 and line.passes > 0.0 and line.leak_ul_min == 0.0 and nodes[outlet.target].outlets == 0:
        full = traits[target].overflow_ul
        over = run_over(vessels[target], full, arriving, vessels[outlet.target])
        line.moved_ul += over
        line.arrived_ul += over
        return
    pour(target, arriving, nodes, outlets, traits, vessels, lines, tally, scratch, dt_s)


@inlined
def run_over(chamber: F8, full: float, arriving: F8, beyond: F8) -> float:
    """Fill a vessel that runs over at `full`. A full one is stirred and runs over: exact for a steady inflow.

    Returns:
        The volume that went beyond (µL).
    """
    volume = arriving[Content.LIQUID]
    room = max(0.0, full - chamber[Content.LIQUID])
    if volume <= room:
        add(chamber, arriving)
        return 0.0
    before = chamber[Content.LIQUID]
    # A chamber that is overfull (it was less full at rest) first loses its surplus.
    if chamber[Content.LIQUID] > full:
        share = 1.0 - full / chamber[Content.LIQUID]
        for column in range(COLUMNS):
            part = chamber[column] * share
            chamber[column] -= part
            beyond[column] += part
    first = room / volume
    turns = volume * (1.0 - first) / full if full > 0.0 else np.inf
    stays = exp(-turns)
    mixes = (1.0 - stays) / turns if turns > 1e-9 else 1.0 - 0.5 * turns
    for column in range(COLUMNS):
        held = chamber[column] + arriving[column] * first
        rest = arriving[column] * (1.0 - first)
        now = held * stays + rest * mixes
        chamber[column] = now
        beyond[column] += held + rest - now
    over: float = before + volume - chamber[Content.LIQUID]
    return over


@compiled
def pour(
    target: int, arriving: F8, nodes: Records, outlets: Records, traits: Records, vessels: F8, lines: Records, tally: F8,
    scratch: F8, dt_s: float,
) -> None:  # fmt: skip
    """Fill a node and everything that it runs over into, upstream first."""
    add(scratch[PENDING + target], arriving)
    waiting = 1
    for k in range(nodes[target].place, nodes.shape[0]):
        number = nodes[k].draining
        if waiting == 0 or number < 0:
            break
        pending = scratch[PENDING + number]
        if pending[Content.LIQUID] == 0.0:
            continue
        waiting -= 1
        if drains(number, nodes, outlets, lines):
            over = scratch[OVER]
            over[:] = 0.0
            run_over(vessels[number], traits[number].overflow_ul, pending, over)
            waiting += share_out(number, over, nodes, outlets, vessels, lines, tally, scratch, dt_s)
        else:
            add(vessels[number], pending)
        pending[:] = 0.0
    for number in range(vessels.shape[0] if waiting > 0 else 0):  # outlets in a circle
        add(vessels[number], scratch[PENDING + number])
        scratch[PENDING + number, :] = 0.0


@compiled
def share_out(
    number: int, over: F8, nodes: Records, outlets: Records, vessels: F8, lines: Records, tally: F8, scratch: F8,
    dt_s: float,
) -> int:  # fmt: skip
    """Share what runs over a node out to its open outlets, by their resistance.

    Returns:
        How many nodes have got something that they may not hold.
    """
    node = nodes[number]
    conductance = 0.0
    for outlet in range(node.first_outlet, node.first_outlet + node.outlets):
        line = lines[outlets[outlet].line]
        conductance += line.passes / line.kpa_per_ul_min
    started = 0
    part = scratch[0]
    for outlet in range(node.first_outlet, node.first_outlet + node.outlets):
        line = lines[outlets[outlet].line]
        if line.passes == 0.0:
            continue
        share = 1.0 / line.kpa_per_ul_min / conductance
        for column in range(COLUMNS):
            part[column] = over[column] * share
        line.moved_ul += part[Content.LIQUID]
        leak(line, part, tally, dt_s)
        line.arrived_ul += part[Content.LIQUID]
        target = outlets[outlet].target
        if nodes[target].outlets == 0:
            add(vessels[target], part)
        elif part[Content.LIQUID] > 0.0:
            started += 1 if scratch[PENDING + target, Content.LIQUID] == 0.0 else 0
            add(scratch[PENDING + target], part)
    return started


@compiled
def spill(
    vessels: F8, nodes: Records, outlets: Records, traits: Records, lines: Records, body: Body, tally: F8, spilled: F8
) -> None:
    """Remove what a vessel cannot hold."""
    for number in range(spilled.shape[0]):
        over = vessels[number, Content.LIQUID] - traits[number].capacity_ul
        if over > 0.0 and not drains(number, nodes, outlets, lines):
            spilled[number] += over
            body.events += 1.0
            share = over / vessels[number, Content.LIQUID]
            for column in range(COLUMNS):
                lost = vessels[number, column] * share
                vessels[number, column] -= lost
                tally[TallyCause.OVERFLOW, column] -= lost
