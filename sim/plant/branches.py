"""Junctions: how pumps and branches share flow and pressure.

A junction has no volume: what flows in flows out. A branch resists by Hagen–Poiseuille, q = (p1 − p2)/R; a pump gives
q = Q0·(1 − (R·q + p2 − p1)/P_stall), which is linear too. So the pressures of all junctions follow from one symmetric set of
linear equations; vessels are at the pressure of the room. An occlusion multiplies the conductance of a branch.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sim.plant import hydraulics
from sim.plant.columns import LineRecord, Sizes
from sim.plant.compiled import compiled

F8 = NDArray[np.float64]
Records = NDArray[np.void]

PRESSURE, ORDER, SPARE = 0, 1, 2
"""Columns of the network's array after its matrix: pressures (kPa), junctions by falling pressure, and one to spare.

Shape (junctions, junctions + SPARE)."""
CHECKS = 8
"""How often the check valves are looked at until they agree with the pressures."""
CLOSED = 1e-12
"""A junction whose conductance has fallen to this share of it has no way out."""


@compiled
def set_flow(line: LineRecord, flow_ul_min: float) -> None:
    """Set the flow of a pumped line, and the pressure behind its pump that follows from it."""
    if line.one_way > 0.0 and flow_ul_min < 0.0:
        flow_ul_min = 0.0
    line.flow_ul_s = flow_ul_min / 60.0
    free = line.free_ul_min
    if free != 0.0:
        line.pressure_kpa = hydraulics.P_STALL_KPA * max(0.0, 1.0 - abs(flow_ul_min / free))
        if free < 0.0:  # the gauge is on the delivery side: a pump that turns backwards causes suction there
            line.pressure_kpa = -line.pressure_kpa


@compiled
def balance(links: Records, lines: Records, sizes: Sizes, network: F8) -> None:
    """Find the pressures of the junctions, and from them the flows of the lines there."""
    for _ in range(CHECKS):
        assemble(links, lines, sizes, network)
        solve(network, sizes.junctions)
        if not check(links, lines, sizes, network):
            break
    for number in range(sizes.pumped + sizes.branches):
        a, b = links[number].source - sizes.vessels, links[number].target - sizes.vessels
        if a < 0 and b < 0:
            continue
        line = lines[number]
        start, end = pressure(a, network, sizes.junctions), pressure(b, network, sizes.junctions)
        if number < sizes.pumped:
            driven, conductance = pump(line)
            set_flow(line, driven + conductance * (start - end))
        else:
            line.flow_ul_s = open_conductance(line) * (start - end) / 60.0
            line.pressure_kpa = start if a >= 0 else end
    sort(network, sizes.junctions)


@compiled
def pressure(junction: int, network: F8, count: int) -> float:
    """Return the pressure of a junction (kPa); that of a vessel, which has a negative number here, is the room's."""
    found: float = network[junction, count + PRESSURE] if junction >= 0 else 0.0
    return found


@compiled
def assemble(links: Records, lines: Records, sizes: Sizes, network: F8) -> None:
    """Write down the balance of each junction: conductances, and in the next column what pumps bring."""
    network[:] = 0.0
    count = sizes.junctions
    for number in range(sizes.pumped + sizes.branches):
        a, b = links[number].source - sizes.vessels, links[number].target - sizes.vessels
        if a < 0 and b < 0:
            continue
        driven, conductance = pump(lines[number]) if number < sizes.pumped else (0.0, open_conductance(lines[number]))
        if a >= 0:
            network[a, a] += conductance
            network[a, count] -= driven
        if b >= 0:
            network[b, b] += conductance
            network[b, count] += driven
        if a >= 0 and b >= 0:
            network[a, b] -= conductance
            network[b, a] -= conductance


@compiled
def check(links: Records, lines: Records, sizes: Sizes, network: F8) -> bool:
    """Shut the check valves of branches that would run backwards, and open the others; return whether one changed."""
    changed = False
    for number in range(sizes.pumped, sizes.pumped + sizes.branches):
        line = lines[number]
        if line.one_way == 0.0:
            continue
        start = pressure(links[number].source - sizes.vessels, network, sizes.junctions)
        end = pressure(links[number].target - sizes.vessels, network, sizes.junctions)
        shut = 1.0 if start < end else 0.0
        changed = changed or shut != line.shut
        line.shut = shut
    return changed


@compiled
def pump(line: LineRecord) -> tuple[float, float]:
    """Return what a pump gives against no pressure (µL/min), and what it loses of it by pressure (µL/min per kPa)."""
    free = line.free_ul_min * line.flow_scale if line.open > 0.0 else 0.0
    if line.one_way > 0.0 and free < 0.0:
        free = 0.0
    loss = abs(free) / hydraulics.P_STALL_KPA
    resisted = 1.0 + line.kpa_in_series * abs(line.free_ul_min) / hydraulics.P_STALL_KPA
    return free / resisted, loss / resisted


@compiled
def open_conductance(line: LineRecord) -> float:
    """Return the conductance of a branch (µL/min per kPa) with its valve and its occlusion."""
    return max(0.0, line.flow_scale) / line.kpa_in_series if line.open > 0.0 and line.shut == 0.0 else 0.0


@compiled
def solve(network: F8, count: int) -> None:
    """Solve the equations in place by elimination; junctions with no way out are left at the pressure of the room."""
    for k in range(count):
        whole = network[k, k]
        network[k, count + ORDER] = whole
    for k in range(count):
        if network[k, k] <= CLOSED * network[k, count + ORDER]:
            continue
        for row in range(k + 1, count):
            factor = network[row, k] / network[k, k]
            if factor != 0.0:
                for column in range(k, count + 1):
                    network[row, column] -= factor * network[k, column]
    for back in range(count):
        k = count - 1 - back
        if network[k, k] <= CLOSED * network[k, count + ORDER]:
            network[k, count] = 0.0
            continue
        total = network[k, count]
        for column in range(k + 1, count):
            total -= network[k, column] * network[column, count]
        network[k, count] = total / network[k, k]


@compiled
def sort(network: F8, count: int) -> None:
    """Put the junctions in the order of falling pressure."""
    for k in range(count):
        network[k, count + ORDER] = k
    for k in range(1, count):
        moving = network[k, count + ORDER]
        pressure = network[int(moving), count]
        at = k
        while at > 0 and network[int(network[at - 1, count + ORDER]), count] < pressure:
            network[at, count + ORDER] = network[at - 1, count + ORDER]
            at -= 1
        network[at, count + ORDER] = moving


@compiled
def out_of(node: int, number: int, links: Records, lines: Records) -> float:
    """Return what a branch takes out of a junction (µL/s); 0 for one that is elsewhere or brings."""
    flow: float = lines[number].flow_ul_s
    if links[number].source == node:
        return max(0.0, flow)
    return max(0.0, -flow) if links[number].target == node else 0.0


@compiled
def leaving_ul_s(node: int, links: Records, lines: Records, sizes: Sizes) -> float:
    """Return what all branches take out of a junction (µL/s)."""
    total = 0.0
    for number in range(sizes.pumped, sizes.pumped + sizes.branches):
        total += out_of(node, number, links, lines)
    return total
