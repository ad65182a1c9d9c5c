"""The plant of a rig as numbered things: nodes, lines, passive outlets, spaces, and the groups that take turns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import ceil

import numpy as np
from numpy.typing import NDArray

from controller.rig.description import Line, Rig
from controller.rig.families import TEMPERATURE, points_of
from sim.plant.columns import LINK, NODE, OUTLET, Sizes
from sim.plant.hydraulics import tube_kpa_per_ul_min

INSIDE = {"loop", "chamber", "process"}
"""Kinds of vessels in the incubator."""
EACH_STEP = 6
"""So many chambers exchange gas and live in each step; where there are more, they take turns."""
MAX_STRIDE = 12
"""At most so many steps pass between two turns: less than a minute, in which a chamber's medium hardly changes."""
GRID_S, COARSE_GRID_S = 2.0, 4.0
MANY = 24
"""Rigs with more chambers take the coarser steps; docs/validation.md has the error of either."""


@dataclass(slots=True)
class Layout:
    """What is where in the plant's arrays."""

    rig: Rig
    nodes: dict[str, int]
    """Vessels, then junctions, then selectors: a selector is a junction of which one branch at most is open."""
    lines: dict[str, Line]
    """Pumped lines, then branches, then passive outlets."""
    sizes: Sizes
    zones: list[str | None]
    """Zone of each space; the first is that of the loop, or of the first chamber where there is no loop."""
    gassed_alone: str | None
    """See :func:`gassed_alone`; the last space is the head space of this vessel."""
    loop: int | None
    spent: int | None
    hosts: list[int]
    """Chambers of the tissues."""
    outlets: list[tuple[int, int, int]] = field(default_factory=list)
    """Node, line and target, by node."""

    @property
    def grid_s(self) -> float:
        """Return the length of a step (s)."""
        return GRID_S if self.sizes.tissues <= MANY else COARSE_GRID_S

    def space_of(self, vessel: str) -> int:
        """Return the number of the space of a vessel."""
        zone = self.rig.vessels[vessel].zone
        return self.zones.index(zone) if zone in self.zones else 0

    def gas_of(self, vessel: str) -> int:
        """Return the number of the space whose gas is above the medium of a vessel."""
        return self.sizes.spaces - 1 if vessel == self.gassed_alone else self.space_of(vessel)

    @property
    def vessel_names(self) -> list[str]:
        """Return the names of the vessels by number."""
        return list(self.nodes)[: self.sizes.vessels]


def layout_of(rig: Rig) -> Layout:
    """Return the layout of a rig's plant."""
    joints = joints_of(rig)
    nodes = {name: number for number, name in enumerate((*rig.vessels, *joints))}
    pumped = {name: line for name, line in rig.lines.items() if line.pump is not None}
    passive = {name: line for name, line in rig.lines.items() if line.pump is None}
    driven, sucked = _driven(rig), _sucked(rig)
    branches = {
        name: line
        for name, line in passive.items()
        if line.from_ in driven or (line.to in sucked and line.from_ in rig.vessels)
    }
    lines = {**pumped, **branches, **{name: line for name, line in passive.items() if name not in branches}}
    loop, kidney = loop_of(rig), rig.organs.kidney
    outlets = list(_outlets(nodes, lines, len(pumped), set(branches), set(joints)))
    main = rig.vessels[loop or next(iter(rig.tissue))].zone
    zones = dict.fromkeys((main, *(rig.vessels[name].zone for name in with_space(rig))))
    alone = gassed_alone(rig)
    chambers = sum(vessel.kind == "chamber" for vessel in rig.vessels.values())
    stride = min(MAX_STRIDE, ceil(chambers / EACH_STEP))
    sizes = Sizes(
        vessels=len(rig.vessels), junctions=len(joints), pumped=len(pumped), branches=len(branches),
        lines=len(lines), outlets=len(outlets), spaces=len(zones) + (alone is not None), tissues=len(rig.tissue),
        stride=stride if stride > 1 else 0,
    )  # fmt: skip
    return Layout(
        rig, nodes, lines, sizes, list(zones), alone, None if loop is None else nodes[loop],
        None if kidney is None else nodes[kidney.vessel], [nodes[name] for name in rig.tissue], outlets,
    )  # fmt: skip


def with_space(rig: Rig) -> list[str]:
    """Return the vessels whose surroundings are simulated: those in the incubator, and those with a thermometer."""
    points = (point.partition(".")[0] for point, kind in points_of(rig).items() if kind == TEMPERATURE)
    measured = {rig.devices[name].at for name in points}
    return [name for name, vessel in rig.vessels.items() if vessel.kind in INSIDE or name in measured]


def gassed_alone(rig: Rig) -> str | None:
    """Return the vessel that alone has the lung's gas; None without a lung, or where its gas fills the housing [P].

    The gas of an oxygenator leaves it into the housing of loop and tubes; in a rig without a loop the culture vessel is the
    oxygenator. From any other vessel the gas leaves through a vent, and the housing keeps the gas of its zone.
    """
    lung, loop = rig.organs.lung, loop_of(rig)
    if lung is None or lung.vessel == loop or (loop is None and rig.vessels[lung.vessel].kind in INSIDE):
        return None
    return lung.vessel


def joints_of(rig: Rig) -> tuple[str, ...]:
    """Return the places without volume: junctions, then selectors."""
    return (*rig.junctions, *rig.selectors)


def loop_of(rig: Rig) -> str | None:
    """Return the loop: the vessel of that kind from which a heart draws, else any of that kind; None without one."""
    drawn_from = [rig.lines[heart.line].from_ for heart in rig.organs.hearts.values() if heart.line in rig.lines]
    loops = [name for name in (*drawn_from, *rig.vessels) if name in rig.vessels and rig.vessels[name].kind == "loop"]
    return loops[0] if loops else None


def node_rows(layout: Layout) -> NDArray[np.void]:
    """Return the records of the nodes."""
    rig, sizes = layout.rig, layout.sizes
    rows = np.zeros(sizes.vessels + sizes.junctions, dtype=NODE)
    rows["group"], rows["draining"] = -1, -1
    chambers = 0
    for name, vessel in rig.vessels.items():
        row = rows[layout.nodes[name]]
        row["space"], row["gas"], row["holds"] = layout.space_of(name), layout.gas_of(name), 1
        if sizes.stride and vessel.kind == "chamber":
            row["group"] = chambers % sizes.stride
            chambers += 1
    for number, (node, _, _) in enumerate(layout.outlets):
        if rows["outlets"][node] == 0:
            rows["first_outlet"][node] = number
        rows["outlets"][node] += 1
    for place, node in enumerate(_draining(layout.outlets)):
        rows["draining"][place], rows["place"][node] = node, place
    return rows


def link_rows(layout: Layout) -> NDArray[np.void]:
    """Return the records of how lines are connected."""
    rig, nodes = layout.rig, node_rows(layout)
    kidney = rig.organs.kidney
    passive_outlets = list(layout.lines)[layout.sizes.pumped + layout.sizes.branches :]
    rows = np.zeros(layout.sizes.lines, dtype=LINK)
    for row, (name, line) in zip(rows, layout.lines.items(), strict=True):
        source, target = layout.nodes[line.from_], layout.nodes[line.to]
        inside = [end for end in (line.from_, line.to) if end in rig.vessels and rig.vessels[end].kind in INSIDE]
        row["source"], row["target"] = source, target
        row["filtered"] = line.filter is not None
        row["breathes"] = name not in passive_outlets and _is_inside(rig, line.from_) and _is_inside(rig, line.to)
        row["returns"] = kidney is not None and name == kidney.return_
        row["dialyses"] = -1 if line.dialyser is None else layout.nodes[rig.dialysers[line.dialyser].vessel]
        row["space"] = layout.space_of(inside[0]) if inside else 0
        row["group"] = max(nodes["group"][source], nodes["group"][target])
    return rows


def outlet_rows(layout: Layout) -> NDArray[np.void]:
    """Return the records of the passive outlets."""
    rows = np.zeros(layout.sizes.outlets, dtype=OUTLET)
    for row, (_, line, target) in zip(rows, layout.outlets, strict=True):
        row["line"], row["target"] = line, target
    return rows


def perfused(rig: Rig) -> dict[str, float]:
    """Return the vessels through which hearts lead medium, with the flow (µL/min) that they get of it by design.

    It passes junctions, in shares by the resistance of their branches, and overflows.
    """
    flows: dict[str, float] = {}
    for heart in rig.organs.hearts.values():
        if heart.line in rig.lines:
            _follow(rig, rig.lines[heart.line].to, heart.flow_ul_min, flows, ())
    return flows


def conductance(line: Line) -> float:
    """Return the conductance of a line's tube (µL/min per kPa)."""
    return 1.0 / tube_kpa_per_ul_min(line.bore_mm, line.length_m)


def _follow(rig: Rig, node: str, flow_ul_min: float, flows: dict[str, float], way: tuple[str, ...]) -> None:
    """Add to `flows` what a flow into `node` brings to it and to the vessels that passive lines lead to from there."""
    if node in way:
        return
    if node in rig.vessels:
        flows[node] = flows.get(node, 0.0) + flow_ul_min
        if rig.vessels[node].kind != "chamber":
            return
    onward = [line for line in rig.lines.values() if line.from_ == node and line.pump is None]
    whole = sum(map(conductance, onward))
    for line in onward:
        _follow(rig, line.to, flow_ul_min * conductance(line) / whole, flows, (*way, node))


def _driven(rig: Rig) -> set[str]:
    """Return the junctions in which a pump drives the medium, directly or over other junctions."""
    joints = joints_of(rig)
    pumped = [line for line in rig.lines.values() if line.pump is not None]
    found = {end for line in pumped for end in (line.from_, line.to) if end in joints}
    while more := {
        end
        for line in rig.lines.values()
        if line.pump is None and found & {line.from_, line.to}
        for end in (line.from_, line.to)
        if end in joints and end not in found
    }:
        found |= more
    return found


def _sucked(rig: Rig) -> set[str]:
    """Return the junctions from which a pump draws, directly or over other junctions."""
    joints = joints_of(rig)
    found = {line.from_ for line in rig.lines.values() if line.pump is not None and line.from_ in joints}
    while more := {
        line.from_
        for line in rig.lines.values()
        if line.pump is None and line.to in found and line.from_ in joints and line.from_ not in found
    }:
        found |= more
    return found


def _outlets(
    nodes: Mapping[str, int], lines: Mapping[str, Line], pumped: int, branches: set[str], junctions: set[str]
) -> Iterator[tuple[int, int, int]]:
    """Yield the passive outlets by node: those of vessels, and all passive lines that leave a junction."""
    for name, node in nodes.items():
        for number, (line_name, line) in enumerate(lines.items()):
            if number >= pumped and line.from_ == name and (name in junctions or line_name not in branches):
                yield node, number, nodes[line.to]


def _draining(outlets: list[tuple[int, int, int]]) -> list[int]:
    """Return the nodes with outlets, upstream first; in a circle the order is that of the rig file."""
    left = list(dict.fromkeys(node for node, _, _ in outlets))
    order: list[int] = []
    while left:
        fed = {target for node, _, target in outlets if node in left}
        first = next((node for node in left if node not in fed), left[0])
        order.append(first)
        left.remove(first)
    return order


def _is_inside(rig: Rig, end: str) -> bool:
    """Return whether an end of a line is in an incubator: a vessel by its kind, a junction by what it branches to."""
    if end in rig.vessels:
        return rig.vessels[end].kind in INSIDE
    ends = {other for line in rig.lines.values() if line.pump is None and end in (line.from_, line.to)
            for other in (line.from_, line.to)}  # fmt: skip
    return all(rig.vessels[other].kind in INSIDE for other in ends if other in rig.vessels)
